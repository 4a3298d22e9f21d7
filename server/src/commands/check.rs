//! `keelson check DIR`: reads everything and says what is damaged, with file and offset.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use engine::check::{Damage, Progress, Report};
use raft::Identity;
use serde_json::json;

/// Checks the directory; gives what to print, and whether all is whole.
///
/// # Errors
/// [`engine::Error`] if it is no directory of a store, is in use, or cannot be read.
pub(super) fn run(directory: &Path, json: bool) -> engine::Result<(String, bool)> {
    let disk = super::open(directory)?;
    let mut teller = Teller { terminal: std::io::stderr().is_terminal(), told: None };
    let mut report = engine::check::check(&disk, &mut |progress| teller.tell(&progress))?;
    teller.end();
    match Identity::load(&*disk) {
        Ok(Some(_)) => {}
        Ok(None) => report.damages.push(identity("is not there, and says whose the data is".to_owned())),
        Err(error) => report.damages.push(identity(error.to_string())),
    }
    let whole = report.damages.is_empty();
    Ok((if json { as_json(&report) } else { for_people(&report) }, whole))
}

fn identity(reason: String) -> Damage {
    Damage { file: "IDENTITY".to_owned(), offset: 0, reason }
}

/// Says on stderr how far a long check has come: over one line of a terminal, else a line for each tenth.
struct Teller {
    terminal: bool,
    /// Stage and per cent (of a terminal) or tenth that were told last.
    told: Option<(&'static str, u64)>,
}

impl Teller {
    fn tell(&mut self, progress: &Progress<'_>) {
        let share = progress.done * 100 / progress.total.max(1);
        let step = if self.terminal { share } else { share / 10 };
        if self.told == Some((progress.stage, step)) {
            return;
        }
        self.told = Some((progress.stage, step));
        let text = format!("checking {}: {share} % ({})", progress.stage, progress.file);
        // Who closed stderr does not want to know.
        let _ = if self.terminal {
            write!(std::io::stderr(), "\r\x1b[K{text}")
        } else {
            writeln!(std::io::stderr(), "{text}")
        };
    }

    fn end(&self) {
        if self.terminal && self.told.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn for_people(report: &Report) -> String {
    let mut text = String::new();
    for damage in &report.damages {
        // Writing to a String cannot fail; as below.
        let _ = writeln!(text, "damaged: {damage}");
    }
    let Report { segments, frames, records, tables, versions, keys, values, revision, compacted, .. } =
        report;
    let _ = writeln!(
        text,
        "log: {segments} segments, {frames} frames, {records} records\n\
         index: {tables} tables, {versions} versions, {keys} keys, {values} values in the log\n\
         tables hold revision {revision}, compacted at {compacted}; {} read",
        super::bytes(report.bytes)
    );
    let _ = match report.damages.len() {
        0 => writeln!(text, "everything is whole"),
        1 => writeln!(text, "one place is damaged"),
        count => writeln!(text, "{count} places are damaged"),
    };
    text
}

fn as_json(report: &Report) -> String {
    let damages: Vec<_> = report
        .damages
        .iter()
        .map(|damage| json!({"file": damage.file, "offset": damage.offset, "reason": damage.reason}))
        .collect();
    let value = json!({
        "whole": damages.is_empty(),
        "damages": damages,
        "segments": report.segments,
        "frames": report.frames,
        "records": report.records,
        "tables": report.tables,
        "versions": report.versions,
        "keys": report.keys,
        "values": report.values,
        "revision": report.revision,
        "compacted": report.compacted,
        "bytes": report.bytes,
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_what_is_damaged() {
        let mut report = Report { segments: 2, bytes: 4096, ..Report::default() };
        assert!(for_people(&report).ends_with("4.0 KiB read\neverything is whole\n"));
        report.damages.push(Damage {
            file: "00000001.seg".to_owned(),
            offset: 77,
            reason: "frame".to_owned(),
        });
        let text = for_people(&report);
        assert!(text.starts_with("damaged: 00000001.seg at offset 77: frame\nlog: 2 segments"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&as_json(&report)).unwrap();
        assert_eq!((&value["whole"], &value["damages"][0]["offset"]), (&json!(false), &json!(77)));
    }
}
