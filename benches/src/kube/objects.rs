//! The key space: resources, their objects, and the mod revision that the API servers know of each.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use rand::Rng;
use rand::rngs::StdRng;

use super::sizes::Size;

/// Namespaces of a cluster.
const NAMESPACES: usize = 500;
/// How unevenly pods are spread over them.
const ZIPF: f64 = 0.9;
/// Letters of the random end of a name.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Resources of a cluster: one list and one watch of each by API server.
pub(crate) const RESOURCES: usize = 61;

/// A resource that is written. The others are listed and watched, and empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Node leases and those of leader elections.
    Leases,
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// Events; all on leases.
    Events,
    /// Replica sets, which stand for all that controllers write.
    Others,
    /// Addresses of the API servers.
    Masters,
}

impl Resource {
    /// Its place among the resources.
    pub(crate) fn place(self) -> usize {
        self as usize
    }

    /// How its keys begin.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Resource::Leases => "/registry/leases/",
            Resource::Nodes => "/registry/minions/",
            Resource::Pods => "/registry/pods/",
            Resource::Events => "/registry/events/",
            Resource::Others => "/registry/replicasets/",
            Resource::Masters => "/registry/masterleases/",
        }
    }

    /// How large its values are.
    pub(crate) fn size(self) -> Size {
        match self {
            Resource::Leases => Size::Fixed(500),
            Resource::Nodes => Size::Lognormal { p50: 8_000.0, p99: 16_000.0 },
            Resource::Pods => Size::Lognormal { p50: 3_000.0, p99: 10_000.0 },
            Resource::Events => Size::Even(600, 900),
            Resource::Others => Size::Lognormal { p50: 1_500.0, p99: 20_000.0 },
            Resource::Masters => Size::Fixed(62),
        }
    }
}

/// The resources that are written, in the order of their places.
const WRITTEN: [Resource; 6] = [
    Resource::Leases,
    Resource::Nodes,
    Resource::Pods,
    Resource::Events,
    Resource::Others,
    Resource::Masters,
];

/// The prefixes of all resources.
pub(crate) fn prefixes() -> Vec<String> {
    let idle = (WRITTEN.len()..RESOURCES).map(|number| format!("/registry/resource-{number:02}/"));
    WRITTEN.iter().map(|resource| resource.prefix().to_owned()).chain(idle).collect()
}

/// An object as the API servers know it.
#[derive(Debug)]
pub(crate) struct Object {
    /// Which resource it is of.
    pub(crate) resource: Resource,
    /// Its key.
    pub(crate) key: Bytes,
    /// Its mod revision as last seen; 0 if it does not exist.
    pub(crate) revision: Cell<i64>,
    /// Bytes of its value; an update keeps them.
    pub(crate) value_bytes: usize,
}

/// Makes names and draws objects.
pub(crate) struct Names {
    /// By namespace: the sum of the weights up to it.
    weights: Vec<f64>,
}

impl Names {
    /// Namespaces of falling popularity.
    pub(crate) fn new() -> Self {
        let mut sum = 0.0;
        let weights = (1..=NAMESPACES).map(|rank| {
            sum += 1.0 / (rank as f64).powf(ZIPF);
            sum
        });
        Names { weights: weights.collect() }
    }

    fn namespace(&self, random: &mut StdRng) -> usize {
        let total = self.weights.last().copied().unwrap_or_default();
        let at = random.random_range(0.0..total);
        self.weights.partition_point(|sum| *sum <= at)
    }

    /// A new object of `resource` with a random name, not yet written.
    pub(crate) fn object(&self, resource: Resource, random: &mut StdRng) -> Rc<Object> {
        let mut letters = |count: usize| -> String {
            (0..count).map(|_| char::from(SUFFIX[random.random_range(0..SUFFIX.len())])).collect()
        };
        let (long, short) = (letters(10), letters(5));
        let prefix = resource.prefix();
        let key = match resource {
            Resource::Leases => format!("{prefix}kube-node-lease/node-{long}-{short}"),
            Resource::Nodes | Resource::Masters => format!("{prefix}{long}-{short}"),
            Resource::Events => {
                let more = letters(16);
                format!("{prefix}namespace-{:03}/workload-{long}-{short}.{more}", self.namespace(random))
            }
            Resource::Pods | Resource::Others => {
                format!("{prefix}namespace-{:03}/workload-{long}-{short}", self.namespace(random))
            }
        };
        let value_bytes = resource.size().draw(random);
        Rc::new(Object { resource, key: key.into(), revision: Cell::new(0), value_bytes })
    }
}

/// The objects of one resource.
#[derive(Debug, Default)]
pub(crate) struct Objects(RefCell<Vec<Rc<Object>>>);

impl Objects {
    /// Adds one.
    pub(crate) fn add(&self, object: Rc<Object>) {
        self.0.borrow_mut().push(object);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// The one at a place, which stays the same while none is taken out.
    pub(crate) fn at(&self, place: usize) -> Rc<Object> {
        Rc::clone(&self.0.borrow()[place])
    }

    /// Any of them.
    pub(crate) fn any(&self, random: &mut StdRng) -> Option<Rc<Object>> {
        let objects = self.0.borrow();
        (!objects.is_empty()).then(|| Rc::clone(&objects[random.random_range(0..objects.len())]))
    }

    /// Takes any of them out, so that nobody else changes it.
    pub(crate) fn take(&self, random: &mut StdRng) -> Option<Rc<Object>> {
        let mut objects = self.0.borrow_mut();
        let len = objects.len();
        (len > 0).then(|| objects.swap_remove(random.random_range(0..len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::payload::slot_random;

    #[test]
    fn places_are_prefixes() {
        let prefixes = prefixes();
        assert_eq!(prefixes.len(), RESOURCES);
        for resource in WRITTEN {
            assert_eq!(prefixes[resource.place()], resource.prefix());
        }
    }

    #[test]
    fn keys_have_the_lengths_seen_in_clusters() {
        let (names, mut random) = (Names::new(), slot_random(1, 0));
        for (resource, lengths) in [
            (Resource::Leases, 40..=76),
            (Resource::Nodes, 25..=60),
            (Resource::Pods, 40..=70),
            (Resource::Events, 59..=90),
            (Resource::Others, 30..=90),
        ] {
            let key = names.object(resource, &mut random).key.clone();
            assert!(lengths.contains(&key.len()), "{resource:?}: {} bytes", key.len());
        }
    }

    #[test]
    fn namespaces_are_uneven() {
        let (names, mut random) = (Names::new(), slot_random(1, 0));
        let drawn: Vec<usize> = (0..20_000).map(|_| names.namespace(&mut random)).collect();
        let share = |namespace| drawn.iter().filter(|drawn| **drawn == namespace).count();
        assert!(share(0) > 5 * share(20).max(1), "the first has {}, the 21st {}", share(0), share(20));
        assert!(drawn.iter().all(|namespace| *namespace < NAMESPACES));
    }
}
