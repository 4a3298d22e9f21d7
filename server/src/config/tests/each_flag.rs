//! Every flag of etcd, one by one: known here, of the same type and default, and honest about what it does, whether it
//! comes as a flag, as a variable or from a file.

use clap::CommandFactory;

use super::*;
use crate::config::flags::{Flags, IGNORED, OWN_SECTION};
use crate::config::support::{Support, support_of};
use crate::config::values::{Kind, kind_of};

/// See the file's first lines.
const ETCDS: &str = include_str!("etcd-flags.txt");

/// Name, Go type and default of each of etcd's flags.
fn etcds() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    ETCDS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("{line}: three words"));
        let (name, kind, default) = (word(), word(), word());
        (name, kind, serde_json::from_str(default).expect("quoted as JSON quotes"))
    })
}

/// Defaults that differ from what etcd's flags say, with the reason.
const OTHER_DEFAULTS: [(&str, &str, &str); 3] = [
    ("compaction-batch-limit", "1000", "etcd's 0 means this"),
    ("compaction-sleep-interval", "10ms", "etcd's 0 means this"),
    ("watch-progress-notify-interval", "10m", "etcd's 0 means this"),
];

#[test]
fn every_flag_of_etcd_is_known_with_its_type_and_default() {
    let command = Flags::command();
    let mut count = 0;
    for (name, kind, default) in etcds() {
        count += 1;
        if kind == "flags.IgnoredFlag" {
            assert!(IGNORED.contains(&name), "--{name} is ignored by etcd, and unknown here");
            continue;
        }
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name));
        let argument = argument.unwrap_or_else(|| panic!("etcd has --{name}, we have not"));
        let want = match kind {
            "flag.boolValue" => Kind::Switch,
            "flag.durationValue" => Kind::Duration,
            _ if kind.to_ascii_lowercase().contains("int") => Kind::Number,
            "flags.StringsValue" | "flags.UniqueStringsValue" => Kind::List,
            _ => Kind::Text,
        };
        let is_list_in_one_text = want == Kind::List && kind_of(argument) == Kind::Text;
        assert!(kind_of(argument) == want || is_list_in_one_text, "--{name} is a {kind}");
        let ours = argument.get_default_values().first().and_then(|text| text.to_str()).unwrap_or_default();
        let other = OTHER_DEFAULTS.iter().find(|(flag, _, _)| *flag == name).map(|(_, default, _)| *default);
        let same = match want {
            Kind::Duration => {
                let parse = |text: &str| text.parse::<values::GoDuration>().expect("a duration");
                parse(ours) == parse(other.unwrap_or(&default))
            }
            _ => ours == other.unwrap_or(&default),
        };
        assert!(same, "--{name} is {default:?} by default, not {ours:?}");
    }
    assert!(count > 120, "the list is short: {count}");
}

#[test]
fn no_flag_is_taken_for_etcds() {
    for argument in Flags::command().get_arguments() {
        let name = argument.get_long().expect("every flag has a long name");
        let is_own = argument.get_help_heading() == Some(OWN_SECTION);
        assert_eq!(etcds().all(|(etcds, _, _)| etcds != name), is_own, "--{name}: Keelson's own stand apart");
    }
}

/// A value that is not the default, for flags that take not just any of their type.
const SAMPLES: [(&str, &str); 31] = [
    ("advertise-client-urls", "http://h:1"),
    ("auth-token", "jwt"),
    ("auto-compaction-mode", "revision"),
    ("bcrypt-cost", "7"),
    ("cors", "http://h:1"),
    ("discovery-endpoints", "e"),
    ("election-timeout", "2000"),
    ("feature-gates", "InitialCorruptCheck=true"),
    ("heartbeat-interval", "50"),
    ("initial-advertise-peer-urls", "http://h:1"),
    ("initial-cluster", "a=http://h:1"),
    ("initial-cluster-state", "existing"),
    ("listen-client-http-urls", "http://127.0.0.1:1"),
    ("listen-client-urls", "http://127.0.0.1:1"),
    ("listen-metrics-urls", "http://127.0.0.1:1"),
    ("listen-peer-urls", "http://127.0.0.1:1"),
    ("log-format", "console"),
    ("log-level", "debug"),
    ("log-outputs", "/l"),
    ("log-rotation-config-json", "{}"),
    ("logger", "zap"),
    ("max-concurrent-streams", "7"),
    ("metrics", "extensive"),
    ("tls-max-version", "TLS1.3"),
    ("tls-min-version", "TLS1.3"),
    ("v2-deprecation", "gone"),
    ("auto-compaction-retention", "5"),
    ("quota-backend-bytes", "7"),
    ("max-learners", "7"),
    ("host-whitelist", "h"),
    ("cipher-suites", "c"),
];

