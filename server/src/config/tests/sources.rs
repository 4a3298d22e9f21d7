//! Variables and the configuration file, and who wins.

use super::*;

#[test]
fn variables_stand_for_flags() {
    let config =
        try_config("", &[("ETCD_NAME", "e"), ("ETCD_PRE_VOTE", "true"), ("KEELSON_LOG_TAIL_BYTES", "7")])
            .expect("sound");
    assert_eq!((config.name.as_str(), config.log_tail_bytes), ("e", 7));

    let config = try_config("--name f", &[("ETCD_NAME", "e")]).expect("the flag wins");
    assert_eq!(config.name, "f");
    assert!(told(&config.notices, "is shadowed by corresponding command-line flag"), "{:?}", config.notices);

    let config =
        try_config("", &[("ETCD_BOGUS", "1"), ("ETCD_VERSION", "3"), ("HOME", "/")]).expect("only warned");
    for name in ["ETCD_BOGUS", "ETCD_VERSION"] {
        assert!(told(&config.notices, name), "{name}: {:?}", config.notices);
    }

    for (variable, value, want) in [
        ("ETCD_HEARTBEAT_INTERVAL", "abc", r#"invalid value "abc" for ETCD_HEARTBEAT_INTERVAL"#),
        ("ETCD_LISTEN_CLIENT_URLS", "foo", "ETCD_LISTEN_CLIENT_URLS: URL scheme"),
        ("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:1", "(set by ETCD_LISTEN_CLIENT_URLS)"),
        ("ETCD_ELECTION_TIMEOUT", "1", "heartbeat-interval[100ms] (set by ETCD_ELECTION_TIMEOUT)"),
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
    let loaded = config.notices.iter().find(|notice| matches!(notice, Notice::LoadedFile(_)));
    assert!(loaded.is_some_and(|notice| notice.to_string().contains("will be ignored")), "{loaded:?}");

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
        (
            "election-timeout: 60000",
            "--election-timeout[60000ms] is too long, and should be set less than 50000ms (set by election-timeout in",
        ),
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
