//! Rules between values: what makes a set of flags a configuration.
//!
//! Lives here: etcd's rules, in about its words, and the defaults that depend on other values. Does not know: how values
//! are written. Rules about URLs are in `addresses`, those about a first start in `bootstrap`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::addresses::{self, Source};
use super::allowed::Allowed;
use super::error::ConfigError;
use super::flags::{ClusteringFlags, DiscoveryFallback, Flags, LoggingFlags, MemberFlags};
use super::gates::FeatureGates;
use super::given::{Given, broken_rule, setting_of};
use super::notice::Notice;
use super::settings::{AutoCompaction, Config, MetricsDetail};
use super::support;
use super::values::{GoDuration, Whole, Words};
use crate::logging::{LogConfig, Output, Rotation};

/// The longest election timeout, in milliseconds.
const ELECTION_MS_MAX: u64 = 50_000;

/// Applies all rules and completes the defaults.
///
/// # Errors
/// [`ConfigError::Invalid`] or [`ConfigError::Unsupported`], naming the setting.
pub(crate) fn validate(
    flags: Flags,
    given: &[Given],
    source: Source,
    default_host: impl FnOnce() -> Option<IpAddr>,
    mut notices: Vec<Notice>,
) -> Result<Config, ConfigError> {
    let log = log_config(&flags.logging, given, &mut notices)?;
    check_discovery(&flags.clustering, given)?;
    check_tls_versions(&flags, given)?;
    support::check(given, &mut notices)?;
    check_timers(&flags.member, given)?;
    check_gates(flags.features.feature_gates, &mut notices)?;
    if flags.features.compact_hash_check_time.nanoseconds <= 0 {
        return Err(broken_rule(
            given,
            "compact-hash-check-time",
            format!(
                "--compact-hash-check-time must be >0 (set to {})",
                flags.features.compact_hash_check_time
            ),
        ));
    }
    let auto_compaction = auto_compaction(&flags.clustering, given)?;
    check_auth_token(&flags.auth.auth_token, given)?;
    warn(&flags, given, &mut notices);

    let addresses = addresses::resolve(&flags, given, source, default_host)?;
    let name = flags.member.name;
    let data_dir = if flags.member.data_dir.is_empty() {
        let data_dir = format!("{name}.keelson");
        notices.push(Notice::DefaultDataDir(data_dir.clone()));
        data_dir
    } else {
        flags.member.data_dir
    };

    Ok(Config {
        data_dir: PathBuf::from(data_dir),
        listen_client_urls: addresses.listen_client,
        listen_client_http_urls: addresses.listen_client_http,
        listen_metrics_urls: addresses.listen_metrics,
        listen_peer_urls: addresses.listen_peer,
        advertise_client_urls: addresses.advertise_client,
        initial_advertise_peer_urls: addresses.advertise_peer,
        socket_reuse_port: flags.member.socket_reuse_port.0,
        socket_reuse_address: flags.member.socket_reuse_address.0,
        initial_cluster: addresses.initial_cluster,
        initial_cluster_state: flags.clustering.initial_cluster_state,
        initial_cluster_token: flags.clustering.initial_cluster_token,
        strict_reconfig_check: flags.clustering.strict_reconfig_check.0,
        max_learners: usize::try_from(flags.clustering.max_learners.0)
            .map_err(|_| broken_rule(given, "max-learners", "--max-learners must be >=0".to_owned()))?,
        heartbeat_interval_ms: flags.member.heartbeat_interval.0,
        election_timeout_ms: flags.member.election_timeout.0,
        snapshot_count: flags.member.snapshot_count.0,
        snapshot_catchup_entries: flags.features.snapshot_catchup_entries.0,
        quota_backend_bytes: flags.member.quota_backend_bytes.0,
        max_txn_ops: size(flags.member.max_txn_ops),
        max_request_bytes: size(flags.member.max_request_bytes),
        max_concurrent_streams: flags.member.max_concurrent_streams.0,
        grpc_keepalive_interval: unless_zero(flags.member.grpc_keepalive_interval),
        grpc_keepalive_timeout: unless_zero(flags.member.grpc_keepalive_timeout),
        grpc_keepalive_min_time: flags.member.grpc_keepalive_min_time.at_least_zero(),
        enable_grpc_gateway: flags.member.enable_grpc_gateway.0,
        cors: flags.security.cors.0,
        host_whitelist: Allowed::from_names(&flags.security.host_whitelist),
        auto_compaction,
        watch_progress_notify_interval: progress_interval(
            flags.features.watch_progress_notify_interval,
            given,
            &mut notices,
        ),
        warning_apply_duration: flags.logging.warning_apply_duration.at_least_zero(),
        warning_unary_request_duration: unless_zero(flags.logging.warning_unary_request_duration)
            .unwrap_or(Duration::from_millis(300)),
        feature_gates: flags.features.feature_gates,
        bcrypt_cost: bcrypt_cost(flags.auth.bcrypt_cost, given, &mut notices),
        auth_token_ttl_seconds: flags.auth.auth_token_ttl.0,
        metrics: metrics_detail(&flags.monitoring.metrics, given, &mut notices),
        log,
        block_cache_bytes: flags.own.block_cache_bytes.0,
        memtable_bytes: at_least(flags.own.memtable_bytes.0, 1 << 16, given, "memtable-bytes")?,
        log_tail_bytes: flags.own.log_tail_bytes.0,
        log_segment_bytes: segment_bytes(flags.own.log_segment_bytes.0, given)?,
        name,
        notices,
    })
}

