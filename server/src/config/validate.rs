//! Rules between values: what makes a set of flags a configuration.
//!
//! Lives here: etcd's rules, in about its words, and the defaults that depend on other values. Does not know: how values
//! are written. Rules about a first start are in `bootstrap`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::allowed::Allowed;
use super::bootstrap::parse_members;
use super::error::ConfigError;
use super::flags::{
    ClusteringFlags, DEFAULT_INITIAL_CLUSTER, DiscoveryFallback, Flags, LoggingFlags, MemberFlags,
};
use super::gates::FeatureGates;
use super::given::{Given, setting_of};
use super::settings::{AutoCompaction, Config, MetricsDetail};
use super::support;
use super::url::{ListenUrl, Url, UrlList};
use super::values::{GoDuration, Whole, Words};
use crate::logging::{LogConfig, Output};

/// Where the settings come from, for the one rule that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Command line and environment.
    Words,
    /// The configuration file.
    File,
}

/// The longest election timeout, in milliseconds.
const ELECTION_MS_MAX: u64 = 50_000;

/// Names, defaults included, that a member listens or advertises under.
struct Addresses {
    listen_client: UrlList,
    listen_client_http: UrlList,
    listen_metrics: UrlList,
    listen_peer: UrlList,
    advertise_client: UrlList,
    advertise_peer: UrlList,
}

/// Applies all rules and completes the defaults.
///
/// # Errors
/// [`ConfigError::Invalid`] or [`ConfigError::Unsupported`], naming the setting.
pub(crate) fn validate(
    flags: Flags,
    given: &[Given],
    source: Source,
    default_host: impl FnOnce() -> Option<IpAddr>,
    mut warnings: Vec<String>,
) -> Result<Config, ConfigError> {
    let log = log_config(&flags.logging, given)?;
    check_discovery(&flags.clustering, given)?;
    check_tls_versions(&flags)?;
    support::check(given, &mut warnings)?;
    check_timers(&flags.member, given)?;
    check_gates(flags.features.feature_gates, &mut warnings)?;
    if flags.features.compact_hash_check_time.nanoseconds <= 0 {
        return Err(ConfigError::invalid(format!(
            "{} must be >0",
            setting_of(given, "compact-hash-check-time")
        )));
    }
    let auto_compaction = auto_compaction(&flags.clustering, given)?;
    check_auth_token(&flags.auth.auth_token, given)?;
    warn(&flags, given, &mut warnings);

    let mut addresses = addresses(&flags, given, source)?;
    let name = flags.member.name;
    let initial_cluster =
        replace_defaults(&name, &flags.clustering.initial_cluster, &mut addresses, default_host);
    let initial_cluster = parse_members(&initial_cluster).map_err(|error| {
        ConfigError::invalid(format!("{}: {error}", setting_of(given, "initial-cluster")))
    })?;
    for member in &initial_cluster {
        if let Some(url) = member.peer_urls.iter().find(|url| url.scheme().is_secure()) {
            return Err(support::secure_url(setting_of(given, "initial-cluster"), url));
        }
    }
    let listen_client_urls = bindable(given, "listen-client-urls", &addresses.listen_client)?;
    let listen_client_http_urls = bindable(given, "listen-client-http-urls", &addresses.listen_client_http)?;
    let listen_metrics_urls = bindable(given, "listen-metrics-urls", &addresses.listen_metrics)?;
    let listen_peer_urls = bindable(given, "listen-peer-urls", &addresses.listen_peer)?;
    check_distinct(&[
        ("listen-client-urls", &listen_client_urls),
        ("listen-client-http-urls", &listen_client_http_urls),
        ("listen-metrics-urls", &listen_metrics_urls),
        ("listen-peer-urls", &listen_peer_urls),
    ])?;
    let data_dir = if flags.member.data_dir.is_empty() {
        let data_dir = format!("{name}.keelson");
        warnings.push(format!("'data-dir' was empty; using default {data_dir}"));
        data_dir
    } else {
        flags.member.data_dir
    };

    Ok(Config {
        data_dir: PathBuf::from(data_dir),
        listen_client_urls,
        listen_client_http_urls,
        listen_metrics_urls,
        listen_peer_urls,
        advertise_client_urls: texts(&addresses.advertise_client),
        initial_advertise_peer_urls: texts(&addresses.advertise_peer),
        socket_reuse_port: flags.member.socket_reuse_port.0,
        socket_reuse_address: flags.member.socket_reuse_address.0,
        initial_cluster,
        initial_cluster_state: flags.clustering.initial_cluster_state,
        initial_cluster_token: flags.clustering.initial_cluster_token,
        strict_reconfig_check: flags.clustering.strict_reconfig_check.0,
        max_learners: usize::try_from(flags.clustering.max_learners.0).map_err(|_| {
            ConfigError::invalid(format!("{} must be >=0", setting_of(given, "max-learners")))
        })?,
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
            &mut warnings,
        ),
        warning_apply_duration: flags.logging.warning_apply_duration.at_least_zero(),
        warning_unary_request_duration: unless_zero(flags.logging.warning_unary_request_duration)
            .unwrap_or(Duration::from_millis(300)),
        feature_gates: flags.features.feature_gates,
        bcrypt_cost: bcrypt_cost(flags.auth.bcrypt_cost, given, &mut warnings),
        auth_token_ttl_seconds: flags.auth.auth_token_ttl.0,
        metrics: metrics_detail(&flags.monitoring.metrics, given, &mut warnings),
        log,
        block_cache_bytes: flags.own.block_cache_bytes.0,
        memtable_bytes: at_least(flags.own.memtable_bytes.0, 1 << 16, given, "memtable-bytes")?,
        log_tail_bytes: flags.own.log_tail_bytes.0,
        log_segment_bytes: segment_bytes(flags.own.log_segment_bytes.0, given)?,
        name,
        warnings,
    })
}

