//! The whole way from words to a configuration: each class of flag, precedence, errors and their exit codes. What etcd
//! does was seen by running etcd 3.7.3 with the same words.

use std::io::Write;
use std::time::Duration;

use proptest::prelude::*;

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
        assert!(config.warnings.is_empty(), "{args}: {:?}", config.warnings);
    }
}

#[test]
fn refusals_have_etcds_exit_codes() {
    for (args, code, want) in [
        // The command line cannot be read.
        ("--bogus", 2, "flag provided but not defined: -bogus"),
        ("--experimental-initial-corrupt-check", 2, "-experimental-initial-corrupt-check"),
        ("--discovery=x", 2, "-discovery"),
        ("--name", 2, "flag needs an argument: -name"),
        ("--heartbeat-interval=abc", 2, r#"invalid value "abc" for flag -heartbeat-interval"#),
        ("--heartbeat-interval=-1", 2, "-heartbeat-interval"),
        ("--pre-vote=maybe", 2, r#"invalid value "maybe" for flag -pre-vote: not a boolean"#),
        ("--pre-vote=maybe --help", 2, "maybe"),
        ("--version --name", 2, "flag needs an argument"),
        ("--listen-client-urls=foo", 2, "URL scheme must be http, https, unix, or unixs: foo"),
        ("--listen-client-urls=http://1.2.3.4", 2, r#"does not have the form "host:port""#),
        ("--listen-client-urls=http://127.0.0.1:1/p", 2, "must not contain a path"),
        ("--max-concurrent-streams=4294967296", 2, "out of range"),
        ("--quota-backend-bytes=1k", 2, "-quota-backend-bytes"),
        ("--watch-progress-notify-interval=10", 2, "not a duration"),
        ("--initial-cluster-state=foo", 2, "write new or existing"),
        ("--discovery-fallback=foo", 2, "-discovery-fallback"),
        ("--v2-deprecation=not-yet", 2, "-v2-deprecation"),
        ("--feature-gates=Foo=true", 2, "unrecognized feature gate: Foo"),
        ("--feature-gates=InitialCorruptCheck", 2, "missing bool value for InitialCorruptCheck"),
        ("--log-level=foo", 2, "unrecognized level"),
        ("--cors=foo", 2, "-cors"),
        // Words that are no flags.
        ("foo", 1, r#""foo" is not a valid flag"#),
        ("--name a foo", 1, r#""foo" is not a valid flag"#),
        ("--pre-vote false", 1, "write --pre-vote=false"),
        ("--version foo", 1, r#""foo" is not a valid flag"#),
        ("-", 1, r#""-" is not a valid flag"#),
        ("gateway start", 1, "no such command"),
        ("grpc-proxy start", 1, "no such command"),
        // Values that do not fit together.
        ("--listen-client-urls=http://127.0.0.1:1", 1, "--advertise-client-urls is required when"),
        ("--listen-client-urls=", 1, "--advertise-client-urls is required when"),
        (
            "--listen-client-urls=http://example.com:1 --advertise-client-urls=http://h:1",
            1,
            "expected IP in URL for binding",
        ),
        ("--listen-metrics-urls=http://:1", 1, "expected IP in URL for binding (http://:1)"),
        ("--listen-peer-urls=http://h:1", 1, "--listen-peer-urls: expected IP"),
        ("--advertise-client-urls=http://:1", 1, "unexpected empty host"),
        ("--initial-advertise-peer-urls=http://:1", 1, "unexpected empty host"),
        (
            "--listen-client-http-urls=http://localhost:2379",
            1,
            "cannot bind both --listen-client-urls and --listen-client-http-urls",
        ),
        ("--listen-peer-urls=http://localhost:2379", 1, "cannot bind both"),
        ("--heartbeat-interval=0", 1, "--heartbeat-interval must be >0"),
        ("--election-timeout=0", 1, "--election-timeout must be >0"),
        ("--election-timeout=499", 1, "at least as 5 times"),
        ("--heartbeat-interval=18446744073709551615", 1, "at least as 5 times"),
        ("--election-timeout=50001", 1, "too long"),
        ("--initial-cluster=a=foo", 1, "--initial-cluster: URL scheme"),
        ("--auto-compaction-mode=foo", 1, "unknown auto-compaction-mode"),
        ("--auto-compaction-mode=", 1, "undefined auto-compaction-mode"),
        ("--auto-compaction-retention=abc", 1, "error parsing --auto-compaction-retention"),
        ("--auto-compaction-retention=-5m", 1, "error parsing"),
        ("--auto-compaction-retention=9999999999999", 1, "error parsing"),
        ("--auto-compaction-mode=revision --auto-compaction-retention=5m", 1, "number of revisions"),
        ("--auto-compaction-mode=revision --auto-compaction-retention=-5", 1, "number of revisions"),
        ("--discovery-token=x", 1, "both --discovery-token and --discovery-endpoints"),
        ("--discovery-fallback=proxy", 1, "v2 proxy is deprecated"),
        ("--initial-cluster=a=http://h:1 --discovery-srv=x", 1, "multiple discovery or bootstrap flags"),
        ("--compact-hash-check-time=0s", 1, "must be >0"),
        ("--feature-gates=LeaseCheckpointPersist=true", 1, "requires enabling feature gate LeaseCheckpoint"),
        ("--tls-min-version=foo", 1, "unexpected TLS version"),
        ("--logger=foo", 1, "unknown logger option"),
        ("--logger=capnslog", 1, "removed in v3.5"),
        ("--log-format=foo", 1, "unknown log format"),
        ("--log-outputs=default,stderr", 1, r#"multi logoutput for "default""#),
        ("--log-outputs=", 1, "must not be empty"),
        ("--auth-token=foo", 1, "unknown token type"),
        ("--max-learners=-1", 1, "--max-learners must be >=0"),
        ("--log-segment-bytes=1", 1, "--log-segment-bytes must be from"),
        ("--memtable-bytes=0", 1, "--memtable-bytes must be at least"),
        ("--config-file=/nonexistent/x.yml", 1, "/nonexistent/x.yml"),
        // What Keelson does not do.
        ("--cert-file=/c", 1, "--cert-file: TLS is not supported yet"),
        ("--client-cert-auth", 1, "--client-cert-auth: TLS is not supported yet"),
        ("--peer-auto-tls=true", 1, "--peer-auto-tls: TLS is not supported yet"),
        ("--cipher-suites=a", 1, "--cipher-suites: TLS is not supported yet"),
        (
            "--listen-client-urls=https://127.0.0.1:1 --advertise-client-urls=http://h:1",
            1,
            "write http:// or unix://",
        ),
        (
            "--initial-advertise-peer-urls=https://h:1",
            1,
            "--initial-advertise-peer-urls: https://h:1: TLS is not supported yet",
        ),
        ("--initial-cluster=a=https://h:1", 1, "--initial-cluster: https://h:1: TLS"),
        ("--listen-metrics-urls=unixs:///s", 1, "--listen-metrics-urls: unixs:///s: TLS"),
        ("--discovery-srv=x", 1, "--discovery-srv: discovery is not supported yet"),
        ("--auth-token=jwt,priv-key=/k", 1, "--auth-token=jwt: JSON web tokens are not supported yet"),
        ("--enable-distributed-tracing", 1, "tracing is not supported yet"),
        ("--enable-log-rotation", 1, "log rotation is not supported"),
        ("--log-outputs=systemd/journal", 1, "--log-outputs=systemd/journal"),
        ("--force-new-cluster", 1, "--force-new-cluster: "),
        ("--unsafe-no-fsync", 1, "always syncs"),
        ("--wal-dir=/w", 1, "--wal-dir: "),
        ("--memory-mlock", 1, "--memory-mlock: "),
    ] {
        let error = load_with(&words(args), &[]).expect_err(args);
        let text = error.to_string();
        assert_eq!(error.exit_code(), code, "{args}: {text}");
        assert!(text.contains(want), "{args}: {text}");
        assert_eq!(
            text.contains("Usage: keelson"),
            code == 2,
            "{args}: usage follows what cannot be read: {text}"
        );
    }
}

#[test]
fn variables_stand_for_flags() {
    let config =
        try_config("", &[("ETCD_NAME", "e"), ("ETCD_PRE_VOTE", "true"), ("KEELSON_LOG_TAIL_BYTES", "7")])
            .expect("sound");
    assert_eq!((config.name.as_str(), config.log_tail_bytes), ("e", 7));

    let config = try_config("--name f", &[("ETCD_NAME", "e")]).expect("the flag wins");
    assert_eq!(config.name, "f");
    assert!(
        config.warnings.iter().any(|warning| warning.contains("ETCD_NAME is shadowed")),
        "{:?}",
        config.warnings
    );

    let config =
        try_config("", &[("ETCD_BOGUS", "1"), ("ETCD_VERSION", "3"), ("HOME", "/")]).expect("only warned");
    for name in ["ETCD_BOGUS", "ETCD_VERSION"] {
        assert!(
            config.warnings.iter().any(|warning| warning.contains(name)),
            "{name}: {:?}",
            config.warnings
        );
    }

    for (variable, value, want) in [
        ("ETCD_HEARTBEAT_INTERVAL", "abc", r#"invalid value "abc" for ETCD_HEARTBEAT_INTERVAL"#),
        ("ETCD_LISTEN_CLIENT_URLS", "foo", "ETCD_LISTEN_CLIENT_URLS: URL scheme"),
        ("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:1", "required when ETCD_LISTEN_CLIENT_URLS is set"),
        ("ETCD_ELECTION_TIMEOUT", "1", "ETCD_ELECTION_TIMEOUT[1ms]"),
        ("ETCD_CERT_FILE", "/c", "ETCD_CERT_FILE: TLS is not supported yet"),
        ("ETCD_LOG_LEVEL", "foo", "ETCD_LOG_LEVEL: unrecognized level"),
        ("ETCD_CONFIG_FILE", "/nonexistent", "/nonexistent"),
        ("KEELSON_MEMTABLE_BYTES", "x", "KEELSON_MEMTABLE_BYTES"),
    ] {
        let error = try_config("", &[(variable, value)]).expect_err(variable);
        assert_eq!(error.exit_code(), 1, "{variable}: {error}");
        assert!(error.to_string().contains(want), "{variable}: {error}");
    }
}

#[test]
fn with_a_file_only_the_file_counts() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(b"name: f\nwatch-progress-notify-interval: 5000000000\n").expect("it is writable");
    let path = file.path().to_str().expect("UTF-8").to_owned();
    let args = format!("--config-file {path} --name x --election-timeout 1");
    let config = try_config(&args, &[("ETCD_HEARTBEAT_INTERVAL", "abc")]).expect("both are ignored");
    assert_eq!(config.name, "f");
    assert_eq!(config.election_timeout_ms, 1000);
    assert_eq!(config.watch_progress_notify_interval, Duration::from_secs(5));
    assert!(config.warnings.iter().any(|warning| warning.contains("are ignored")), "{:?}", config.warnings);

    let config = try_config("", &[("ETCD_CONFIG_FILE", &path)]).expect("the variable names it too");
    assert_eq!(config.name, "f");

    let error =
        try_config(&format!("--config-file {path} --heartbeat-interval=x"), &[]).expect_err("malformed");
    assert_eq!(error.exit_code(), 2, "flags are still parsed: {error}");
}

#[test]
fn files_are_validated_as_flags_are() {
    let config =
        from_file("listen-client-urls: http://127.0.0.1:1\n").expect("a file needs no advertised URLs");
    assert_eq!(config.advertise_client_urls, ["http://localhost:2379"]);

    for (text, want) in [
        ("election-timeout: 60000", "election-timeout in the configuration file[60000ms] is too long"),
        ("listen-client-urls: foo", "listen-client-urls in the configuration file: URL scheme"),
        ("initial-cluster-state: foo", "initial-cluster-state in the configuration file"),
        ("feature-gates: Foo=true", "unrecognized feature gate: Foo"),
        (
            "client-transport-security: {cert-file: /c}",
            "client-transport-security.cert-file in the configuration file: TLS",
        ),
        ("peer-transport-security: {client-cert-auth: true}", "peer-transport-security.client-cert-auth"),
        ("cert-file: /c", "cert-file in the configuration file: TLS is not supported yet"),
        ("election-timeout: abc", "election-timeout must be a number"),
        ("[]", "must be a mapping"),
    ] {
        let error = from_file(text).expect_err(text);
        assert_eq!(error.exit_code(), 1, "{text}: {error}");
        assert!(error.to_string().contains(want), "{text}: {error}");
    }
    let harmless =
        "client-transport-security:\n  cert-file: ''\n  client-cert-auth: false\npeer-transport-security:\n";
    from_file(harmless).expect("maps that set nothing");
}

#[test]
fn a_first_start_is_checked_as_etcd_checks_it() {
    let elsewhere = "--initial-advertise-peer-urls=http://127.0.0.1:9";
    for (args, want, why) in [
        ("", Ok(("8e9e05c52164694d", "cdf818194e3a8c32")), "all defaults: etcd's well-known ids"),
        ("--name a", Ok(("8e9e05c52164694d", "cdf818194e3a8c32")), "the name is no part of an id"),
        (&format!("--name a {elsewhere}"), Ok(("", "")), "a name alone makes its own cluster"),
        (elsewhere, Err("missing from --initial-advertise-peer-urls"), "the default name does not"),
        (
            "--initial-cluster=a=http://localhost:2380",
            Err("couldn't find local name \"default\""),
            "another's name",
        ),
        ("--name=", Err("couldn't find local name \"\""), "no name"),
        ("--initial-cluster=", Err("couldn't find local name"), "no members"),
        (
            "--initial-cluster=default=http://localhost:9",
            Err("--initial-cluster has default=http://localhost:9"),
            "another URL",
        ),
        (
            "--initial-advertise-peer-urls=http://localhost:2380,http://localhost:9",
            Err("--initial-advertise-peer-urls has http://localhost:9"),
            "one URL more",
        ),
        (
            "--initial-cluster=default=http://localhost:2380,b=http://localhost:2380",
            Err("has duplicate url"),
            "two members at one place",
        ),
        (
            "--initial-cluster=default=http://localhost:2380,b=http://localhost:9",
            Err("a cluster of 2 members is not supported yet"),
            "more than one member",
        ),
        ("--initial-cluster-state=existing", Err("joining a cluster is not supported yet"), "joining"),
    ] {
        match (config(args).bootstrap(), want) {
            (Ok(_), Ok(("", ""))) => {}
            (Ok(got), Ok((member, cluster))) => {
                let got = (format!("{:x}", got.member_id), format!("{:x}", got.cluster_id));
                assert_eq!(got, (member.to_owned(), cluster.to_owned()), "{args}: {why}");
            }
            (Err(error), Err(want)) => {
                assert_eq!(error.exit_code(), 1, "{args}");
                assert!(error.to_string().contains(want), "{args}: {why}: {error}");
            }
            (got, _) => panic!("{args}: {why}: {got:?}"),
        }
    }
}

#[test]
fn listening_everywhere_advertises_this_machine() {
    for (args, peer, client, why) in [
        ("", "http://localhost:2380", "http://localhost:2379", "only loopback"),
        (
            "--name a --listen-peer-urls=http://0.0.0.0:5",
            "http://10.0.0.7:5",
            "http://localhost:2379",
            "the peer port follows the listener",
        ),
        (
            "--listen-client-urls=http://0.0.0.0:6 --advertise-client-urls=http://localhost:2379",
            "http://localhost:2380",
            "http://10.0.0.7:6",
            "as etcd, even when the default was written out",
        ),
        (
            "--listen-client-urls=http://0.0.0.0:6 --advertise-client-urls=http://h:6",
            "http://localhost:2380",
            "http://h:6",
            "what was chosen stays",
        ),
    ] {
        let config = config(args);
        assert_eq!(config.initial_advertise_peer_urls, [peer], "{args}: {why}");
        assert_eq!(config.advertise_client_urls, [client], "{args}: {why}");
    }
    let member = &config("--name a --listen-peer-urls=http://0.0.0.0:5").initial_cluster[0];
    assert_eq!((member.name.as_str(), member.peer_urls[0].as_str()), ("a", "http://10.0.0.7:5"));
}

#[test]
fn settings_without_effect_are_warned_about() {
    for (args, want) in [
        ("--snapshot-count=5", "--snapshot-count has no effect"),
        ("--max-snapshots=5", "--max-snapshots is deprecated"),
        ("--v2-deprecation=gone", "--v2-deprecation is deprecated"),
        ("--backend-batch-limit=9", "--backend-batch-limit has no effect"),
        ("--enable-pprof", "--enable-pprof has no effect"),
        ("--pre-vote=false", "--pre-vote has no effect"),
        ("--force", "--force is no longer supported"),
        ("--bcrypt-cost=99", "--bcrypt-cost must be from 4 to 31"),
        ("--metrics=foo", "--metrics is neither"),
        ("--feature-gates=LeaseCheckpoint=true", "without LeaseCheckpointPersist"),
        ("", "default name"),
        ("", "'data-dir' was empty"),
    ] {
        let warnings = config(args).warnings;
        assert!(warnings.iter().any(|warning| warning.contains(want)), "{args}: {warnings:?}");
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

/// Words that have a chance to mean something.
fn word() -> impl Strategy<Value = String> {
    let flags: Vec<String> = <flags::Flags as clap::CommandFactory>::command()
        .get_arguments()
        .filter_map(|argument| argument.get_long().map(str::to_owned))
        .collect();
    let values = prop::sample::select(vec![
        "",
        "true",
        "false",
        "0",
        "-1",
        "18446744073709551616",
        "5m",
        "1e9s",
        "http://127.0.0.1:1",
        "http://[::1]:0",
        "unix://x",
        "a=http://h:1,b=",
        "https://h:1",
        "simple",
        "default,",
        ",,=",
        "AllAlpha=true",
        "é",
        "0x",
        "..s",
    ]);
    prop_oneof![
        4 => (prop::sample::select(flags.clone()), values.clone()).prop_map(|(flag, value)| format!("--{flag}={value}")),
        2 => prop::sample::select(flags).prop_map(|flag| format!("-{flag}")),
        2 => values.prop_map(str::to_owned),
        1 => "-{0,3}[a-z=é-]{0,6}",
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn no_words_make_it_panic(args in prop::collection::vec(word(), 0..6), variable in word()) {
        let args: Vec<OsString> =
            args.iter().filter(|word| !word.contains("config-file")).map(OsString::from).collect();
        let result = load_with(&args, &[("ETCD_INITIAL_CLUSTER", &variable), ("KEELSON_MEMTABLE_BYTES", &variable)]);
        match result {
            Ok(Invocation::Serve(config)) => {
                prop_assert!(config.heartbeat_interval_ms * 5 <= config.election_timeout_ms);
                prop_assert!(!config.listen_client_urls.is_empty() && !config.listen_peer_urls.is_empty());
                let _ = config.bootstrap();
            }
            Ok(Invocation::Help(text) | Invocation::Version(text)) => prop_assert!(!text.is_empty()),
            Err(error) => prop_assert!(matches!(error.exit_code(), 1 | 2) && !error.to_string().is_empty()),
        }
    }

    #[test]
    fn values_never_make_it_panic(text in any::<String>()) {
        let _ = text.parse::<values::GoDuration>();
        let _ = text.parse::<values::Signed>();
        let _ = text.parse::<Url>();
        let _ = text.parse::<FeatureGates>();
        let _ = bootstrap::parse_members(&text);
        let _ = file::settings(&text, &mut Vec::new());
    }
}
