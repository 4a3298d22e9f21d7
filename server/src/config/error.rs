//! Why the program does not start, and with which exit code.

use std::fmt;
use std::path::PathBuf;

/// The configuration is not usable. Nothing has been created; the caller prints it to stderr and ends with
/// [`ConfigError::exit_code`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The command line cannot be read. Printed with a line of usage.
    Usage {
        /// What is wrong, with the flag's name.
        message: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// A value is malformed, or values do not fit together.
    Invalid {
        /// What is wrong, with the name of the flag, variable or key.
        message: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// Asked for something that Keelson does not do, and that must not be passed over in silence.
    Unsupported {
        /// The flag, variable or key, as it was written.
        setting: String,
        /// What is missing and what to do.
        reason: String,
    },
    /// The configuration file cannot be read.
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A log output cannot be opened, or logging was set up before.
    Log {
        /// Which output.
        output: String,
        /// Why.
        source: std::io::Error,
    },
}

impl ConfigError {
    /// An unusable value, without a hint.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        ConfigError::Invalid { message: message.into(), hint: None }
    }

    /// An unusable value, and what to write instead.
    pub(crate) fn invalid_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        ConfigError::Invalid { message: message.into(), hint: Some(hint.into()) }
    }

    /// The exit code that etcd would end with: 2 if the command line cannot be read, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            ConfigError::Usage { .. } => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Usage { message, hint } => {
                write!(out, "{message}")?;
                if let Some(hint) = hint {
                    write!(out, " ({hint})")?;
                }
                write!(out, "\n\n{}", super::help::USAGE)
            }
            ConfigError::Invalid { message, hint: Some(hint) } => write!(out, "{message} ({hint})"),
            ConfigError::Invalid { message, hint: None } => write!(out, "{message}"),
            ConfigError::Unsupported { setting, reason } => write!(out, "{setting}: {reason}"),
            ConfigError::File { path, source } => {
                write!(out, "cannot read the configuration file {}: {source}", path.display())
            }
            ConfigError::Log { output, source } => write!(out, "cannot log to {output:?}: {source}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::File { source, .. } | ConfigError::Log { source, .. } => Some(source),
            _ => None,
        }
    }
}