fn warning(text: impl Into<String>) -> Notice {
    Notice::Warning(text.into())
}

fn log_config(
    flags: &LoggingFlags,
    given: &[Given],
    notices: &mut Vec<Notice>,
) -> Result<LogConfig, ConfigError> {
    match flags.logger.as_str() {
        "zap" => {}
        "capnslog" => {
            return Err(broken_rule(given, "logger", "--logger=capnslog is removed in v3.5".to_owned()));
        }
        other => {
            return Err(broken_rule(
                given,
                "logger",
                format!("unknown logger option {other:?} for --logger"),
            ));
        }
    }
    const OUTPUTS: &str = "log-outputs";
    let Words(targets) = &flags.log_outputs;
    if targets.len() > 1 && targets.iter().any(|target| target == "default") {
        return Err(broken_rule(
            given,
            OUTPUTS,
            r#"--log-outputs: multi logoutput for "default" is not supported yet"#.to_owned(),
        ));
    }
    let mut outputs = Vec::new();
    for target in targets {
        let output = match target.as_str() {
            "default" | "stderr" => Output::Stderr,
            "stdout" => Output::Stdout,
            "" => {
                return Err(broken_rule(given, OUTPUTS, "--log-outputs must not be empty".to_owned()));
            }
            "systemd/journal" => {
                return Err(ConfigError::Unsupported {
                    setting: format!("{}={target}", setting_of(given, OUTPUTS)),
                    reason:
                        "writing to the journal's socket is not supported; systemd keeps what goes to stderr"
                            .to_owned(),
                });
            }
            path => Output::File(path.to_owned()),
        };
        if !outputs.contains(&output) {
            outputs.push(output);
        }
    }
    let format = flags
        .log_format
        .parse()
        .map_err(|error| broken_rule(given, "log-format", format!("--log-format: {error}")))?;
    let rotation =
        if flags.enable_log_rotation.0 { rotation(flags, &outputs, given, notices)? } else { None };
    Ok(LogConfig { level: flags.log_level, format, outputs, rotation })
}

/// How the one file among `outputs` is rotated; `None` if there is none beside other outputs.
fn rotation(
    flags: &LoggingFlags,
    outputs: &[Output],
    given: &[Given],
    notices: &mut Vec<Notice>,
) -> Result<Option<Rotation>, ConfigError> {
    const SETTINGS: &str = "log-rotation-config-json";
    let files = outputs.iter().filter(|output| matches!(output, Output::File(_))).count();
    if files > 1 || files == 0 && outputs.len() == 1 {
        return Err(broken_rule(
            given,
            "enable-log-rotation",
            "--log-outputs requires a single file path when --log-rotate-config-json is defined".to_owned(),
        ));
    }
    let settings = Rotation::from_json(&flags.log_rotation_config_json)
        .map_err(|error| broken_rule(given, SETTINGS, format!("--{SETTINGS}: {error}")))?;
    if settings.wants_local_time {
        notices.push(warning(format!(
            "localtime in {} has no effect: names of rotated files are in UTC",
            setting_of(given, SETTINGS)
        )));
    }
    Ok((files == 1).then_some(settings))
}

