//! What arrives how often, and in which order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::objects::RESOURCES;
use super::sizes::exponential;

/// How large a cluster is, and how busy.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    /// Nodes.
    pub(crate) nodes: usize,
    /// Pods started and pods stopped a second.
    pub(crate) churn: f64,
    /// API servers.
    pub(crate) apiservers: usize,
    /// Components with a leader election.
    pub(crate) leaders: usize,
    /// Seconds in which an API server lists every resource once.
    pub(crate) scan_seconds: f64,
    /// Seconds between two compactions.
    pub(crate) compact_seconds: f64,
}

/// Pods by node.
pub(crate) const PODS_BY_NODE: usize = 10;
/// Objects that controllers write, by node.
pub(crate) const OTHERS_BY_NODE: usize = 2;
/// Events of one pod's start.
pub(crate) const EVENTS_BY_POD: usize = 5;
/// Events on one lease at most.
const EVENTS_BY_LEASE: f64 = 1000.0;
/// An events' lease takes no more events after this time.
const EVENT_LEASE_SECONDS: f64 = 60.0;
/// Progress requests a second on each busy resource of each API server.
const PROGRESS_RATE: f64 = 10.0;

impl Cluster {
    /// Writes a second, on average, storms apart.
    pub(crate) fn writes(&self) -> f64 {
        let nodes = self.nodes as f64;
        nodes / 10.0
            + 0.5 * self.leaders as f64
            + 0.2 * self.apiservers as f64
            + nodes / 300.0
            + 0.02 * nodes
            + self.churn * (5.0 + EVENTS_BY_POD as f64 + 0.5 + 3.0)
    }
}

/// What arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// The lease at a place is renewed: nodes first, then leaders.
    Renew(usize),
    /// An API server's address gets a new lease.
    Master(usize),
    /// A node's status.
    NodeStatus,
    /// A pod's life begins.
    PodStart,
    /// A pod's life ends.
    PodStop,
    /// A controller writes.
    Controller,
    /// A consistent read from an API server's cache.
    CurrentRevision,
    /// A read of one object.
    Get,
    /// Progress of a resource's watch of an API server.
    Progress(usize, usize),
    /// A new lease for events.
    EventLease,
    /// An API server lists its next resource.
    Scan(usize),
    /// Compaction to where the store was one period ago.
    Compact,
}

/// How the next arrival follows.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// After always the same time.
    Every(f64),
    /// As a Poisson process, by arrivals a second.
    Poisson(f64),
}

/// The arrivals in order of time.
pub(crate) struct Arrivals {
    due: BinaryHeap<Reverse<(Duration, Action)>>,
    random: StdRng,
    cluster: Cluster,
}

impl Arrivals {
    /// Everything that arrives in a cluster; what comes at fixed times has random phases.
    pub(crate) fn new(cluster: &Cluster, busy: &[usize], random: StdRng) -> Self {
        let mut arrivals = Arrivals { due: BinaryHeap::new(), random, cluster: cluster.clone() };
        let mut actions = vec![
            Action::NodeStatus,
            Action::PodStart,
            Action::PodStop,
            Action::Controller,
            Action::CurrentRevision,
            Action::Get,
            Action::EventLease,
        ];
        actions.extend((0..cluster.nodes + cluster.leaders).map(Action::Renew));
        for apiserver in 0..cluster.apiservers {
            actions.extend([Action::Master(apiserver), Action::Scan(apiserver)]);
            actions.extend(busy.iter().map(|resource| Action::Progress(apiserver, *resource)));
        }
        for action in actions {
            let first = match arrivals.pace(action) {
                Some(Pace::Every(seconds)) => arrivals.random.random_range(0.0..seconds),
                Some(Pace::Poisson(rate)) => exponential(&mut arrivals.random, rate),
                None => continue,
            };
            arrivals.due.push(Reverse((Duration::from_secs_f64(first), action)));
        }
        // The first one only notes where the store is.
        arrivals.due.push(Reverse((Duration::ZERO, Action::Compact)));
        arrivals
    }

