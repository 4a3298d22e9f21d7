//! Requests by the version that clients say they speak.
//!
//! The label's value comes from outside, so only so many are told apart. Those seen before are found in a short
//! list under a lock that readers share.

use parking_lot::RwLock;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use super::register;

/// Versions that are told apart; requests of more count under `other`.
const VERSIONS_MAX: usize = 32;

/// What is counted of one version: unary calls and streams.
#[derive(Debug, Clone)]
struct Version {
    name: String,
    unary: IntCounter,
    stream: IntCounter,
}

/// See the module's text.
#[derive(Debug)]
pub struct ClientMetrics {
    counters: IntCounterVec,
    versions: RwLock<Vec<Version>>,
}

impl ClientMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let options = Opts::new(
            "etcd_server_client_requests_total",
            "The total number of client requests per client version.",
        );
        let counters = IntCounterVec::new(options, &["type", "client_api_version"]).expect("a valid name");
        register(registry, &counters);
        ClientMetrics { counters, versions: RwLock::default() }
    }

    /// Counts a call from a client of `version`.
    pub fn count(&self, is_unary: bool, version: &str) {
        let count = |version: &Version| if is_unary { version.unary.inc() } else { version.stream.inc() };
        if let Some(known) = self.versions.read().iter().find(|known| known.name == version) {
            return count(known);
        }
        let mut versions = self.versions.write();
        let name = if versions.len() < VERSIONS_MAX { version } else { "other" };
        let of = |kind| self.counters.with_label_values(&[kind, name]);
        let new = Version { name: name.to_owned(), unary: of("unary"), stream: of("stream") };
        count(&new);
        if !versions.iter().any(|known| known.name == name) {
            versions.push(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_versions_are_told_apart() {
        let clients = ClientMetrics::new(&Registry::new());
        for n in 0..100 {
            clients.count(true, &n.to_string());
        }
        clients.count(true, "7");
        clients.count(false, "7");
        let of = |kind, version| clients.counters.with_label_values(&[kind, version]).get();
        assert_eq!((of("unary", "7"), of("stream", "7")), (2, 1));
        assert_eq!(of("unary", "other"), 100 - VERSIONS_MAX as u64);
        assert_eq!(clients.versions.read().len(), VERSIONS_MAX + 1, "`other` is one more");
    }
}
