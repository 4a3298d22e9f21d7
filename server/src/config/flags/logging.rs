//! Section Logging: where lines go, how they look, when they warn.

use crate::config::values::{GoDuration, Switch, Words};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LoggingFlags {
    /// The logger; only 'zap', whose lines Keelson writes.
    #[arg(long, default_value = "zap")]
    pub(crate) logger: String,
    /// Where lines go, separated by commas: 'default' or 'stderr', 'stdout', paths of files to append to.
    #[arg(long, default_value = "default")]
    pub(crate) log_outputs: Words,
    /// Least severe level to write: debug, info, warn, error, panic or fatal.
    #[arg(long, default_value = "info")]
    pub(crate) log_level: crate::logging::Level,
    /// Form of a line: 'json' or 'console'.
    #[arg(long, default_value = "json")]
    pub(crate) log_format: String,
    /// Put the log file aside when it is large, and begin a new one; --log-outputs must name exactly one file.
    #[arg(long, default_value = "false")]
    pub(crate) enable_log_rotation: Switch,
    /// How, if so: megabytes of a file (0 means 100), days and number of files put aside that are kept (0 means all),
    /// whether to compress them. Names are always in UTC.
    #[arg(
        long,
        default_value = r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#
    )]
    pub(crate) log_rotation_config_json: String,
    /// Time of a unary request above which a warning is logged.
    #[arg(long, default_value = "300ms")]
    pub(crate) warning_unary_request_duration: GoDuration,
    /// Time to apply a request above which a warning is logged.
    #[arg(long, default_value = "100ms")]
    pub(crate) warning_apply_duration: GoDuration,
}