/// etcd's own rules about discovery, before it is refused as a whole.
fn check_discovery(flags: &ClusteringFlags, given: &[Given]) -> Result<(), ConfigError> {
    if flags.discovery_fallback == DiscoveryFallback::Proxy {
        return Err(broken_rule(
            given,
            "discovery-fallback",
            r#"v2 proxy is deprecated, and --discovery-fallback can't be configured as "proxy""#.to_owned(),
        ));
    }
    let endpoints: Vec<&String> =
        flags.discovery_endpoints.0.iter().filter(|word| !word.is_empty()).collect();
    let has_own_cluster = given.iter().any(|one| one.flag == "initial-cluster" && !one.value.is_empty());
    if has_own_cluster && (!endpoints.is_empty() || !flags.discovery_srv.is_empty())
        || !endpoints.is_empty() && !flags.discovery_srv.is_empty()
    {
        return Err(ConfigError::invalid(
            "multiple discovery or bootstrap flags are set. Choose one of --initial-cluster, --discovery-endpoints or \
             --discovery-srv",
        ));
    }
    if flags.discovery_token.is_empty() != endpoints.is_empty() {
        return Err(ConfigError::invalid("both --discovery-token and --discovery-endpoints must be set"));
    }
    Ok(())
}

fn check_tls_versions(flags: &Flags, given: &[Given]) -> Result<(), ConfigError> {
    for (flag, version) in [
        ("tls-min-version", &flags.security.tls_min_version),
        ("tls-max-version", &flags.security.tls_max_version),
    ] {
        if !matches!(version.as_str(), "" | "TLS1.2" | "TLS1.3") {
            return Err(broken_rule(
                given,
                flag,
                format!("--{flag}: unexpected TLS version {version:?} (must be one of: TLS1.2, TLS1.3)"),
            ));
        }
    }
    Ok(())
}

fn check_timers(flags: &MemberFlags, given: &[Given]) -> Result<(), ConfigError> {
    const HEARTBEAT: &str = "heartbeat-interval";
    const ELECTION: &str = "election-timeout";
    let (Whole(heartbeat_ms), Whole(election_ms)) = (flags.heartbeat_interval, flags.election_timeout);
    let broken = |flag, message| Err(broken_rule(given, flag, message));
    if heartbeat_ms == 0 {
        return broken(HEARTBEAT, format!("--heartbeat-interval must be >0 (set to {heartbeat_ms}ms)"));
    }
    if election_ms == 0 {
        return broken(ELECTION, format!("--election-timeout must be >0 (set to {election_ms}ms)"));
    }
    if heartbeat_ms.saturating_mul(5) > election_ms {
        let culprit = if given.iter().any(|one| one.flag == ELECTION) { ELECTION } else { HEARTBEAT };
        return broken(
            culprit,
            format!(
                "--election-timeout[{election_ms}ms] should be at least as 5 times as \
                 --heartbeat-interval[{heartbeat_ms}ms]"
            ),
        );
    }
    if election_ms > ELECTION_MS_MAX {
        return broken(
            ELECTION,
            format!(
                "--election-timeout[{election_ms}ms] is too long, and should be set less than {ELECTION_MS_MAX}ms"
            ),
        );
    }
    Ok(())
}

fn check_gates(gates: FeatureGates, notices: &mut Vec<Notice>) -> Result<(), ConfigError> {
    if gates.lease_checkpoint_persist && !gates.lease_checkpoint {
        return Err(ConfigError::invalid(
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ));
    }
    if gates.lease_checkpoint && !gates.lease_checkpoint_persist {
        notices.push(warning(
            "Detected that checkpointing is enabled without persistence. Consider enabling feature gate \
             LeaseCheckpointPersist",
        ));
    }
    Ok(())
}

fn auto_compaction(flags: &ClusteringFlags, given: &[Given]) -> Result<AutoCompaction, ConfigError> {
    const RETENTION: &str = "auto-compaction-retention";
    const MODE: &str = "auto-compaction-mode";
    let retention = match flags.auto_compaction_retention.as_str() {
        "" => "0",
        retention => retention,
    };
    let malformed = |what: &str| {
        broken_rule(given, RETENTION, format!("error parsing --{RETENTION}: {retention:?} is not {what}"))
    };
    match flags.auto_compaction_mode.as_str() {
        "revision" => match retention.parse::<i64>() {
            Ok(0) => Ok(AutoCompaction::Off),
            Ok(revisions) if revisions > 0 => Ok(AutoCompaction::Revisions(revisions)),
            _ => Err(malformed("a number of revisions, as --auto-compaction-mode=revision wants")),
        },
        "periodic" => {
            let time = match retention.parse::<u64>() {
                Ok(hours) => hours.checked_mul(3600).map(Duration::from_secs),
                Err(_) => retention
                    .parse::<GoDuration>()
                    .ok()
                    .filter(|duration| duration.nanoseconds >= 0)
                    .map(GoDuration::at_least_zero),
            };
            match time.filter(|time| time.as_nanos() <= i64::MAX as u128) {
                Some(Duration::ZERO) => Ok(AutoCompaction::Off),
                Some(time) => Ok(AutoCompaction::Periodic(time)),
                None => Err(malformed("a number of hours or a duration like 5m")),
            }
        }
        "" => Err(broken_rule(given, MODE, format!("undefined --{MODE}"))),
        other => {
            Err(broken_rule(given, MODE, format!("unknown --{MODE} {other:?}: write periodic or revision")))
        }
    }
}

