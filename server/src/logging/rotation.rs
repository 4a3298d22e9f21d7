//! A log file that is put aside when it is large, as etcd's is: the same settings, the same names.
//!
//! LAYOUT: `a.log` is written; put aside it becomes `a-2026-12-01T02-03-04.567.log` beside it, in UTC, and with
//! `compress` a `.gz` of that name. Files of such names are ours: the oldest go by number and by age.
//!
//! Lives here: writing, putting aside, tidying. Does not know: what a line is. A file is put aside in the course of a
//! write, by a rename; a thread of its own compresses and removes, since that may take seconds.
//!
//! INVARIANTS
//! * A line is in one file as a whole, and no file is larger than the limit unless a single line is.
//! * If a file cannot be put aside, lines go on into the old one; the next line tries again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::time::seconds;
use crate::config::ValueError;

/// Bytes of a megabyte in the settings.
const MEGABYTE: u64 = 1024 * 1024;
/// Largest file in megabytes if the settings say 0.
const DEFAULT_MAX_SIZE: u64 = 100;
const COMPRESSED: &str = ".gz";

/// When to put a file aside, and what to do with those put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes above which the file is put aside. Above 0.
    pub bytes_max: u64,
    /// Days after which a file put aside is removed; 0 for never.
    pub age_days_max: u64,
    /// Most files put aside that are kept; 0 for all.
    pub backups_max: u64,
    /// Compress files put aside.
    pub compress: bool,
    /// The settings asked for names in local time, which stay in UTC.
    pub wants_local_time: bool,
}

impl Rotation {
    /// Reads the settings: a JSON object with keys in any case. Unknown keys are ignored, as etcd does.
    ///
    /// # Errors
    /// A text in etcd's words.
    pub fn from_json(text: &str) -> Result<Rotation, ValueError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ValueError::new(format!("improperly formatted log rotation config: {error}")))?;
        let invalid = |why: String| ValueError::new(format!("invalid log rotation config: {why}"));
        let Value::Object(object) = value else {
            return Err(invalid("it must be an object".to_owned()));
        };
        let mut settings = Rotation {
            bytes_max: DEFAULT_MAX_SIZE * MEGABYTE,
            age_days_max: 0,
            backups_max: 0,
            compress: false,
            wants_local_time: false,
        };
        let number = |key: &str, value: &Value| {
            value.as_u64().ok_or_else(|| invalid(format!("{key} must be a whole number, 0 or above")))
        };
        let switch = |key: &str, value: &Value| {
            value.as_bool().ok_or_else(|| invalid(format!("{key} must be true or false")))
        };
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            match key.to_ascii_lowercase().as_str() {
                "maxsize" => {
                    let megabytes = match number(key, value)? {
                        0 => DEFAULT_MAX_SIZE,
                        given => given,
                    };
                    settings.bytes_max = megabytes.saturating_mul(MEGABYTE);
                }
                "maxage" => settings.age_days_max = number(key, value)?,
                "maxbackups" => settings.backups_max = number(key, value)?,
                "compress" => settings.compress = switch(key, value)?,
                "localtime" => settings.wants_local_time = switch(key, value)?,
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// Gives the time as `2026-12-01T02:03:04.567890Z`.
pub(super) type Clock = fn() -> String;

/// See the module's text.
pub(super) struct RotatingFile {
    path: PathBuf,
    settings: Rotation,
    clock: Clock,
    file: File,
    /// Bytes in `file`.
    bytes: u64,
    /// Wakes the thread that tidies; it ends with this.
    tidy: SyncSender<()>,
}

impl RotatingFile {
    /// Opens the file, or makes it with its directory.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(path: &Path, settings: Rotation, clock: Clock) -> io::Result<RotatingFile> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        // One ring is enough for however many files were put aside.
        let (tidy, rung) = sync_channel(1);
        let backups = Backups { path: path.to_owned(), settings: settings.clone(), clock };
        std::thread::Builder::new()
            .name("keelson-log-files".to_owned())
            .spawn(move || backups.tidy_when(&rung))?;
        // What is left of an earlier run.
        let _ = tidy.try_send(());
        Ok(RotatingFile { path: path.to_owned(), settings, clock, file, bytes, tidy })
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let aside = backup_path(&self.path, &(self.clock)());
        std::fs::rename(&self.path, &aside)?;
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        // Full: it will look anyway.
        let _ = self.tidy.try_send(());
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line)?;
        Ok(line.len())
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let len = line.len() as u64;
        if self.bytes > 0 && self.bytes.saturating_add(len) > self.settings.bytes_max {
            // If it fails the file that is open takes the line.
            let _ = self.put_aside();
        }
        self.file.write_all(line)?;
        self.bytes = self.bytes.saturating_add(len);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The name that a file put aside at `time` has.
fn backup_path(path: &Path, time: &str) -> PathBuf {
    let (stem, extension) = split_name(path);
    let time: String = time.chars().take(23).map(|c| if c == ':' { '-' } else { c }).collect();
    path.with_file_name(format!("{stem}-{time}{extension}"))
}

/// The name in front of its last point, and the rest with the point.
fn split_name(path: &Path) -> (String, String) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.rfind('.') {
        Some(point) => (name[..point].to_owned(), name[point..].to_owned()),
        None => (name, String::new()),
    }
}

