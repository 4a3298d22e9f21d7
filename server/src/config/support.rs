//! What Keelson does not do, flag by flag.
//!
//! A flag that is not in the table works. One that asks for something Keelson lacks is refused when it is set to
//! anything but its default, if a member that ignored it would be less safe, less durable or elsewhere than its
//! operator believes. One that tunes a part Keelson does not have is accepted; set to anything but its default, it earns
//! a warning. Help shows this table's words, so there is no second list.

use clap::CommandFactory;

use super::error::ConfigError;
use super::flags::Flags;
use super::given::Given;
use super::notice::Notice;
use super::url::Url;
use super::values::{Kind, Switch, kind_of};

/// How far a flag is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// Refused unless it has its default.
    Refused(&'static str),
    /// Accepted; it changes nothing.
    NoEffect(&'static str),
}

use Support::{NoEffect, Refused};

const TLS: Support = Refused("TLS is not supported yet");
const DISCOVERY: Support =
    Refused("discovery is not supported yet; leave it out, or list members with --initial-cluster");
const ONLY_DISCOVERY: Support = NoEffect("there is no discovery");
const ONLY_ETCD_FILES: Support = NoEffect("Keelson has no such files");
const ONLY_BBOLT: Support = NoEffect("Keelson has no bbolt database");
const ONE_MEMBER: Support = NoEffect("a single member has nobody to compare or talk with");
const ONE_MEMBER_FOR_EVER: Support = NoEffect("members cannot be added or removed yet");
const NO_USERS: Support = NoEffect("there are no users and passwords yet");
const NO_BATCHES: Support = NoEffect("compaction removes old versions in the engine's own merges");
const ONLY_TRACING: Support = NoEffect("there is no tracing");

/// Every flag that does not simply work.
const TABLE: &[(&str, Support)] = &[
    // Member
    ("wal-dir", Refused("Keelson keeps its log in the data directory; put --data-dir on the fast disk")),
    ("snapshot-count", NoEffect("Keelson reclaims its log by bytes")),
    ("initial-election-tick-advance", NoEffect("a single member elects itself at once")),
    ("max-snapshots", ONLY_ETCD_FILES),
    ("max-wals", ONLY_ETCD_FILES),
    ("memory-mlock", Refused("locking memory is not supported yet; turn swap off instead")),
    ("backend-bbolt-freelist-type", ONLY_BBOLT),
    ("backend-batch-interval", ONLY_BBOLT),
    ("backend-batch-limit", ONLY_BBOLT),
    ("socket-reuse-address", NoEffect("SO_REUSEADDR is always set")),
    ("enable-grpc-gateway", NoEffect("there is no JSON gateway yet")),
    ("raft-read-timeout", ONE_MEMBER),
    ("raft-write-timeout", ONE_MEMBER),
    // Clustering
    ("discovery-token", DISCOVERY),
    ("discovery-endpoints", DISCOVERY),
    ("discovery-srv", DISCOVERY),
    ("discovery-srv-name", DISCOVERY),
    ("discovery-dial-timeout", ONLY_DISCOVERY),
    ("discovery-request-timeout", ONLY_DISCOVERY),
    ("discovery-keepalive-time", ONLY_DISCOVERY),
    ("discovery-keepalive-timeout", ONLY_DISCOVERY),
    ("discovery-insecure-transport", ONLY_DISCOVERY),
    ("discovery-insecure-skip-tls-verify", ONLY_DISCOVERY),
    ("discovery-cert", ONLY_DISCOVERY),
    ("discovery-key", ONLY_DISCOVERY),
    ("discovery-cacert", ONLY_DISCOVERY),
    ("discovery-user", ONLY_DISCOVERY),
    ("discovery-password", ONLY_DISCOVERY),
    ("discovery-fallback", ONLY_DISCOVERY),
    ("strict-reconfig-check", ONE_MEMBER_FOR_EVER),
    ("max-learners", ONE_MEMBER_FOR_EVER),
    ("pre-vote", NoEffect("elections always ask before they vote")),
    ("v2-deprecation", NoEffect("there is no version 2 store")),
    // Security
    ("cert-file", TLS),
    ("key-file", TLS),
    ("client-cert-auth", TLS),
    ("client-cert-file", TLS),
    ("client-key-file", TLS),
    ("client-crl-file", TLS),
    ("client-cert-allowed-hostname", TLS),
    ("trusted-ca-file", TLS),
    ("auto-tls", TLS),
    ("peer-cert-file", TLS),
    ("peer-key-file", TLS),
    ("peer-client-cert-auth", TLS),
    ("peer-client-cert-file", TLS),
    ("peer-client-key-file", TLS),
    ("peer-trusted-ca-file", TLS),
    ("peer-cert-allowed-cn", TLS),
    ("peer-cert-allowed-hostname", TLS),
    ("peer-auto-tls", TLS),
    ("peer-crl-file", TLS),
    ("peer-skip-client-san-verification", TLS),
    ("self-signed-cert-validity", TLS),
    ("cipher-suites", TLS),
    ("tls-min-version", TLS),
    ("tls-max-version", TLS),
    // Auth
    ("bcrypt-cost", NO_USERS),
    ("auth-token-ttl", NO_USERS),
    // Monitoring
    ("enable-pprof", NoEffect("profiles of the Go runtime do not exist here; use perf")),
    ("enable-distributed-tracing", Refused("tracing is not supported yet")),
    ("distributed-tracing-address", ONLY_TRACING),
    ("distributed-tracing-service-name", ONLY_TRACING),
    ("distributed-tracing-instance-id", ONLY_TRACING),
    ("distributed-tracing-sampling-rate", ONLY_TRACING),
    // Features
    ("corrupt-check-time", ONE_MEMBER),
    ("compact-hash-check-time", ONE_MEMBER),
    ("compaction-batch-limit", NO_BATCHES),
    ("compaction-sleep-interval", NO_BATCHES),
    ("downgrade-check-time", ONE_MEMBER),
    ("bootstrap-defrag-threshold-megabytes", NoEffect("there is nothing to defragment")),
    ("snapshot-catchup-entries", ONE_MEMBER),
    // Unsafe
    ("force-new-cluster", Refused("making a new cluster out of a member's data is not supported yet")),
    ("unsafe-no-fsync", Refused("Keelson always syncs before it acknowledges; leave it out")),
];

/// How far `flag` is supported; `None` if it simply works.
pub(crate) fn support_of(flag: &str) -> Option<Support> {
    TABLE.iter().find(|(known, _)| *known == flag).map(|(_, support)| *support)
}

/// Goes through all settings: refuses, or warns about those without effect.
///
/// # Errors
/// [`ConfigError::Unsupported`] for the first setting that is refused.
pub(crate) fn check(given: &[Given], notices: &mut Vec<Notice>) -> Result<(), ConfigError> {
    let command = Flags::command();
    for (position, one) in given.iter().enumerate() {
        let overridden = given[position + 1..].iter().any(|later| later.flag == one.flag);
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(&one.flag));
        let Some(argument) = argument.filter(|_| !overridden) else {
            continue;
        };
        if is_default(argument, &one.value) {
            continue;
        }
        match support_of(&one.flag) {
            Some(Refused(reason)) => {
                return Err(ConfigError::Unsupported { setting: one.setting(), reason: reason.to_owned() });
            }
            Some(NoEffect(reason)) => {
                notices.push(Notice::Warning(format!("{} has no effect: {reason}", one.setting())));
            }
            None => {}
        }
    }
    Ok(())
}

