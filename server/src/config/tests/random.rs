//! Words at random never make loading panic.

use proptest::prelude::*;

use super::*;

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
