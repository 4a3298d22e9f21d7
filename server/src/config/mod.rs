//! Configuration: etcd's flags, `ETCD_*` variables and configuration file, turned into one typed [`Config`].
//!
//! READING ORDER: `values` and `url` (texts to values), `flags` (all names), `given` (values with where they were
//! written), `argv`, `environment` and `file` (the three sources), `support` (what is refused), `addresses` and
//! `validate` (rules between values), `settings` (the result), `notice` (what is told of it), `bootstrap` and `ids` (a
//! first start), `help`.
//!
//! A flag wins over its variable, a variable over the default. With a configuration file, flags and variables are
//! ignored.
//!
//! INVARIANTS
//! * Loading reads at most one file, the configuration file, and creates nothing.
//! * It never panics, whatever the words.
//! * What would be unsafe to ignore is refused by name; the rest that has no effect is warned about.

mod addresses;
mod allowed;
mod argv;
mod bootstrap;
mod environment;
mod error;
mod file;
mod flags;
mod gates;
mod given;
mod help;
mod host;
pub mod ids;
mod notice;
mod settings;
mod support;
mod url;
mod validate;
mod values;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use addresses::Source;
pub use allowed::Allowed;
pub use bootstrap::Bootstrap;
pub use error::ConfigError;
pub use flags::ClusterState;
pub use gates::FeatureGates;
pub use help::{ETCD_VERSION, KEELSON_VERSION};
pub use notice::Notice;
pub use settings::{AutoCompaction, Config, InitialMember, MetricsDetail};
pub use url::{ListenUrl, Scheme, Url};
pub(crate) use values::GoDuration;
pub use values::ValueError;

/// What the program was asked to do.
#[derive(Debug)]
pub enum Invocation {
    /// Serve with this configuration.
    Serve(Box<Config>),
    /// Print this text to stdout and end with code 0.
    Version(String),
    /// Print this text to stdout and end with code 0.
    Help(String),
}

/// Reads the command line and the environment, and the configuration file if one of them names it.
///
/// `args` are the words after the program's name.
///
/// # Errors
/// [`ConfigError`] for what cannot be read, does not fit together, or is not supported. Nothing has been created then.
pub fn load(
    args: impl Iterator<Item = OsString>,
    env: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Invocation, ConfigError> {
    load_on(args, env, host::default_host)
}

/// `load`, on a machine whose address is what `default_host` finds.
fn load_on(
    args: impl Iterator<Item = OsString>,
    env: impl Iterator<Item = (OsString, OsString)>,
    default_host: impl FnOnce() -> Option<IpAddr>,
) -> Result<Invocation, ConfigError> {
    let args: Vec<OsString> = args.collect();
    if let Some(command @ ("gateway" | "grpc-proxy")) = args.first().and_then(|word| word.to_str()) {
        return Err(ConfigError::Unsupported {
            setting: command.to_owned(),
            reason: "Keelson has no such command; etcd's own works in front of it".to_owned(),
        });
    }
    let line = argv::split(args.into_iter())?;
    let flags = given::parse(&line.given)?;
    if line.help {
        return Ok(Invocation::Help(help::help()));
    }
    if let Some(word) = line.stray {
        return Err(stray(&word, &line.given));
    }
    if flags.program.version.0 {
        return Ok(Invocation::Version(help::version()));
    }
    let ignored = |name| Notice::Warning(format!("flag is no longer supported - ignoring: --{name}"));
    let mut notices: Vec<Notice> = line.ignored.iter().map(ignored).collect();
    let variables = environment::pick(env);
    let file = config_file(flags.program.config_file, &variables);
    let given = match &file {
        Some(path) => {
            notices.push(Notice::LoadedFile(path.clone()));
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::File { path: path.clone(), source })?;
            file::settings(&text, &mut notices)?
        }
        None => {
            let mut given = environment::settings(&variables, &line.given, &mut notices)?;
            given.extend(line.given);
            given
        }
    };
    let flags = given::parse(&given)?;
    let source = if file.is_some() { Source::File } else { Source::Words };
    validate::validate(flags, &given, source, default_host, notices)
        .map(|config| Invocation::Serve(Box::new(config)))
}

/// The configuration file that the flag, or else the variable, names.
fn config_file(flag: String, variables: &environment::Variables) -> Option<PathBuf> {
    if !flag.is_empty() {
        return Some(PathBuf::from(flag));
    }
    variables.get("ETCD_CONFIG_FILE").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The refusal of a word that belongs to no flag.
fn stray(word: &str, before: &[given::Given]) -> ConfigError {
    let message = format!("{word:?} is not a valid flag");
    match before.last() {
        Some(one) if one.value == "true" && word.parse::<values::Switch>().is_ok() => {
            ConfigError::invalid_with_hint(message, format!("write --{}={word}", one.flag))
        }
        _ => ConfigError::invalid(message),
    }
}

#[cfg(test)]
mod tests;
