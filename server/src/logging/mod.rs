//! The log: one line per event, in the form of etcd's zap logger, so that what reads etcd's logs reads these.
//!
//! READING ORDER: `line` (an event as text), `time` (and its time), `rotation` (files that are put aside), then levels, forms and outputs here.
//!
//! Does not know: who logs, or what. Lines are written where they arise and in one piece; nothing is buffered, so the last
//! line before a crash is there.
//!
//! INVARIANTS
//! * An event below the level costs one relaxed load: callsites are filtered when they are first seen.
//! * Other people's crates are heard from `warn` up only; at `info` they would drown ours.
//! * A failing output never stops the member: its lines are lost.

mod line;
mod rotation;
mod time;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::clock;
use crate::config::{ConfigError, ValueError};

use rotation::RotatingFile;
pub use rotation::Rotation;
pub(crate) use time::time_text;

/// The least severe level that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Everything.
    Debug,
    /// What an operator wants to know.
    Info,
    /// What an operator should look at.
    Warn,
    /// What went wrong.
    Error,
    /// Only what ends the process; Keelson says that on stderr, not in the log.
    Panic,
    /// As `Panic`.
    Fatal,
}

impl FromStr for Level {
    type Err = ValueError;

    /// Empty text means `info`, as in etcd.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.to_ascii_lowercase().as_str() {
            "debug" => Ok(Level::Debug),
            "info" | "" => Ok(Level::Info),
            "warn" => Ok(Level::Warn),
            "error" => Ok(Level::Error),
            "panic" | "dpanic" => Ok(Level::Panic),
            "fatal" => Ok(Level::Fatal),
            _ => Err(ValueError::new(format!(
                "unrecognized level: {text:?}: write debug, info, warn, error, panic or fatal"
            ))),
        }
    }
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON object.
    Json,
    /// Columns for people.
    Console,
}

impl FromStr for Format {
    type Err = ValueError;

    /// Empty text means `json`, as in etcd.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "json" | "" => Ok(Format::Json),
            "console" => Ok(Format::Console),
            _ => Err(ValueError::new(format!("unknown log format: {text}, supported values json, console"))),
        }
    }
}

/// A place where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file, created if need be, appended to.
    File(String),
}

/// How to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The least severe level that is written.
    pub level: Level,
    /// The form of a line.
    pub format: Format,
    /// Where lines go; each to all of them. Invariant: not empty, none twice.
    pub outputs: Vec<Output>,
    /// How the file among `outputs` is put aside when it is large; `None` for never. Invariant: if there is one, there
    /// is at most one file.
    pub rotation: Option<Rotation>,
}

/// Keeps the log open; flushes the outputs when dropped.
pub struct Guard {
    sinks: Sinks,
}

impl Drop for Guard {
    fn drop(&mut self) {
        for sink in self.sinks.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            // The process is ending; there is nobody left to tell.
            let _ = sink.flush();
        }
    }
}

type Sinks = Arc<Mutex<Vec<Box<dyn Write + Send>>>>;

/// Opens the outputs and makes them the log of the whole process.
///
/// # Errors
/// [`ConfigError::Log`] if a file cannot be opened, or a log was set up before.
pub fn init(config: &LogConfig) -> Result<Guard, ConfigError> {
    let mut sinks: Vec<Box<dyn Write + Send>> = Vec::with_capacity(config.outputs.len());
    for output in &config.outputs {
        sinks.push(match output {
            Output::Stderr => Box::new(io::stderr()),
            Output::Stdout => Box::new(io::stdout()),
            Output::File(path) => open(path, config.rotation.as_ref())
                .map_err(|source| ConfigError::Log { output: path.clone(), source })?,
        });
    }
    let sinks: Sinks = Arc::new(Mutex::new(sinks));
    let subscriber = subscriber(config, Arc::clone(&sinks), SystemTime);
    tracing::subscriber::set_global_default(subscriber).map_err(|error| ConfigError::Log {
        output: "the process".to_owned(),
        source: io::Error::new(io::ErrorKind::AlreadyExists, error),
    })?;
    Ok(Guard { sinks })
}

fn open(path: &str, rotation: Option<&Rotation>) -> io::Result<Box<dyn Write + Send>> {
    Ok(match rotation {
        Some(settings) => Box::new(RotatingFile::open(Path::new(path), settings.clone(), || {
            time_text(clock::since_epoch())
        })?),
        None => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
    })
}

/// Our crates; the binary's own modules are `keelson`.
const OWN_CRATES: [&str; 4] = ["keelson", "server", "raft", "engine"];

fn subscriber(
    config: &LogConfig,
    sinks: Sinks,
    clock: impl FormatTime + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    let level = match config.level {
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
        Level::Panic | Level::Fatal => LevelFilter::OFF,
    };
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_targets(OWN_CRATES.map(|own| (own, level)));
    tracing_subscriber::registry().with(filter).with(Lines { format: config.format, sinks, clock })
}

/// Writes each event as a line.
struct Lines<C> {
    format: Format,
    sinks: Sinks,
    clock: C,
}

