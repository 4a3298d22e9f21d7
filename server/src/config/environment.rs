//! The environment: `ETCD_A_B` sets `--a-b`, `KEELSON_C` sets Keelson's own `--c`.
//!
//! A flag wins over its variable; an empty variable sets nothing. A variable of these families that means nothing is
//! worth a warning, since it is most often a misspelling. Notices are etcd's, word by word.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::CommandFactory;

use super::error::ConfigError;
use super::flags::{Flags, IGNORED, OWN_SECTION};
use super::given::{Given, Origin};
use super::notice::Notice;

/// The variables that concern us, by name.
pub(crate) type Variables = BTreeMap<String, OsString>;

/// Picks the variables of the two families.
pub(crate) fn pick(environment: impl Iterator<Item = (OsString, OsString)>) -> Variables {
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with("ETCD_") || name.starts_with("KEELSON_"))
        .collect()
}

/// The variable that sets the flag.
pub(crate) fn variable_of(argument: &clap::Arg) -> Option<String> {
    let family = if argument.get_help_heading() == Some(OWN_SECTION) { "KEELSON" } else { "ETCD" };
    let name = argument.get_long()?.to_ascii_uppercase().replace('-', "_");
    Some(format!("{family}_{name}"))
}

/// The variable that etcd knows as a flag, and so would be asked for its version by.
const VERSION: &str = "ETCD_VERSION";

/// Flags whose values are shown to nobody.
const SECRET: [&str; 2] = ["discovery-password", "discovery-user"];

/// Settings from `variables` for all flags that are not in `given` already, and notices about all variables.
///
/// # Errors
/// [`ConfigError::Invalid`] if the value of a flag's variable is not UTF-8.
pub(crate) fn settings(
    variables: &Variables,
    given: &[Given],
    notices: &mut Vec<Notice>,
) -> Result<Vec<Given>, ConfigError> {
    let mut flags: BTreeMap<String, String> = Flags::command()
        .get_arguments()
        .filter_map(|argument| Some((variable_of(argument)?, argument.get_long()?.to_owned())))
        .collect();
    flags.remove(VERSION);
    if let Some(value) = variables.get(VERSION).filter(|value| !value.is_empty()) {
        let value = value.to_string_lossy().into_owned();
        notices.push(Notice::SpecialVariable { name: VERSION.to_owned(), value });
    }
    let mut settings = Vec::new();
    let mut rest = Vec::new();
    for (variable, value) in variables.iter().filter(|(variable, _)| *variable != VERSION) {
        let flag = flags.get(variable);
        if let Some(flag) = flag
            && given.iter().any(|one| one.flag == *flag)
        {
            rest.push(Notice::ShadowedVariable { name: variable.clone() });
            continue;
        }
        if value.is_empty() || flag.is_none() && !is_ignored(variable) {
            rest.push(Notice::UnknownVariable { text: format!("{variable}={}", value.to_string_lossy()) });
            continue;
        }
        let Some(text) = value.to_str() else {
            return Err(ConfigError::invalid(format!("the value of {variable} is not UTF-8")));
        };
        let is_secret = flag.is_some_and(|flag| SECRET.contains(&flag.as_str()));
        let shown = if is_secret { "(not shown)" } else { text };
        notices.push(Notice::UsedVariable { name: variable.clone(), value: shown.to_owned() });
        if let Some(flag) = flag {
            let origin = Origin::Environment(variable.clone());
            settings.push(Given { flag: flag.clone(), value: text.to_owned(), origin });
        }
    }
    notices.append(&mut rest);
    Ok(settings)
}

/// Whether it is the variable of a flag that is accepted and ignored.
fn is_ignored(variable: &str) -> bool {
    IGNORED
        .iter()
        .any(|name| variable.strip_prefix("ETCD_") == Some(&name.to_ascii_uppercase().replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_matched_to_flags() {
        let flag = Given { flag: "name".into(), value: "x".into(), origin: Origin::CommandLine };
        const SHADOWED: &str = "conflicting environment variable is shadowed by corresponding command-line flag (either \
                                unset environment variable or disable flag)): ETCD_NAME";
        for (variable, value, want, told, why) in [
            ("ETCD_NAME", "y", None, SHADOWED, "the flag wins"),
            ("ETCD_NAME", "", None, SHADOWED, "over nothing too"),
            (
                "ETCD_DATA_DIR",
                "/d",
                Some("data-dir=/d"),
                "recognized and used environment variable: ETCD_DATA_DIR=/d",
                "dashes are underscores",
            ),
            (
                "ETCD_DATA_DIR",
                "",
                None,
                "unrecognized environment variable: ETCD_DATA_DIR=",
                "empty sets nothing",
            ),
            ("ETCD_BOGUS", "1", None, "unrecognized environment variable: ETCD_BOGUS=1", "unknown"),
            ("ETCD_VERSION", "3", None, "cannot set special environment variable: ETCD_VERSION=3", "special"),
            ("ETCD_VERSION", "", None, "", "nothing special"),
            (
                "ETCD_FORCE",
                "1",
                None,
                "recognized and used environment variable: ETCD_FORCE=1",
                "ignored as its flag is",
            ),
            (
                "ETCD_UNSUPPORTED_ARCH",
                "arm64",
                None,
                "unrecognized environment variable: ETCD_UNSUPPORTED_ARCH=arm64",
                "etcd warns where its architecture is supported",
            ),
            ("ETCDCTL_API", "3", None, "", "another family"),
            (
                "KEELSON_MEMTABLE_BYTES",
                "1",
                Some("memtable-bytes=1"),
                "recognized and used environment variable: KEELSON_MEMTABLE_BYTES=1",
                "Keelson's own",
            ),
            (
                "ETCD_MEMTABLE_BYTES",
                "1",
                None,
                "unrecognized environment variable: ETCD_MEMTABLE_BYTES=1",
                "not etcd's",
            ),
            (
                "KEELSON_NAME",
                "y",
                None,
                "unrecognized environment variable: KEELSON_NAME=y",
                "not Keelson's own",
            ),
            (
                "ETCD_DISCOVERY_PASSWORD",
                "secret",
                Some("discovery-password=secret"),
                "recognized and used environment variable: ETCD_DISCOVERY_PASSWORD=(not shown)",
                "no secret in the log",
            ),
        ] {
            let variables = pick([(variable.into(), value.into())].into_iter());
            let mut notices = Vec::new();
            let settings =
                settings(&variables, std::slice::from_ref(&flag), &mut notices).expect("all UTF-8");
            let got = settings.first().map(|one| format!("{}={}", one.flag, one.value));
            assert_eq!(got.as_deref(), want, "{variable}: {why}");
            let notices: Vec<String> = notices.iter().map(ToString::to_string).collect();
            assert_eq!(notices.join("; "), told, "{variable}: {why}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn values_must_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let broken = OsString::from_vec(vec![0xff]);
        let variables = pick([(OsString::from("ETCD_NAME"), broken)].into_iter());
        let error = settings(&variables, &[], &mut Vec::new()).expect_err("not UTF-8");
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().contains("ETCD_NAME"));
    }
}
