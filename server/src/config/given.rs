//! Values as somebody wrote them, with where: the common form of command line, environment and file.
//!
//! Each source turns what it finds into a list of `Given`; this module turns the list into `Flags`, and
//! a refusal by the parser back into an error that names the source. Does not know what any flag means.

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};

use super::error::ConfigError;
use super::flags::Flags;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag on the command line.
    CommandLine,
    /// The environment variable of this name.
    Environment(String),
    /// The key of this name in the configuration file.
    File(String),
}

/// A flag that somebody set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// The flag's name without dashes.
    pub(crate) flag: String,
    /// Its value as text, in the command line's notation.
    pub(crate) value: String,
    /// Where it was written.
    pub(crate) origin: Origin,
}

impl Given {
    /// The setting by the name that its author knows.
    pub(crate) fn setting(&self) -> String {
        match &self.origin {
            Origin::CommandLine => format!("--{}", self.flag),
            Origin::Environment(variable) => variable.clone(),
            Origin::File(key) => format!("{key} in the configuration file"),
        }
    }
}

/// The setting `flag` by the name that its author knows: the last one that set it wins.
pub(crate) fn setting_of(given: &[Given], flag: &str) -> String {
    match given.iter().rev().find(|one| one.flag == flag) {
        Some(one) => one.setting(),
        None => format!("--{flag}"),
    }
}

/// The error that the value of `flag` breaks a rule. `message` names the flag, as etcd's does; if the value was not
/// written as a flag, the hint says where.
pub(crate) fn broken_rule(given: &[Given], flag: &str, message: String) -> ConfigError {
    let hint = match given.iter().rev().find(|one| one.flag == flag) {
        Some(one) if one.origin != Origin::CommandLine => Some(format!("set by {}", one.setting())),
        _ => None,
    };
    ConfigError::Invalid { message, hint }
}

/// Parses all values; a flag set twice has its last value.
///
/// # Errors
/// The first value that is not of its flag's type: [`ConfigError::Usage`] if it stands on the command line, else
/// [`ConfigError::Invalid`].
pub(crate) fn parse(given: &[Given]) -> Result<Flags, ConfigError> {
    let words = given.iter().map(|one| format!("--{}={}", one.flag, one.value));
    let program = std::iter::once("keelson".to_owned());
    Flags::command()
        .try_get_matches_from(program.chain(words))
        .and_then(|matches| Flags::from_arg_matches(&matches))
        .map_err(|error| refusal(given, &error))
}

/// The parser's refusal in our words.
fn refusal(given: &[Given], error: &clap::Error) -> ConfigError {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    let flag = argument.trim_start_matches("--").split([' ', '=']).next().unwrap_or_default();
    let value = text(ContextKind::InvalidValue);
    let reason = match std::error::Error::source(error) {
        Some(cause) => cause.to_string(),
        None => error.kind().to_string(),
    };
    let culprit = given.iter().find(|one| one.flag == flag && one.value == value).or_else(|| {
        // The parser named no value: any setting of the flag will do for the message.
        given.iter().find(|one| one.flag == flag)
    });
    match culprit {
        Some(Given { origin: Origin::CommandLine, .. }) | None => ConfigError::Usage {
            message: format!("invalid value {value:?} for flag -{flag}: {reason}"),
            hint: None,
        },
        Some(one) => ConfigError::invalid(format!("invalid value {value:?} for {}: {reason}", one.setting())),
    }
}
