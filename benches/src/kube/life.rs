//! What happens when an action arrives: one call, or the life of a pod.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng;

use super::calls::Callers;
use super::objects::{Object, RESOURCES, Resource};
use super::rates::Action;

/// Seconds that an event lives.
pub(crate) const EVENT_TTL_SECONDS: i64 = 3660;
/// Seconds that the address of an API server lives.
const MASTER_TTL_SECONDS: i64 = 15;

/// How often somebody who waits looks whether the run is over.
const GLANCE: Duration = Duration::from_millis(100);

/// What actions remember from one arrival to the next.
pub(crate) struct Places {
    /// The resource that each API server lists next.
    pub(crate) scan: Vec<Cell<usize>>,
    /// The object that the compactor writes.
    pub(crate) compactor: Object,
}

impl Callers {
    /// Does what an action asks for, to its end.
    pub(crate) async fn act(&self, places: &Places, action: Action) {
        match action {
            Action::Renew(place) => {
                let lease = self.of(Resource::Leases).at(place);
                self.update("lease renew", &lease).await;
            }
            Action::Master(apiserver) => {
                if let Some(lease) = self.grant(Resource::Masters, MASTER_TTL_SECONDS).await {
                    let master = self.of(Resource::Masters).at(apiserver);
                    self.put("master lease", &master, master.revision.get(), lease).await;
                }
            }
            Action::NodeStatus => self.update_any("node status", Resource::Nodes).await,
            Action::PodStart => self.pod_start().await,
            Action::PodStop => self.pod_stop().await,
            Action::Controller => self.controller().await,
            Action::CurrentRevision => {
                let place = self.random.borrow_mut().random_range(0..RESOURCES);
                let key = Bytes::copy_from_slice(self.prefixes[place].as_bytes());
                self.get("current revision", place, key).await;
            }
            Action::Get => self.read_any().await,
            Action::EventLease => {
                if let Some(lease) = self.grant(Resource::Events, EVENT_TTL_SECONDS).await {
                    self.event_lease.set(lease);
                }
            }
            Action::Scan(apiserver) => {
                let place = places.scan[apiserver].get();
                places.scan[apiserver].set((place + 1) % RESOURCES);
                self.list("list", self.connection_of(apiserver, place), place).await;
            }
            Action::Compact => {
                let revision = self.compact_next.replace(self.head.get());
                if revision > 0 {
                    self.update("compact key", &places.compactor).await;
                    self.compact(revision).await;
                }
            }
            Action::Progress(..) => {
                unreachable!("progress is asked on a watch stream, which the run holds, not by a call")
            }
        }
    }

    async fn update(&self, kind: &'static str, object: &Object) -> bool {
        self.put(kind, object, object.revision.get(), 0).await
    }

    async fn update_any(&self, kind: &'static str, resource: Resource) {
        let object = self.of(resource).any(&mut self.random.borrow_mut());
        if let Some(object) = object {
            self.update(kind, &object).await;
        }
    }

    /// One of a hundred writes sends a revision that is out of date.
    async fn controller(&self) {
        const STALE_PERCENT: u32 = 1;
        let (object, stale) = {
            let mut random = self.random.borrow_mut();
            (self.of(Resource::Others).any(&mut random), random.random_range(0..100) < STALE_PERCENT)
        };
        if let Some(object) = object {
            let expected = object.revision.get() - i64::from(stale);
            self.put("controller update", &object, expected, 0).await;
        }
    }

    /// Half of all reads ask for what does not exist.
    async fn read_any(&self) {
        let key = {
            let mut random = self.random.borrow_mut();
            let pod = self.of(Resource::Pods).any(&mut random);
            let exists = random.random_range(0..2) == 0;
            match pod {
                Some(pod) if exists => pod.key.clone(),
                _ => self.names.object(Resource::Pods, &mut random).key.clone(),
            }
        };
        self.get("get", Resource::Pods.place(), key).await;
    }

    /// Waits a random time; whether the run still goes on.
    async fn wait(&self, from_ms: u64, to_ms: u64) -> bool {
        let millis = self.random.borrow_mut().random_range(from_ms..=to_ms);
        let mut left = Duration::from_millis(millis);
        while !left.is_zero() && !self.stop.get() {
            let slice = left.min(GLANCE);
            tokio::time::sleep(slice).await;
            left -= slice;
        }
        !self.stop.get()
    }

    async fn event(&self) {
        let event = self.names.object(Resource::Events, &mut self.random.borrow_mut());
        self.put("event create", &event, 0, self.event_lease.get()).await;
    }

    /// Create, an event, bind, an event, three times status and an event; for half of the pods an owner is updated.
    async fn pod_start(&self) {
        const STATUS_CHANGES: u32 = 3;
        let (pod, owner) = {
            let mut random = self.random.borrow_mut();
            (self.names.object(Resource::Pods, &mut random), random.random_range(0..2) == 0)
        };
        if !self.put("pod create", &pod, 0, 0).await {
            return;
        }
        self.event().await;
        if self.wait(10, 100).await {
            self.update("pod bind", &pod).await;
            self.event().await;
            for _ in 0..STATUS_CHANGES {
                if !self.wait(1000, 3000).await {
                    break;
                }
                self.update("pod status", &pod).await;
                self.event().await;
            }
            if owner {
                self.update_any("controller update", Resource::Others).await;
            }
        }
        self.of(Resource::Pods).add(pod);
    }

    /// Two updates, delete; three reads; for three of ten a delete that comes too late.
    async fn pod_stop(&self) {
        const READS: u32 = 3;
        let (pod, late_delete) = {
            let mut random = self.random.borrow_mut();
            (self.of(Resource::Pods).take(&mut random), random.random_range(0..10) < 3)
        };
        let Some(pod) = pod else { return };
        self.update("pod status", &pod).await;
        if self.wait(500, 1500).await {
            self.update("pod status", &pod).await;
            for _ in 0..READS {
                self.get("get", Resource::Pods.place(), pod.key.clone()).await;
            }
        }
        if late_delete {
            self.delete("pod delete, stale", &pod, pod.revision.get() - 1).await;
        }
        self.delete("pod delete", &pod, pod.revision.get()).await;
    }

    /// A mass event: `count` pods change at once.
    pub(crate) fn pods_at_once(self: &Rc<Self>, count: usize) -> Vec<tokio::task::JoinHandle<()>> {
        let update = |_| {
            let callers = Rc::clone(self);
            tokio::task::spawn_local(async move {
                callers.update_any("pod status, storm", Resource::Pods).await;
            })
        };
        (0..count).map(update).collect()
    }
}