fn check_auth_token(token: &str, given: &[Given]) -> Result<(), ConfigError> {
    const FLAG: &str = "auth-token";
    // What follows the first comma are options, among them paths of keys; they are not repeated in a message.
    let (kind, options) = token.split_once(',').unwrap_or((token, ""));
    if !options.is_empty() && options.split(',').any(|option| option.split('=').count() != 2) {
        return Err(broken_rule(given, FLAG, format!("--{FLAG}: options after {kind:?} must be KEY=VALUE")));
    }
    match kind {
        "simple" | "" => Ok(()),
        "jwt" => Err(ConfigError::Unsupported {
            setting: format!("{}={kind}", setting_of(given, FLAG)),
            reason: "JSON web tokens are not supported yet; leave it out for simple tokens".to_owned(),
        }),
        _ => Err(broken_rule(given, FLAG, format!("--{FLAG}: unknown token type {kind:?}: write simple"))),
    }
}

/// Warnings about values that are allowed, but no good idea.
fn warn(flags: &Flags, given: &[Given], notices: &mut Vec<Notice>) {
    if flags.member.name == "default" {
        notices.push(warning(
            "it isn't recommended to use default name, please set a value for --name. Note that etcd might run into \
             issue when multiple members have the same default name",
        ));
    }
    if flags.member.listen_client_http_urls.0.is_empty() {
        notices.push(warning(
            "Running http and grpc server on single port. This is not recommended for production.",
        ));
    }
    for (flag, text) in [
        ("max-snapshots", "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8."),
        (
            "v2-deprecation",
            "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, \
             ignoring user input.",
        ),
    ] {
        if given.iter().any(|one| one.flag == flag) {
            notices.push(warning(text));
        }
    }
}

fn progress_interval(interval: GoDuration, given: &[Given], notices: &mut Vec<Notice>) -> Duration {
    const LEAST: Duration = Duration::from_millis(100);
    match unless_zero(interval) {
        None => Duration::from_secs(600),
        Some(interval) if interval < LEAST => {
            notices.push(warning(format!(
                "{} is too short; using 100ms",
                setting_of(given, "watch-progress-notify-interval")
            )));
            LEAST
        }
        Some(interval) => interval,
    }
}

fn bcrypt_cost(Whole(cost): Whole, given: &[Given], notices: &mut Vec<Notice>) -> u32 {
    match u32::try_from(cost) {
        Ok(cost @ 4..=31) => cost,
        _ => {
            notices.push(warning(format!(
                "{} must be from 4 to 31; using 10",
                setting_of(given, "bcrypt-cost")
            )));
            10
        }
    }
}

fn metrics_detail(text: &str, given: &[Given], notices: &mut Vec<Notice>) -> MetricsDetail {
    match text {
        "extensive" => MetricsDetail::Extensive,
        "basic" => MetricsDetail::Basic,
        _ => {
            notices.push(warning(format!(
                "{} is neither basic nor extensive; using basic",
                setting_of(given, "metrics")
            )));
            MetricsDetail::Basic
        }
    }
}

fn at_least(value: u64, least: u64, given: &[Given], flag: &str) -> Result<u64, ConfigError> {
    if value < least {
        return Err(broken_rule(given, flag, format!("--{flag} must be at least {least}")));
    }
    Ok(value)
}

fn segment_bytes(value: u32, given: &[Given]) -> Result<u32, ConfigError> {
    const LEAST: u32 = 1 << 20;
    const MOST: u32 = 1 << 30;
    if !(LEAST..=MOST).contains(&value) {
        return Err(broken_rule(
            given,
            "log-segment-bytes",
            format!("--log-segment-bytes must be from {LEAST} to {MOST}"),
        ));
    }
    Ok(value)
}

/// A limit as a size in memory: what does not fit an address is no limit.
fn size(Whole(value): Whole) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn unless_zero(duration: GoDuration) -> Option<Duration> {
    Some(duration.at_least_zero()).filter(|duration| !duration.is_zero())
}
