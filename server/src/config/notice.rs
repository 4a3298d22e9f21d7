//! What a configuration has to tell its operator once the log is open, in etcd's words where etcd has some.
//!
//! The log is set up by the configuration, so nothing can be logged while that is read: notices are kept, in order, and
//! logged by whoever opens the log. Does not know: who found what.

use std::fmt;
use std::path::PathBuf;

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// `ETCD_VERSION`, which monitoring scripts like to set for their own ends, does not ask for the version.
    SpecialVariable {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A variable sets a flag.
    UsedVariable {
        /// Its name.
        name: String,
        /// Its value, unless that is a secret.
        value: String,
    },
    /// A flag wins over its variable.
    ShadowedVariable {
        /// Its name.
        name: String,
    },
    /// A variable means nothing, most likely because it is misspelt.
    UnknownVariable {
        /// `NAME=VALUE`.
        text: String,
    },
    /// The configuration comes from this file alone.
    LoadedFile(PathBuf),
    /// No directory was named, so it is this one.
    DefaultDataDir(String),
    /// Anything else that an operator should look at.
    Warning(String),
}

impl Notice {
    /// Writes it to the log.
    pub fn log(&self) {
        let message = self.message();
        match self {
            Notice::SpecialVariable { name, value } => tracing::warn!(key = name, value, "{message}"),
            Notice::UsedVariable { name, value } => {
                tracing::info!("variable-name" = name, "variable-value" = value, "{message}");
            }
            Notice::ShadowedVariable { name } => tracing::warn!("environment-variable" = name, "{message}"),
            Notice::UnknownVariable { text } => tracing::warn!("environment-variable" = text, "{message}"),
            Notice::LoadedFile(path) => tracing::info!(path = %path.display(), "{message}"),
            Notice::DefaultDataDir(dir) => tracing::warn!("data-dir" = dir, "{message}"),
            Notice::Warning(_) => tracing::warn!("{message}"),
        }
    }

    /// Whether an operator should look at it, rather than may want to know it.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Notice::UsedVariable { .. } | Notice::LoadedFile(_))
    }

    fn message(&self) -> &str {
        match self {
            Notice::SpecialVariable { .. } => "cannot set special environment variable",
            Notice::UsedVariable { .. } => "recognized and used environment variable",
            Notice::ShadowedVariable { .. } => {
                "conflicting environment variable is shadowed by corresponding command-line flag (either unset \
                 environment variable or disable flag))"
            }
            Notice::UnknownVariable { .. } => "unrecognized environment variable",
            Notice::LoadedFile(_) => {
                "loaded server configuration, other configuration command line flags and environment variables will \
                 be ignored if provided"
            }
            Notice::DefaultDataDir(_) => "'data-dir' was empty; using default",
            Notice::Warning(text) => text,
        }
    }
}

impl fmt::Display for Notice {
    /// The message, and what it is about.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.message())?;
        match self {
            Notice::SpecialVariable { name, value } | Notice::UsedVariable { name, value } => {
                write!(out, ": {name}={value}")
            }
            Notice::ShadowedVariable { name: about }
            | Notice::UnknownVariable { text: about }
            | Notice::DefaultDataDir(about) => write!(out, ": {about}"),
            Notice::LoadedFile(path) => write!(out, ": {}", path.display()),
            Notice::Warning(_) => Ok(()),
        }
    }
}