/// What else must be set for the flag to be allowed, as a flag and as the file has it.
fn company(flag: &str) -> &'static [(&'static str, &'static str)] {
    match flag {
        "listen-client-urls" => &[("advertise-client-urls", "http://h:1")],
        "discovery-token" => &[("discovery-endpoints", "e"), ("initial-cluster", "")],
        "discovery-endpoints" => &[("discovery-token", "t"), ("initial-cluster", "")],
        "enable-log-rotation" => &[("log-outputs", "/l")],
        _ => &[],
    }
}

/// What becomes of a setting.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Works,
    HasNoEffect,
    Refused,
}

fn outcome(loaded: Result<Invocation, ConfigError>, flag: &str) -> Outcome {
    match loaded {
        Ok(Invocation::Serve(config)) if told(&config.notices, "has no effect") => Outcome::HasNoEffect,
        Ok(Invocation::Serve(_)) => Outcome::Works,
        Ok(other) => panic!("--{flag}: {other:?}"),
        Err(ConfigError::Unsupported { .. }) => Outcome::Refused,
        Err(error) => panic!("--{flag}: {error}"),
    }
}

/// The setting as a line of a file, by the type that the file demands.
fn file_line(flag: &str, value: &str, kind: Kind) -> String {
    let value = match kind {
        Kind::Switch | Kind::Number => value.to_owned(),
        Kind::Duration => value.parse::<values::GoDuration>().expect("a duration").nanoseconds.to_string(),
        Kind::List => format!("[{value:?}]"),
        Kind::Text => format!("{value:?}"),
    };
    format!("{flag}: {value}\n")
}

#[test]
fn every_flag_does_what_help_says_of_it_from_every_source() {
    let command = Flags::command();
    let kind = |flag: &str| {
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(flag));
        kind_of(argument.unwrap_or_else(|| panic!("--{flag} is no flag")))
    };
    for (flag, go, default) in etcds() {
        // The first two are about the program, the last has one value that etcd takes: its default.
        if go == "flags.IgnoredFlag" || matches!(flag, "config-file" | "version" | "discovery-fallback") {
            continue;
        }
        let sample = SAMPLES.iter().find(|(known, _)| *known == flag).map(|(_, sample)| *sample);
        let value = sample.unwrap_or(match kind(flag) {
            Kind::Switch if default == "true" => "false",
            Kind::Switch => "true",
            Kind::Number => "9",
            Kind::Duration => "9s",
            Kind::List | Kind::Text => "x",
        });
        let want = match support_of(flag) {
            None if flag == "auth-token" => Outcome::Refused,
            None => Outcome::Works,
            Some(Support::NoEffect(_)) => Outcome::HasNoEffect,
            Some(Support::Refused(_)) => Outcome::Refused,
        };
        let settings: Vec<(&str, &str)> =
            std::iter::once((flag, value)).chain(company(flag).iter().copied()).collect();

        let args: Vec<OsString> =
            settings.iter().map(|(flag, value)| OsString::from(format!("--{flag}={value}"))).collect();
        assert_eq!(outcome(load_with(&args, &[]), flag), want, "--{flag}={value} as a flag");

        let variables: Vec<(String, &str)> = settings
            .iter()
            .map(|(flag, value)| (format!("ETCD_{}", flag.to_ascii_uppercase().replace('-', "_")), *value))
            .collect();
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(outcome(load_with(&[], &variables), flag), want, "{variables:?} as a variable");

        let text: String = settings.iter().map(|(flag, value)| file_line(flag, value, kind(flag))).collect();
        let loaded = from_file(&text).map(|config| Invocation::Serve(Box::new(config)));
        assert_eq!(outcome(loaded, flag), want, "{text} in a file");
    }
}