impl<S: Subscriber, C: FormatTime + Send + Sync + 'static> Layer<S> for Lines<C> {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let line = line::line(self.format, &self.clock, event);
        for sink in self.sinks.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            // A log that cannot be written must not stop the member, and there is nowhere to say so.
            let _ = sink.write_all(line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use tracing_subscriber::fmt::format::Writer;

    use super::*;

    /// A sink that a test can read.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics here").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Noon;

    impl FormatTime for Noon {
        fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
            out.write_str("2026-12-01T12:00:00.000001Z")
        }
    }

    fn logged(level: Level, format: Format, act: impl FnOnce()) -> String {
        let shared = Shared::default();
        let sinks: Sinks = Arc::new(Mutex::new(vec![Box::new(shared.clone())]));
        let config = LogConfig { level, format, outputs: vec![Output::Stderr], rotation: None };
        tracing::subscriber::with_default(subscriber(&config, sinks, Noon), act);
        let bytes = shared.0.lock().expect("no test panics here").clone();
        String::from_utf8(bytes).expect("lines are text")
    }

    fn parsed(line: &str) -> serde_json::Value {
        serde_json::from_str(line).expect(line)
    }

    #[test]
    fn a_json_line_is_zaps() {
        let text = logged(Level::Info, Format::Json, || {
            tracing::info!(target: "server", count = 3, "local-member-id" = "ab", "serving \"x\"\n");
        });
        let start = r#"{"level":"info","ts":"2026-12-01T12:00:00.000001Z","caller":""#;
        assert!(text.starts_with(start), "{text}");
        assert!(
            text.ends_with("\"msg\":\"serving \\\"x\\\"\\n\",\"count\":3,\"local-member-id\":\"ab\"}\n"),
            "{text}"
        );
        let caller = parsed(&text)["caller"].as_str().expect("text").to_owned();
        let (file, line) = caller.split_once(':').expect("file and line");
        assert!(file.ends_with("src/logging/mod.rs") && line.parse::<u32>().is_ok(), "{caller}");
        assert_eq!(text.lines().count(), 1, "a line break in a message is escaped");
    }

    #[test]
    fn fields_keep_their_types() {
        let failed = io::Error::other("disk gone");
        let text = logged(Level::Info, Format::Json, || {
            tracing::info!(
                target: "server",
                yes = true,
                signed = -1i64,
                unsigned = u64::MAX,
                half = 0.5,
                broken = f64::NAN,
                debugged = ?vec![1],
                shown = %"x",
                error = &failed as &(dyn std::error::Error + 'static),
                "m"
            );
        });
        let object = parsed(&text);
        for (field, want) in [
            ("yes", "true"),
            ("signed", "-1"),
            ("unsigned", "18446744073709551615"),
            ("half", "0.5"),
            ("broken", "\"NaN\""),
            ("debugged", "\"[1]\""),
            ("shown", "\"x\""),
            ("error", "\"disk gone\""),
        ] {
            assert_eq!(object[field].to_string(), want, "{field}");
        }
    }

    #[test]
    fn a_console_line_has_columns() {
        let text = logged(Level::Info, Format::Console, || {
            tracing::warn!(target: "raft::group", key = "v", n = 1, "two\nlines");
            tracing::warn!(target: "raft::group", "bare");
        });
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0][..2], ["2026-12-01T12:00:00.000001Z", "warn"]);
        assert_eq!(lines[0][3..], ["two lines", "{\"key\": \"v\", \"n\": 1}"]);
        assert_eq!(lines[1][3..], ["bare"]);
    }

    #[test]
    fn levels_filter_ours_and_others() {
        for (level, want, why) in [
            (
                Level::Debug,
                "own-debug own-info own-warn own-error other-warn other-error",
                "others from warn up",
            ),
            (Level::Info, "own-info own-warn own-error other-warn other-error", "the usual"),
            (Level::Warn, "own-warn own-error other-warn other-error", "warn"),
            (Level::Error, "own-error other-error", "error"),
            (Level::Panic, "", "nothing that goes on"),
            (Level::Fatal, "", "nothing that goes on"),
        ] {
            let text = logged(level, Format::Json, || {
                tracing::trace!(target: "server::api", "own-trace");
                tracing::debug!(target: "server::api", "own-debug");
                tracing::info!(target: "engine", "own-info");
                tracing::warn!(target: "raft", "own-warn");
                tracing::error!(target: "keelson", "own-error");
                tracing::info!(target: "openraft::core", "other-info");
                tracing::warn!(target: "openraft::core", "other-warn");
                tracing::error!(target: "openraft::core", "other-error");
            });
            let messages: Vec<String> =
                text.lines().map(|line| parsed(line)["msg"].as_str().expect("text").to_owned()).collect();
            assert_eq!(messages.join(" "), want, "{level:?}: {why}");
        }
    }

    #[test]
    fn an_output_that_cannot_be_opened_is_named() {
        let config = LogConfig {
            level: Level::Info,
            format: Format::Json,
            outputs: vec![Output::File("/nonexistent/keelson.log".to_owned())],
            rotation: None,
        };
        let Err(error) = init(&config) else { panic!("there is no such directory") };
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().contains("/nonexistent/keelson.log"), "{error}");
    }
}
