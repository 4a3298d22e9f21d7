//! One line of the log: an event as text.
//!
//! LAYOUT of a JSON line: `{"level":"info","ts":"2026-12-01T02:03:04.123456Z","caller":"server/src/serve.rs:12",
//! "msg":"…", FIELDS}`; of a console line: time, level, caller and message between tabs, then the fields as JSON with
//! blanks. Times are UTC with microseconds.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::Format;

/// The text of `event`, with the newline.
pub(super) fn line(format: Format, clock: &impl FormatTime, event: &Event<'_>) -> String {
    let mut fields = Fields::new(format);
    event.record(&mut fields);
    let level = match *event.metadata().level() {
        tracing::Level::ERROR => "error",
        tracing::Level::WARN => "warn",
        tracing::Level::INFO => "info",
        tracing::Level::DEBUG | tracing::Level::TRACE => "debug",
    };
    let mut time = String::with_capacity(27);
    // Writing to a String cannot fail, and a clock that cannot be formatted leaves the time empty.
    let _ = clock.format_time(&mut Writer::new(&mut time));
    let caller = caller(event.metadata());
    match format {
        Format::Json => {
            let mut line = String::with_capacity(128 + fields.message.len() + fields.json.len());
            line.push_str("{\"level\":\"");
            line.push_str(level);
            line.push_str("\",\"ts\":\"");
            line.push_str(&time);
            line.push_str("\",\"caller\":");
            push_text(&mut line, &caller);
            line.push_str(",\"msg\":");
            push_text(&mut line, &fields.message);
            if !fields.json.is_empty() {
                line.push(',');
                line.push_str(&fields.json);
            }
            line.push_str("}\n");
            line
        }
        Format::Console => {
            let message = fields.message.replace(['\n', '\r'], " ");
            let mut line = format!("{time}\t{level}\t{caller}\t{message}");
            if !fields.json.is_empty() {
                line.push_str("\t{");
                line.push_str(&fields.json);
                line.push('}');
            }
            line.push('\n');
            line
        }
    }
}

/// File and line, the file without the directories of whoever built the program.
fn caller(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap_or(metadata.target());
    let short = match file.split_once("/registry/src/") {
        // Then comes the registry's own directory.
        Some((_, rest)) => rest.split_once('/').map_or(rest, |(_, path)| path),
        None => file,
    };
    format!("{short}:{}", metadata.line().unwrap_or(0))
}

/// Appends `text` as a JSON string.
fn push_text(line: &mut String, text: &str) {
    line.push_str(&serde_json::Value::from(text).to_string());
}

/// The message, and the other fields as the inside of a JSON object.
struct Fields {
    message: String,
    json: String,
    /// What stands between two fields, and between a name and its value.
    comma: &'static str,
    colon: &'static str,
}

impl Fields {
    fn new(format: Format) -> Fields {
        let (comma, colon) = match format {
            Format::Json => (",", ":"),
            Format::Console => (", ", ": "),
        };
        Fields { message: String::new(), json: String::new(), comma, colon }
    }

    fn push(&mut self, field: &Field, value: serde_json::Value) {
        if field.name() == "message" {
            self.message = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            return;
        }
        if !self.json.is_empty() {
            self.json.push_str(self.comma);
        }
        push_text(&mut self.json, field.name());
        self.json.push_str(self.colon);
        self.json.push_str(&value.to_string());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinities; zap writes them as text too.
        let number = serde_json::Number::from_f64(value).map(serde_json::Value::Number);
        self.push(field, number.unwrap_or_else(|| value.to_string().into()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.push(field, value.to_string().into());
    }
}
