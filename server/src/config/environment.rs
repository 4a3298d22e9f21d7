//! The environment: `ETCD_A_B` sets `--a-b`, `KEELSON_C` sets Keelson's own `--c`.
//!
//! A flag wins over its variable; an empty variable is no variable. A variable of these families that means nothing is
//! worth a warning, since it is most often a misspelling.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::CommandFactory;

use super::error::ConfigError;
use super::flags::{Flags, IGNORED, OWN_SECTION};
use super::given::{Given, Origin};

/// The variables that concern us, by name. Empty ones are left out.
pub(crate) type Variables = BTreeMap<String, OsString>;

/// Picks the variables of the two families.
pub(crate) fn pick(environment: impl Iterator<Item = (OsString, OsString)>) -> Variables {
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| {
            !value.is_empty() && (name.starts_with("ETCD_") || name.starts_with("KEELSON_"))
        })
        .collect()
}

/// The variable that sets the flag.
pub(crate) fn variable_of(argument: &clap::Arg) -> Option<String> {
    let family = if argument.get_help_heading() == Some(OWN_SECTION) { "KEELSON" } else { "ETCD" };
    let name = argument.get_long()?.to_ascii_uppercase().replace('-', "_");
    Some(format!("{family}_{name}"))
}

/// Settings from `variables` for all flags that are not in `given` already, and warnings about the rest.
///
/// # Errors
/// [`ConfigError::Invalid`] if the value of a flag's variable is not UTF-8.
pub(crate) fn settings(
    variables: &Variables,
    given: &[Given],
    warnings: &mut Vec<String>,
) -> Result<Vec<Given>, ConfigError> {
    let mut flags: BTreeMap<String, String> = Flags::command()
        .get_arguments()
        .filter_map(|argument| Some((variable_of(argument)?, argument.get_long()?.to_owned())))
        .collect();
    // etcd knows a flag --version, and so a variable that monitoring scripts like to set for their own ends.
    flags.remove("ETCD_VERSION");
    let mut settings = Vec::new();
    for (variable, value) in variables {
        if variable == "ETCD_VERSION" {
            warnings.push(format!("cannot set special environment variable {variable}; it is ignored"));
            continue;
        }
        let Some(flag) = flags.get(variable) else {
            if !is_known_elsewhere(variable) {
                warnings.push(format!("unrecognized environment variable {variable}; it is ignored"));
            }
            continue;
        };
        if given.iter().any(|one| one.flag == *flag) {
            warnings.push(format!("environment variable {variable} is shadowed by the flag --{flag}"));
            continue;
        }
        let Some(value) = value.to_str() else {
            return Err(ConfigError::invalid(format!("the value of {variable} is not UTF-8")));
        };
        settings.push(Given {
            flag: flag.clone(),
            value: value.to_owned(),
            origin: Origin::Environment(variable.clone()),
        });
    }
    Ok(settings)
}

/// Variables that etcd reads without a flag, or ignores as it ignores their flags.
fn is_known_elsewhere(variable: &str) -> bool {
    variable == "ETCD_UNSUPPORTED_ARCH"
        || IGNORED
            .iter()
            .any(|name| variable.strip_prefix("ETCD_") == Some(&name.to_ascii_uppercase().replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_matched_to_flags() {
        let flag = Given { flag: "name".into(), value: "x".into(), origin: Origin::CommandLine };
        for (variable, value, want, warned, why) in [
            ("ETCD_NAME", "y", None, true, "the flag wins, and that is said"),
            ("ETCD_DATA_DIR", "/d", Some("data-dir=/d"), false, "dashes are underscores"),
            ("ETCD_DATA_DIR", "", None, false, "empty is unset"),
            ("ETCD_BOGUS", "1", None, true, "unknown"),
            ("ETCD_VERSION", "3", None, true, "special"),
            ("ETCD_FORCE", "1", None, false, "ignored as its flag is"),
            ("ETCD_UNSUPPORTED_ARCH", "arm64", None, false, "etcd's own"),
            ("ETCDCTL_API", "3", None, false, "another family"),
            ("KEELSON_MEMTABLE_BYTES", "1", Some("memtable-bytes=1"), false, "Keelson's own"),
            ("ETCD_MEMTABLE_BYTES", "1", None, true, "not etcd's"),
            ("KEELSON_NAME", "y", None, true, "not Keelson's own"),
        ] {
            let variables = pick([(variable.into(), value.into())].into_iter());
            let mut warnings = Vec::new();
            let settings =
                settings(&variables, std::slice::from_ref(&flag), &mut warnings).expect("all UTF-8");
            let got = settings.first().map(|one| format!("{}={}", one.flag, one.value));
            assert_eq!(got.as_deref(), want, "{variable}: {why}");
            assert_eq!(!warnings.is_empty(), warned, "{variable}: {why}: {warnings:?}");
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