    /// `None` if it never arrives.
    fn pace(&self, action: Action) -> Option<Pace> {
        let cluster = &self.cluster;
        let nodes = cluster.nodes as f64;
        let apiservers = cluster.apiservers as f64;
        let poisson = |rate: f64| (rate > 0.0).then_some(Pace::Poisson(rate));
        match action {
            Action::Renew(place) if place < cluster.nodes => Some(Pace::Every(10.0)),
            Action::Renew(_) => Some(Pace::Every(2.0)),
            Action::Master(_) => Some(Pace::Every(5.0)),
            Action::NodeStatus => poisson(nodes / 300.0),
            Action::PodStart | Action::PodStop => poisson(cluster.churn),
            Action::Controller => poisson(0.02 * nodes),
            Action::CurrentRevision => poisson(2.0 * apiservers + 0.05 * cluster.writes()),
            Action::Get => poisson(0.05 * cluster.writes()),
            Action::Progress(..) => Some(Pace::Every(1.0 / PROGRESS_RATE)),
            Action::EventLease => {
                let events = cluster.churn * EVENTS_BY_POD as f64;
                Some(Pace::Every(EVENT_LEASE_SECONDS.min(EVENTS_BY_LEASE / events.max(f64::MIN_POSITIVE))))
            }
            Action::Scan(_) => Some(Pace::Every(cluster.scan_seconds / RESOURCES as f64)),
            Action::Compact => Some(Pace::Every(cluster.compact_seconds)),
        }
    }

    /// When the next one arrives, from the start on.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes the next one; the one after it of its kind falls due.
    pub(crate) fn pop(&mut self) -> Option<Action> {
        let Reverse((due, action)) = self.due.pop()?;
        let wait = match self.pace(action)? {
            Pace::Every(seconds) => seconds,
            Pace::Poisson(rate) => exponential(&mut self.random, rate),
        };
        self.due.push(Reverse((due + Duration::from_secs_f64(wait), action)));
        Some(action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::payload::slot_random;

    #[test]
    fn arrivals_come_in_order_and_at_their_rates() {
        let cluster = Cluster {
            nodes: 1000,
            churn: 4.0,
            apiservers: 2,
            leaders: 20,
            scan_seconds: 61.0,
            compact_seconds: 50.0,
        };
        let mut arrivals = Arrivals::new(&cluster, &[0, 2], slot_random(1, 0));
        let (mut last, mut seen) = (Duration::ZERO, Vec::new());
        while let Some(due) = arrivals.next_due()
            && due < Duration::from_secs(100)
        {
            assert!(due >= last, "in order of time");
            last = due;
            seen.push(arrivals.pop().expect("it is due"));
        }
        let count = |is: fn(&Action) -> bool| seen.iter().filter(|action| is(action)).count();
        for (got, want, why) in [
            (count(|a| matches!(a, Action::Renew(0..1000))), 10_000, "each node in 10 s"),
            (count(|a| matches!(a, Action::Renew(1000..))), 1000, "each leader in 2 s"),
            (count(|a| matches!(a, Action::PodStart)), 400, "four pods a second"),
            (count(|a| matches!(a, Action::Controller)), 2000, "a write by fifty nodes a second"),
            (count(|a| matches!(a, Action::Progress(..))), 4000, "ten a second, two resources, two servers"),
            (count(|a| matches!(a, Action::Scan(_))), 200, "a resource a second and server"),
            (count(|a| matches!(a, Action::Compact)), 2, "at the start and after a period"),
        ] {
            let off = (got as f64 / f64::from(want) - 1.0).abs();
            assert!(off < 0.15, "{why}: {got} instead of {want}");
        }
    }

    #[test]
    fn a_cluster_at_rest_starts_no_pod() {
        let cluster = Cluster {
            nodes: 10,
            churn: 0.0,
            apiservers: 1,
            leaders: 0,
            scan_seconds: 61.0,
            compact_seconds: 300.0,
        };
        let mut arrivals = Arrivals::new(&cluster, &[], slot_random(1, 0));
        for _ in 0..1000 {
            let action = arrivals.pop().expect("leases go on");
            assert!(!matches!(action, Action::PodStart | Action::PodStop));
        }
    }
}
