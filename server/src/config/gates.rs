//! Feature gates: etcd's names for what it is trying out.
//!
//! All names of etcd 3.7 are accepted, because manifests set them (kubeadm sets InitialCorruptCheck). What each means
//! here is said at its field.

use std::str::FromStr;

use super::values::{Switch, ValueError};

/// The gates, each on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    /// All of etcd's alpha features were asked for, or not.
    pub all_alpha: bool,
    /// All of its beta features were.
    pub all_beta: bool,
    /// Compare compaction hashes among members; a single member has nobody to compare with.
    pub compact_hash_check: bool,
    /// Renew a lease without waiting for what was proposed before.
    pub fast_lease_keep_alive: bool,
    /// Compare data with the other members before serving; a single member has nobody to compare with, and every
    /// read here verifies checksums anyhow.
    pub initial_corrupt_check: bool,
    /// Keep the remaining time of leases over a change of leader: always so here.
    pub lease_checkpoint: bool,
    /// Keep it on disk too: always so here.
    pub lease_checkpoint_persist: bool,
    /// Let lease revocations pass when the queue is full.
    pub priority_request: bool,
    /// Connect to peers from the advertised address.
    pub set_member_local_addr: bool,
    /// Report NOT_SERVING while defragmenting: defragmenting never stops the service here.
    pub stop_grpc_service_on_defrag: bool,
    /// How etcd buffers reads of writing transactions: no such buffer here.
    pub txn_mode_write_with_shared_buffer: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        FeatureGates {
            all_alpha: false,
            all_beta: false,
            compact_hash_check: false,
            fast_lease_keep_alive: true,
            initial_corrupt_check: false,
            lease_checkpoint: false,
            lease_checkpoint_persist: false,
            priority_request: false,
            set_member_local_addr: false,
            stop_grpc_service_on_defrag: false,
            txn_mode_write_with_shared_buffer: true,
        }
    }
}

impl FeatureGates {
    /// Name, stage and state of each.
    pub fn named(&self) -> [(&'static str, &'static str, bool); 11] {
        [
            ("AllAlpha", "ALPHA", self.all_alpha),
            ("AllBeta", "BETA", self.all_beta),
            ("CompactHashCheck", "ALPHA", self.compact_hash_check),
            ("FastLeaseKeepAlive", "BETA", self.fast_lease_keep_alive),
            ("InitialCorruptCheck", "ALPHA", self.initial_corrupt_check),
            ("LeaseCheckpoint", "ALPHA", self.lease_checkpoint),
            ("LeaseCheckpointPersist", "ALPHA", self.lease_checkpoint_persist),
            ("PriorityRequest", "ALPHA", self.priority_request),
            ("SetMemberLocalAddr", "ALPHA", self.set_member_local_addr),
            ("StopGRPCServiceOnDefrag", "ALPHA", self.stop_grpc_service_on_defrag),
            ("TxnModeWriteWithSharedBuffer", "BETA", self.txn_mode_write_with_shared_buffer),
        ]
    }

    fn set_all_alpha(&mut self, on: bool) {
        self.all_alpha = on;
        self.compact_hash_check = on;
        self.initial_corrupt_check = on;
        self.lease_checkpoint = on;
        self.lease_checkpoint_persist = on;
        self.priority_request = on;
        self.set_member_local_addr = on;
        self.stop_grpc_service_on_defrag = on;
    }

    fn set_all_beta(&mut self, on: bool) {
        self.all_beta = on;
        self.fast_lease_keep_alive = on;
        self.txn_mode_write_with_shared_buffer = on;
    }

    fn gate(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "CompactHashCheck" => &mut self.compact_hash_check,
            "FastLeaseKeepAlive" => &mut self.fast_lease_keep_alive,
            "InitialCorruptCheck" => &mut self.initial_corrupt_check,
            "LeaseCheckpoint" => &mut self.lease_checkpoint,
            "LeaseCheckpointPersist" => &mut self.lease_checkpoint_persist,
            "PriorityRequest" => &mut self.priority_request,
            "SetMemberLocalAddr" => &mut self.set_member_local_addr,
            "StopGRPCServiceOnDefrag" => &mut self.stop_grpc_service_on_defrag,
            "TxnModeWriteWithSharedBuffer" => &mut self.txn_mode_write_with_shared_buffer,
            _ => return None,
        })
    }
}

impl FromStr for FeatureGates {
    type Err = ValueError;

    /// `AllAlpha` and `AllBeta` set what no other pair sets, wherever they stand.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mut gates = FeatureGates::default();
        let mut named = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => return Err(ValueError::new(format!("missing bool value for {}", pair.trim()))),
            };
            let Switch(on) = value
                .parse()
                .map_err(|error| ValueError::new(format!("invalid value of {name}={value}: {error}")))?;
            match name {
                "AllAlpha" => gates.set_all_alpha(on),
                "AllBeta" => gates.set_all_beta(on),
                _ => named.push((name, on)),
            }
        }
        for (name, on) in named {
            *gates
                .gate(name)
                .ok_or_else(|| ValueError::new(format!("unrecognized feature gate: {name}")))? = on;
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_etcd_reads_them() {
        let usual = FeatureGates::default();
        for (text, want, why) in [
            ("", Some(usual), "nothing set"),
            (
                "InitialCorruptCheck=true",
                Some(FeatureGates { initial_corrupt_check: true, ..usual }),
                "what kubeadm sets",
            ),
            (
                " PriorityRequest = T ,",
                Some(FeatureGates { priority_request: true, ..usual }),
                "white space, trailing comma",
            ),
            (
                "FastLeaseKeepAlive=false,AllBeta=true",
                Some(FeatureGates { all_beta: true, fast_lease_keep_alive: false, ..usual }),
                "a name wins over All, also when it comes first",
            ),
            (
                "AllBeta=false",
                Some(FeatureGates {
                    fast_lease_keep_alive: false,
                    txn_mode_write_with_shared_buffer: false,
                    ..usual
                }),
                "all of a class",
            ),
            ("Foo=true", None, "unknown"),
            ("InitialCorruptCheck", None, "no value"),
            ("InitialCorruptCheck=maybe", None, "not a boolean"),
        ] {
            assert_eq!(text.parse::<FeatureGates>().ok(), want, "{text:?}: {why}");
        }
        let all: FeatureGates = "AllAlpha=true".parse().expect("sound");
        assert!(all.compact_hash_check && all.stop_grpc_service_on_defrag && all.set_member_local_addr);
    }
}