fn log_config(flags: &LoggingFlags, given: &[Given]) -> Result<LogConfig, ConfigError> {
    match flags.logger.as_str() {
        "zap" => {}
        "capnslog" => return Err(ConfigError::invalid("--logger=capnslog is removed in v3.5")),
        other => {
            return Err(ConfigError::invalid(format!("unknown logger option {other:?} for --logger")));
        }
    }
    let setting = setting_of(given, "log-outputs");
    let Words(targets) = &flags.log_outputs;
    if targets.len() > 1 && targets.iter().any(|target| target == "default") {
        return Err(ConfigError::invalid(format!(
            r#"{setting}: multi logoutput for "default" is not supported yet"#
        )));
    }
    let mut outputs = Vec::new();
    for target in targets {
        let output = match target.as_str() {
            "default" | "stderr" => Output::Stderr,
            "stdout" => Output::Stdout,
            "" => return Err(ConfigError::invalid(format!("{setting} must not be empty"))),
            "systemd/journal" => {
                return Err(ConfigError::Unsupported {
                    setting: format!("{setting}={target}"),
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
        .map_err(|error| ConfigError::invalid(format!("{}: {error}", setting_of(given, "log-format"))))?;
    Ok(LogConfig { level: flags.log_level, format, outputs })
}

/// etcd's own rules about discovery, before it is refused as a whole.
fn check_discovery(flags: &ClusteringFlags, given: &[Given]) -> Result<(), ConfigError> {
    if flags.discovery_fallback == DiscoveryFallback::Proxy {
        return Err(ConfigError::invalid(format!(
            "v2 proxy is deprecated, and {} can't be configured as \"proxy\"",
            setting_of(given, "discovery-fallback")
        )));
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

fn check_tls_versions(flags: &Flags) -> Result<(), ConfigError> {
    for (flag, version) in [
        ("tls-min-version", &flags.security.tls_min_version),
        ("tls-max-version", &flags.security.tls_max_version),
    ] {
        if !matches!(version.as_str(), "" | "TLS1.2" | "TLS1.3") {
            return Err(ConfigError::invalid(format!(
                "--{flag}: unexpected TLS version {version:?} (must be one of: TLS1.2, TLS1.3)"
            )));
        }
    }
    Ok(())
}

fn check_timers(flags: &MemberFlags, given: &[Given]) -> Result<(), ConfigError> {
    let heartbeat = setting_of(given, "heartbeat-interval");
    let election = setting_of(given, "election-timeout");
    let (Whole(heartbeat_ms), Whole(election_ms)) = (flags.heartbeat_interval, flags.election_timeout);
    if heartbeat_ms == 0 {
        return Err(ConfigError::invalid(format!("{heartbeat} must be >0 (set to {heartbeat_ms}ms)")));
    }
    if election_ms == 0 {
        return Err(ConfigError::invalid(format!("{election} must be >0 (set to {election_ms}ms)")));
    }
    if heartbeat_ms.saturating_mul(5) > election_ms {
        return Err(ConfigError::invalid(format!(
            "{election}[{election_ms}ms] should be at least as 5 times as {heartbeat}[{heartbeat_ms}ms]"
        )));
    }
    if election_ms > ELECTION_MS_MAX {
        return Err(ConfigError::invalid(format!(
            "{election}[{election_ms}ms] is too long, and should be set less than {ELECTION_MS_MAX}ms"
        )));
    }
    Ok(())
}

fn check_gates(gates: FeatureGates, warnings: &mut Vec<String>) -> Result<(), ConfigError> {
    if gates.lease_checkpoint_persist && !gates.lease_checkpoint {
        return Err(ConfigError::invalid(
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ));
    }
    if gates.lease_checkpoint && !gates.lease_checkpoint_persist {
        warnings.push("feature gate LeaseCheckpoint is on without LeaseCheckpointPersist".to_owned());
    }
    Ok(())
}

fn auto_compaction(flags: &ClusteringFlags, given: &[Given]) -> Result<AutoCompaction, ConfigError> {
    let setting = setting_of(given, "auto-compaction-retention");
    let retention = match flags.auto_compaction_retention.as_str() {
        "" => "0",
        retention => retention,
    };
    let malformed =
        |what: &str| ConfigError::invalid(format!("error parsing {setting}: {retention:?} is not {what}"));
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
        "" => Err(ConfigError::invalid("undefined auto-compaction-mode")),
        other => Err(ConfigError::invalid_with_hint(
            format!("unknown auto-compaction-mode {other:?}"),
            "write periodic or revision",
        )),
    }
}

fn check_auth_token(token: &str, given: &[Given]) -> Result<(), ConfigError> {
    let setting = setting_of(given, "auth-token");
    // What follows the first comma are options, among them paths of keys; they are not repeated in a message.
    let kind = token.split(',').next().unwrap_or_default();
    match kind {
        "simple" | "" => Ok(()),
        "jwt" => Err(ConfigError::Unsupported {
            setting: format!("{setting}={kind}"),
            reason: "JSON web tokens are not supported yet; leave it out for simple tokens".to_owned(),
        }),
        _ => Err(ConfigError::invalid_with_hint(
            format!("{setting}: unknown token type {kind:?}"),
            "write simple",
        )),
    }
}

/// Warnings about values that are allowed, but no good idea.
fn warn(flags: &Flags, given: &[Given], warnings: &mut Vec<String>) {
    if flags.member.name == "default" {
        warnings.push("it isn't recommended to use default name, please set a value for --name".to_owned());
    }
    for flag in ["max-snapshots", "v2-deprecation"] {
        if given.iter().any(|one| one.flag == flag) {
            warnings.push(format!("{} is deprecated", setting_of(given, flag)));
        }
    }
}

/// The URLs that are set, or their defaults; all speakable, none secure.
fn addresses(flags: &Flags, given: &[Given], source: Source) -> Result<Addresses, ConfigError> {
    let is_set = |flag: &str| given.iter().any(|one| one.flag == flag);
    if source == Source::Words && is_set("listen-client-urls") && !is_set("advertise-client-urls") {
        return Err(ConfigError::invalid(format!(
            "--advertise-client-urls is required when {} is set explicitly",
            setting_of(given, "listen-client-urls")
        )));
    }
    let or_default = |flag: &str, urls: &UrlList, default: &str| -> Result<UrlList, ConfigError> {
        support::check_schemes(given, flag, urls)?;
        if urls.0.is_empty() && !default.is_empty() {
            // An empty text keeps the default, as in etcd.
            return Ok(default.parse().expect("the default is a URL"));
        }
        Ok(urls.clone())
    };
    let member = &flags.member;
    let addresses = Addresses {
        listen_client: or_default("listen-client-urls", &member.listen_client_urls, "http://localhost:2379")?,
        listen_client_http: or_default("listen-client-http-urls", &member.listen_client_http_urls, "")?,
        listen_metrics: or_default("listen-metrics-urls", &flags.monitoring.listen_metrics_urls, "")?,
        listen_peer: or_default("listen-peer-urls", &member.listen_peer_urls, "http://localhost:2380")?,
        advertise_client: or_default(
            "advertise-client-urls",
            &flags.clustering.advertise_client_urls,
            "http://localhost:2379",
        )?,
        advertise_peer: or_default(
            "initial-advertise-peer-urls",
            &flags.clustering.initial_advertise_peer_urls,
            "http://localhost:2380",
        )?,
    };
    for (flag, urls) in [
        ("initial-advertise-peer-urls", &addresses.advertise_peer),
        ("advertise-client-urls", &addresses.advertise_client),
    ] {
        if let Some(url) = urls.0.iter().find(|url| !url.scheme().is_unix() && url.host().is_empty()) {
            return Err(ConfigError::invalid(format!(
                r#"{} must be "host:port" or "unix:/path/to/socket" (unexpected empty host ({url}))"#,
                setting_of(given, flag)
            )));
        }
    }
    Ok(addresses)
}

/// Replaces advertised defaults that nobody could reach, and returns the text of the initial cluster.
///
/// Who listens on 0.0.0.0 but advertises localhost means this machine's address. A name other than the default, with no
/// initial cluster, is a cluster of that name's own.
fn replace_defaults(
    name: &str,
    initial_cluster: &str,
    addresses: &mut Addresses,
    default_host: impl FnOnce() -> Option<IpAddr>,
) -> String {
    let open = |listen: &UrlList, advertise: &UrlList, default: &str| match listen.0.first() {
        Some(url) if url.host() == "0.0.0.0" && advertise.to_string() == default => Some(url.port()),
        _ => None,
    };
    let peer = open(&addresses.listen_peer, &addresses.advertise_peer, "http://localhost:2380");
    let client = open(&addresses.listen_client, &addresses.advertise_client, "http://localhost:2379");
    if (peer.is_some() || client.is_some())
        && let Some(host) = default_host()
    {
        for (port, advertise) in
            [(peer, &mut addresses.advertise_peer), (client, &mut addresses.advertise_client)]
        {
            if let Some(port) = port {
                *advertise = UrlList(vec![tcp_url(host, port)]);
            }
        }
    }
    if initial_cluster == DEFAULT_INITIAL_CLUSTER && name != "default" {
        let own = if name.is_empty() { "default" } else { name };
        let pairs: Vec<String> =
            addresses.advertise_peer.0.iter().map(|url| format!("{own}={url}")).collect();
        return pairs.join(",");
    }
    initial_cluster.to_owned()
}

fn tcp_url(host: IpAddr, port: u16) -> Url {
    let text = format!("http://{}", std::net::SocketAddr::new(host, port));
    text.parse().expect("an address and a port are a URL")
}

fn bindable(given: &[Given], flag: &str, urls: &UrlList) -> Result<Vec<ListenUrl>, ConfigError> {
    urls.0
        .iter()
        .map(|url| {
            ListenUrl::from_url(url)
                .map_err(|error| ConfigError::invalid(format!("{}: {error}", setting_of(given, flag))))
        })
        .collect()
}

/// Two listeners cannot have the same address, unless the system chooses the port.
fn check_distinct(listeners: &[(&str, &Vec<ListenUrl>)]) -> Result<(), ConfigError> {
    for (position, (flag, urls)) in listeners.iter().enumerate() {
        for url in urls.iter().filter(|url| !matches!(url, ListenUrl::Tcp { port: 0, .. })) {
            if let Some((other, _)) =
                listeners[position + 1..].iter().find(|(_, others)| others.contains(url))
            {
                return Err(ConfigError::invalid(format!(
                    "cannot bind both --{flag} and --{other} on the same url {url}"
                )));
            }
        }
    }
    Ok(())
}

fn progress_interval(interval: GoDuration, given: &[Given], warnings: &mut Vec<String>) -> Duration {
    const LEAST: Duration = Duration::from_millis(100);
    match unless_zero(interval) {
        None => Duration::from_secs(600),
        Some(interval) if interval < LEAST => {
            warnings.push(format!(
                "{} is too short; using 100ms",
                setting_of(given, "watch-progress-notify-interval")
            ));
            LEAST
        }
        Some(interval) => interval,
    }
}

fn bcrypt_cost(Whole(cost): Whole, given: &[Given], warnings: &mut Vec<String>) -> u32 {
    match u32::try_from(cost) {
        Ok(cost @ 4..=31) => cost,
        _ => {
            warnings.push(format!("{} must be from 4 to 31; using 10", setting_of(given, "bcrypt-cost")));
            10
        }
    }
}

fn metrics_detail(text: &str, given: &[Given], warnings: &mut Vec<String>) -> MetricsDetail {
    match text {
        "extensive" => MetricsDetail::Extensive,
        "basic" => MetricsDetail::Basic,
        _ => {
            warnings.push(format!(
                "{} is neither basic nor extensive; using basic",
                setting_of(given, "metrics")
            ));
            MetricsDetail::Basic
        }
    }
}

fn at_least(value: u64, least: u64, given: &[Given], flag: &str) -> Result<u64, ConfigError> {
    if value < least {
        return Err(ConfigError::invalid(format!("{} must be at least {least}", setting_of(given, flag))));
    }
    Ok(value)
}

fn segment_bytes(value: u32, given: &[Given]) -> Result<u32, ConfigError> {
    const LEAST: u32 = 1 << 20;
    const MOST: u32 = 1 << 30;
    if !(LEAST..=MOST).contains(&value) {
        return Err(ConfigError::invalid(format!(
            "{} must be from {LEAST} to {MOST}",
            setting_of(given, "log-segment-bytes")
        )));
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

fn texts(urls: &UrlList) -> Vec<String> {
    urls.0.iter().map(|url| url.as_str().to_owned()).collect()
}
