//! What is refused, with which words and which exit code.

use super::*;

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
        ("--auto-compaction-mode=foo", 1, "unknown --auto-compaction-mode"),
        ("--auto-compaction-mode=", 1, "undefined --auto-compaction-mode"),
        ("--auto-compaction-retention=abc", 1, "error parsing --auto-compaction-retention"),
        ("--auto-compaction-retention=-5m", 1, "error parsing"),
        ("--auto-compaction-retention=9999999999999", 1, "error parsing"),
        ("--auto-compaction-mode=revision --auto-compaction-retention=5m", 1, "number of revisions"),
        ("--auto-compaction-mode=revision --auto-compaction-retention=-5", 1, "number of revisions"),
        ("--discovery-token=x", 1, "both --discovery-token and --discovery-endpoints"),
        ("--discovery-fallback=proxy", 1, "v2 proxy is deprecated"),
        ("--initial-cluster=a=http://h:1 --discovery-srv=x", 1, "multiple discovery or bootstrap flags"),
        ("--compact-hash-check-time=0s", 1, "--compact-hash-check-time must be >0 (set to 0s)"),
        ("--feature-gates=LeaseCheckpointPersist=true", 1, "requires enabling feature gate LeaseCheckpoint"),
        ("--tls-min-version=foo", 1, "unexpected TLS version"),
        ("--logger=foo", 1, "unknown logger option"),
        ("--logger=capnslog", 1, "removed in v3.5"),
        ("--log-format=foo", 1, "unknown log format"),
        ("--log-outputs=default,stderr", 1, r#"multi logoutput for "default""#),
        ("--log-outputs=", 1, "must not be empty"),
        ("--enable-log-rotation", 1, "--log-outputs requires a single file path"),
        ("--enable-log-rotation --log-outputs=/a,/b", 1, "--log-outputs requires a single file path"),
        (
            "--enable-log-rotation --log-outputs=/a --log-rotation-config-json={",
            1,
            "--log-rotation-config-json: improperly formatted log rotation config: ",
        ),
        ("--auth-token=foo", 1, "unknown token type"),
        ("--auth-token=simple,x", 1, "must be KEY=VALUE"),
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