/// The files put aside.
struct Backups {
    path: PathBuf,
    settings: Rotation,
    clock: Clock,
}

impl Backups {
    fn tidy_when(&self, rung: &Receiver<()>) {
        while rung.recv().is_ok() {
            // There is no log to say it in; the next file put aside tries again.
            let _ = self.tidy();
        }
    }

    /// Removes what is too old or too much, and compresses the rest.
    fn tidy(&self) -> io::Result<()> {
        let mut kept = Vec::new();
        for (time, name) in self.list()? {
            // A file and its compressed copy, left by a crash, count as one.
            if kept.last().is_none_or(|(last, _)| *last != time) {
                kept.push((time, Vec::new()));
            }
            kept.last_mut().expect("just pushed").1.push(name);
        }
        let oldest = match self.settings.age_days_max {
            0 => i64::MIN,
            days => {
                let age =
                    super::time::SECONDS_PER_DAY.saturating_mul(i64::try_from(days).unwrap_or(i64::MAX));
                seconds(&(self.clock)()).unwrap_or(0).saturating_sub(age)
            }
        };
        for (position, (time, names)) in kept.into_iter().enumerate() {
            let is_too_much = self.settings.backups_max > 0 && position as u64 >= self.settings.backups_max;
            let is_too_old = seconds(&time).is_some_and(|time| time < oldest);
            for name in names {
                let file = self.path.with_file_name(&name);
                if is_too_much || is_too_old {
                    std::fs::remove_file(file)?;
                } else if self.settings.compress && !name.ends_with(COMPRESSED) {
                    compress(&file)?;
                }
            }
        }
        Ok(())
    }

    /// Times and names of files put aside, newest first.
    fn list(&self) -> io::Result<Vec<(String, String)>> {
        let (stem, extension) = split_name(&self.path);
        let directory = match self.path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let plain = name.strip_suffix(COMPRESSED).unwrap_or(&name);
            let time = plain
                .strip_prefix(&stem)
                .and_then(|rest| rest.strip_prefix('-'))
                .and_then(|rest| rest.strip_suffix(&extension));
            if let Some(time) = time.filter(|time| seconds(time).is_some()) {
                found.push((time.to_owned(), name));
            }
        }
        found.sort();
        found.reverse();
        Ok(found)
    }
}