fn is_default(argument: &clap::Arg, value: &str) -> bool {
    let default =
        argument.get_default_values().first().and_then(|default| default.to_str()).unwrap_or_default();
    match kind_of(argument) {
        Kind::Switch => value.parse::<Switch>() == default.parse::<Switch>(),
        // An empty text asks for nothing.
        _ => value == default || value.is_empty(),
    }
}

/// The refusal of a URL that needs TLS.
pub(crate) fn secure_url(setting: String, url: &Url) -> ConfigError {
    ConfigError::Unsupported {
        setting,
        reason: format!("{url}: TLS is not supported yet; write http:// or unix://"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::given::Origin;

    #[test]
    fn every_row_is_a_flag() {
        let command = Flags::command();
        for (position, (flag, _)) in TABLE.iter().enumerate() {
            assert!(
                command.get_arguments().any(|argument| argument.get_long() == Some(flag)),
                "--{flag} is no flag"
            );
            assert!(TABLE[position + 1..].iter().all(|(other, _)| other != flag), "--{flag} stands twice");
        }
    }

    #[test]
    fn defaults_pass_and_the_rest_is_refused_or_warned_about() {
        let one = |flag: &str, value: &str| Given {
            flag: flag.into(),
            value: value.into(),
            origin: Origin::CommandLine,
        };
        for (flag, value, refused, warned, why) in [
            ("auto-tls", "false", false, false, "its default"),
            ("auto-tls", "F", false, false, "its default in other words"),
            ("auto-tls", "true", true, false, "silence would serve in the clear"),
            ("cert-file", "", false, false, "asks for nothing"),
            ("cert-file", "/c", true, false, "silence would serve in the clear"),
            ("tls-min-version", "TLS1.2", false, false, "its default"),
            ("tls-min-version", "TLS1.3", true, false, "not the default"),
            ("snapshot-count", "10000", false, false, "its default"),
            ("snapshot-count", "5", false, true, "nothing to tune"),
            ("unsafe-no-fsync", "true", true, false, "a benchmark would be misled"),
            ("name", "x", false, false, "works"),
        ] {
            let mut notices = Vec::new();
            let result = check(&[one(flag, value)], &mut notices);
            assert_eq!(result.is_err(), refused, "--{flag}={value}: {why}");
            assert_eq!(!notices.is_empty(), warned, "--{flag}={value}: {why}");
        }
        let mut notices = Vec::new();
        check(&[one("auto-tls", "true"), one("auto-tls", "false")], &mut notices)
            .expect("the last one counts");
    }
}
