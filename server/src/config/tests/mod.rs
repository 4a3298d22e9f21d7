//! The whole way from words to a configuration: here the common tools, the defaults and each class of flag. What etcd does
//! was seen by running etcd 3.7.3 with the same words.

mod each_flag;
mod random;
mod refusals;
mod sources;
mod start;

use std::io::Write;
use std::time::Duration;

use super::*;
use crate::logging::{Format, Level, Output};

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

fn load_with(args: &[OsString], env: &[(&str, &str)]) -> Result<Invocation, ConfigError> {
    let env: Vec<(OsString, OsString)> =
        env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    load_on(args.iter().cloned(), env.into_iter(), || Some("10.0.0.7".parse().expect("an address")))
}

fn try_config(args: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    match load_with(&words(args), env)? {
        Invocation::Serve(config) => Ok(*config),
        other => panic!("{args}: {other:?}"),
    }
}

fn config(args: &str) -> Config {
    try_config(args, &[]).unwrap_or_else(|error| panic!("{args}: {error}"))
}

/// Whether one of `notices` is a warning with `want` in it.
fn told(notices: &[Notice], want: &str) -> bool {
    notices.iter().any(|notice| notice.is_warning() && notice.to_string().contains(want))
}

fn texts(urls: &[ListenUrl]) -> String {
    urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn from_file(text: &str) -> Result<Config, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("it is writable");
    let path = OsString::from(file.path());
    match load_with(&["--config-file".into(), path], &[])? {
        Invocation::Serve(config) => Ok(*config),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn defaults_are_etcds() {
    let config = config("");
    assert_eq!(config.name, "default");
    assert_eq!(config.data_dir, PathBuf::from("default.keelson"));
    assert_eq!(texts(&config.listen_client_urls), "http://localhost:2379");
    assert_eq!(texts(&config.listen_peer_urls), "http://localhost:2380");
    assert!(config.listen_client_http_urls.is_empty() && config.listen_metrics_urls.is_empty());
    assert!(
        [&config.listen_client_urls, &config.listen_peer_urls].iter().all(|urls| urls[0]
            .socket_address()
            .expect("TCP")
            .ip()
            .is_loopback()),
        "nothing beyond this machine unless asked"
    );
    assert_eq!(config.advertise_client_urls, ["http://localhost:2379"]);
    assert_eq!(config.initial_advertise_peer_urls, ["http://localhost:2380"]);
    assert_eq!((config.heartbeat_interval_ms, config.election_timeout_ms), (100, 1000));
    assert_eq!((config.max_txn_ops, config.max_request_bytes), (128, 1_572_864));
    assert_eq!(config.max_concurrent_streams, u32::MAX);
    assert_eq!(config.quota_bytes(), Some(2 << 30));
    assert_eq!(config.snapshot_count, 10_000);
    assert_eq!(config.grpc_keepalive_interval, Some(Duration::from_secs(7200)));
    assert_eq!(config.grpc_keepalive_timeout, Some(Duration::from_secs(20)));
    assert_eq!(config.grpc_keepalive_min_time, Duration::from_secs(5));
    assert_eq!(config.watch_progress_notify_interval, Duration::from_secs(600));
    assert_eq!(config.warning_apply_duration, Duration::from_millis(100));
    assert_eq!(config.warning_unary_request_duration, Duration::from_millis(300));
    assert_eq!(config.auto_compaction, AutoCompaction::Off);
    assert_eq!(config.feature_gates, FeatureGates::default());
    assert_eq!((config.bcrypt_cost, config.auth_token_ttl_seconds), (10, 300));
    assert_eq!(config.metrics, MetricsDetail::Basic);
    assert!(config.enable_grpc_gateway && config.strict_reconfig_check);
    assert_eq!((config.cors, config.host_whitelist), (Allowed::All, Allowed::All));
    assert_eq!(config.log.level, Level::Info);
    assert_eq!(config.log.format, Format::Json);
    assert_eq!(config.log.outputs, [Output::Stderr]);
}

/// What a flag changes, shown by one expression over the configuration.
#[test]
fn each_class_of_flag_works() {
    type Show = fn(&Config) -> String;
    let cases: &[(&str, Show, &str)] = &[
        ("-name=a", |c| c.name.clone(), "a"),
        ("--name a", |c| c.data_dir.display().to_string(), "a.keelson"),
        ("--name a --data-dir /d", |c| c.data_dir.display().to_string(), "/d"),
        ("--name a --name b", |c| c.name.clone(), "b"),
        ("--heartbeat-interval 0x10", |c| c.heartbeat_interval_ms.to_string(), "16"),
        ("--quota-backend-bytes=-1", |c| format!("{:?}", c.quota_bytes()), "None"),
        ("--quota-backend-bytes=16777216", |c| format!("{:?}", c.quota_bytes()), "Some(16777216)"),
        ("--max-concurrent-streams=10", |c| c.max_concurrent_streams.to_string(), "10"),
        ("--strict-reconfig-check=false", |c| c.strict_reconfig_check.to_string(), "false"),
        ("--socket-reuse-port", |c| c.socket_reuse_port.to_string(), "true"),
        ("--grpc-keepalive-interval=0", |c| format!("{:?}", c.grpc_keepalive_interval), "None"),
        ("--grpc-keepalive-timeout=-1s", |c| format!("{:?}", c.grpc_keepalive_timeout), "None"),
        ("--watch-progress-notify-interval 5s", |c| format!("{:?}", c.watch_progress_notify_interval), "5s"),
        (
            "--watch-progress-notify-interval 1ms",
            |c| format!("{:?}", c.watch_progress_notify_interval),
            "100ms",
        ),
        ("--watch-progress-notify-interval 0", |c| format!("{:?}", c.watch_progress_notify_interval), "600s"),
        (
            "--warning-unary-request-duration=1m30s",
            |c| format!("{:?}", c.warning_unary_request_duration),
            "90s",
        ),
        ("--auto-compaction-retention=1", |c| format!("{:?}", c.auto_compaction), "Periodic(3600s)"),
        ("--auto-compaction-retention=5m", |c| format!("{:?}", c.auto_compaction), "Periodic(300s)"),
        (
            "--auto-compaction-mode=revision --auto-compaction-retention=1000",
            |c| format!("{:?}", c.auto_compaction),
            "Revisions(1000)",
        ),
        ("--auto-compaction-mode=revision", |c| format!("{:?}", c.auto_compaction), "Off"),
        (
            "--feature-gates=InitialCorruptCheck=true",
            |c| c.feature_gates.initial_corrupt_check.to_string(),
            "true",
        ),
        (
            "--listen-metrics-urls=http://127.0.0.1:2381",
            |c| texts(&c.listen_metrics_urls),
            "http://127.0.0.1:2381",
        ),
        (
            "--listen-client-urls=http://127.0.0.1:2,http://[::1]:1 --advertise-client-urls=http://h:1",
            |c| texts(&c.listen_client_urls),
            "http://127.0.0.1:2,http://[::1]:1",
        ),
        (
            "--listen-client-urls=unix:///tmp/s --advertise-client-urls=unix:///tmp/s",
            |c| texts(&c.listen_client_urls) + " " + &c.advertise_client_urls.join(","),
            "unix:///tmp/s unix:///tmp/s",
        ),
        (
            "--listen-peer-urls= --listen-client-http-urls=",
            |c| texts(&c.listen_peer_urls),
            "http://localhost:2380",
        ),
        ("--cors=http://a:1", |c| format!("{:?}", c.cors), r#"Only(["http://a:1"])"#),
        ("--host-whitelist=a,b", |c| format!("{:?}", c.host_whitelist), r#"Only(["a", "b"])"#),
        ("--log-level=debug", |c| format!("{:?}", c.log.level), "Debug"),
        ("--log-level=", |c| format!("{:?}", c.log.level), "Info"),
        ("--log-format console", |c| format!("{:?}", c.log.format), "Console"),
        (
            "--log-outputs=stdout,/a,stderr",
            |c| format!("{:?}", c.log.outputs),
            r#"[File("/a"), Stderr, Stdout]"#,
        ),
        (
            "--log-outputs=/a,stderr --enable-log-rotation",
            |c| format!("{:?}", c.log.rotation.as_ref().map(|rotation| rotation.bytes_max)),
            "Some(104857600)",
        ),
        ("--log-outputs=stdout,stderr --enable-log-rotation", |c| format!("{:?}", c.log.rotation), "None"),
        ("--log-outputs=/a", |c| format!("{:?}", c.log.rotation), "None"),
        ("--metrics=extensive", |c| format!("{:?}", c.metrics), "Extensive"),
        ("--auth-token=simple", |c| c.auth_token_ttl_seconds.to_string(), "300"),
        ("--bcrypt-cost=99", |c| c.bcrypt_cost.to_string(), "10"),
        ("--log-segment-bytes=1048576", |c| c.log_segment_bytes.to_string(), "1048576"),
        ("--initial-cluster-state=existing", |c| c.initial_cluster_state.to_string(), "existing"),
    ];
    for (args, show, want) in cases {
        assert_eq!(show(&config(args)), *want, "{args}");
    }
}

/// All that etcd 3.7's own test suite and kubeadm pass to a member without TLS.
#[test]
fn command_lines_of_others_are_taken() {
    for args in [
        "--name n --listen-client-urls http://localhost:20000 --advertise-client-urls http://localhost:20000 \
         --listen-peer-urls http://localhost:20001 --initial-advertise-peer-urls http://localhost:20001 \
         --initial-cluster-token new --data-dir /d --snapshot-count 10000 \
         --initial-cluster n=http://localhost:20001 --initial-cluster-state new",
        "--name n --data-dir=/var/lib/etcd --listen-client-urls=http://127.0.0.1:2379,http://10.0.0.1:2379 \
         --advertise-client-urls=http://10.0.0.1:2379 --listen-metrics-urls=http://127.0.0.1:2381 \
         --listen-peer-urls=http://10.0.0.1:2380 --initial-advertise-peer-urls=http://10.0.0.1:2380 \
         --initial-cluster=n=http://10.0.0.1:2380 --feature-gates=InitialCorruptCheck=true \
         --watch-progress-notify-interval=5s --snapshot-count=10000",
    ] {
        let config = config(args);
        config.bootstrap().unwrap_or_else(|error| panic!("{args}: {error}"));
        let told: Vec<String> = config.notices.iter().map(ToString::to_string).collect();
        let usual = ["Running http and grpc server on single port. This is not recommended for production."];
        assert_eq!(told, usual, "{args}");
    }
}

#[test]
fn settings_without_effect_are_warned_about() {
    for (args, want) in [
        ("--snapshot-count=5", "--snapshot-count has no effect"),
        ("--max-snapshots=5", "--max-snapshots is deprecated in 3.6"),
        ("--v2-deprecation=gone", "--v2-deprecation is deprecated and scheduled for removal"),
        ("--backend-batch-limit=9", "--backend-batch-limit has no effect"),
        ("--enable-pprof", "--enable-pprof has no effect"),
        ("--pre-vote=false", "--pre-vote has no effect"),
        ("--force", "flag is no longer supported - ignoring: --force"),
        ("--bcrypt-cost=99", "--bcrypt-cost must be from 4 to 31"),
        ("--metrics=foo", "--metrics is neither"),
        ("--feature-gates=LeaseCheckpoint=true", "checkpointing is enabled without persistence"),
        ("", "it isn't recommended to use default name"),
        ("", "Running http and grpc server on single port"),
        (
            r#"--log-outputs=/a --enable-log-rotation --log-rotation-config-json={"localtime":true}"#,
            "localtime in --log-rotation-config-json has no effect",
        ),
        ("", "'data-dir' was empty"),
    ] {
        let notices = config(args).notices;
        assert!(told(&notices, want), "{args}: {notices:?}");
    }
}

#[test]
fn version_and_help_come_before_everything_else() {
    for args in ["--version", "-version", "--version --election-timeout=1", "--version --cert-file=/c"] {
        assert!(matches!(load_with(&words(args), &[]), Ok(Invocation::Version(_))), "{args}");
    }
    for args in ["--help", "-h", "-help", "--election-timeout=1 --help --bogus", "--version --help"] {
        assert!(matches!(load_with(&words(args), &[]), Ok(Invocation::Help(_))), "{args}");
    }
}