/// Replaces a file by its compressed copy; a copy that is there already is of an earlier try that was cut off.
fn compress(path: &Path) -> io::Result<()> {
    let mut copy = path.as_os_str().to_owned();
    copy.push(COMPRESSED);
    let write = || -> io::Result<()> {
        let mut from = OpenOptions::new().read(true).open(path)?;
        let to = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&copy)?;
        let mut encoder = GzEncoder::new(to, Compression::default());
        io::copy(&mut from, &mut encoder)?;
        encoder.finish()?.sync_all()
    };
    if let Err(error) = write() {
        let _ = std::fs::remove_file(&copy);
        return Err(error);
    }
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Rotation {
        Rotation::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .expect("it is there")
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn settings_are_read_as_etcd_reads_them() {
        let usual = settings(
            r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#,
        );
        assert_eq!(usual, settings("{}"), "the flag's default says what nothing says");
        assert_eq!(usual.bytes_max, 100 * MEGABYTE);
        let all =
            settings(r#"{"MaxSize":1,"MAXAGE":2,"maxbackups":3,"compress":true,"localtime":true,"x":[]}"#);
        let want = Rotation {
            bytes_max: MEGABYTE,
            age_days_max: 2,
            backups_max: 3,
            compress: true,
            wants_local_time: true,
        };
        assert_eq!(all, want);
        assert_eq!(settings(r#"{"maxsize":0,"maxage":null}"#), usual, "0 and null are the default");
        for (text, want) in [
            ("{", "improperly formatted log rotation config: "),
            ("[]", "invalid log rotation config: it must be an object"),
            (r#"{"maxsize":"x"}"#, "invalid log rotation config: maxsize must be a whole number"),
            (r#"{"maxsize":-1}"#, "invalid log rotation config: maxsize must be a whole number"),
            (r#"{"compress":1}"#, "invalid log rotation config: compress must be true or false"),
        ] {
            let error = Rotation::from_json(text).expect_err(text).to_string();
            assert!(error.starts_with(want), "{text}: {error}");
        }
    }

    #[test]
    fn a_full_file_is_put_aside_as_a_whole_number_of_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("logs").join("a.log");
        let small = Rotation { bytes_max: 10, ..settings("{}") };
        let mut file = RotatingFile::open(&path, small.clone(), || "2026-12-01T02:03:04.567890Z".to_owned())
            .expect("made");
        for line in ["one\n", "two\n", "three\n"] {
            file.write_all(line.as_bytes()).expect("written");
        }
        let aside = path.with_file_name("a-2026-12-01T02-03-04.567.log");
        assert_eq!(std::fs::read_to_string(&aside).expect("put aside"), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).expect("the new one"), "three\n");
        file.write_all(b"a line above the limit\n").expect("written all the same");
        drop(file);

        let mut again =
            RotatingFile::open(&path, small, || "2026-12-01T02:03:05.000000Z".to_owned()).expect("opened");
        again.write_all(b"x\n").expect("written");
        let aside = path.with_file_name("a-2026-12-01T02-03-05.000.log");
        assert!(aside.exists(), "what it found counts: {:?}", names(path.parent().expect("it has one")));
        assert_eq!(std::fs::read_to_string(&path).expect("the new one"), "x\n");
    }

    #[test]
    fn what_is_put_aside_is_tidied() {
        const FOUND: [&str; 8] = [
            "a-2026-11-30T00-00-00.000.log",
            "a-2026-11-30T12-00-00.000.log",
            "a-2026-11-30T12-00-00.000.log.gz",
            "a-2026-11-20T00-00-00.000.log.gz",
            "a-2026-11-01T00-00-00.000.log",
            "a-note.log",
            "a.log",
            "b-2026-11-01T00-00-00.000.log",
        ];
        let others = ["a-note.log", "a.log", "b-2026-11-01T00-00-00.000.log"];
        for (json, want, why) in [
            ("{}", &FOUND[..5], "nothing is asked for"),
            (r#"{"maxbackups":2}"#, &FOUND[..3], "a file and its compressed copy count as one"),
            (r#"{"maxage":15}"#, &FOUND[..4], "by age"),
            (
                r#"{"maxage":1,"compress":true}"#,
                &["a-2026-11-30T12-00-00.000.log.gz"],
                "exactly a day is kept, a second more is not",
            ),
        ] {
            let directory = tempfile::tempdir().expect("a directory");
            for name in FOUND {
                std::fs::write(directory.path().join(name), "text").expect("written");
            }
            let backups = Backups {
                path: directory.path().join("a.log"),
                settings: settings(json),
                clock: || "2026-12-01T12:00:00.000000Z".to_owned(),
            };
            backups.tidy().expect("tidied");
            let mut want: Vec<String> = want.iter().chain(&others).map(|&name| name.to_owned()).collect();
            want.sort();
            assert_eq!(names(directory.path()), want, "{json}: {why}");
        }
    }

    #[test]
    fn a_compressed_file_says_the_same() {
        use std::io::Read as _;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.log");
        std::fs::write(&path, "lines\n".repeat(1000)).expect("written");
        compress(&path).expect("compressed");
        assert_eq!(names(directory.path()), ["a.log.gz"], "in place of it");
        let file = OpenOptions::new().read(true).open(directory.path().join("a.log.gz")).expect("there");
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, "lines\n".repeat(1000));
    }
}
