//! The data directory, before its files are anybody's business: whose it is, who uses it, and making it.
//!
//! INVARIANTS
//! * [`look`] changes nothing. A start that it refuses leaves no trace.
//! * [`take_existing`] makes nothing: a directory that was never used has no file to lock, and so nobody to take it from.
//! * Only [`make`] makes anything. It is called last, when all else that can be refused has not been.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use engine::disk::DirDisk;

use super::ServeError;

/// The file that a store with data has.
const MANIFEST_POINTER: &str = "CURRENT";
/// The file that a member has which was started before.
const IDENTITY: &str = "IDENTITY";
/// The file that a running member holds the lock of.
const LOCK: &str = "LOCK";
/// What may be there beside nothing: what a first start that was cut off leaves, and what file systems make themselves.
const LEFTOVERS: [&str; 6] = [LOCK, "CURRENT.new", "IDENTITY.new", "MANIFEST-", "LOG-END", "lost+found"];

/// Whether a member was started on the directory before.
pub(super) fn has_member(path: &Path) -> bool {
    path.join(IDENTITY).exists()
}

/// Refuses a directory that is somebody else's.
///
/// # Errors
/// [`ServeError::Config`] naming the directory and what is in it; [`ServeError::DataDir`] if it cannot be read.
pub(super) fn look(path: &Path) -> Result<(), ServeError> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| failed(path, &error))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    match strangers(&names) {
        None => Ok(()),
        Some(reason) => {
            Err(ServeError::Config(format!("{} {reason}; name another with --data-dir", path.display())))
        }
    }
}

/// Why a directory with these names in it, sorted, is not one of ours.
fn strangers(names: &[String]) -> Option<String> {
    let has = |name: &str| names.iter().any(|other| other == name);
    if has("member") || (has("snap") && has("wal")) {
        return Some("is a data directory of etcd".to_owned());
    }
    if has(MANIFEST_POINTER) || has(IDENTITY) {
        return None;
    }
    let strange = names.iter().find(|name| !LEFTOVERS.iter().any(|ours| name.starts_with(ours)))?;
    Some(if strange.ends_with(".seg") || strange.ends_with(".tab") {
        format!(
            "has data ({strange}) but no {MANIFEST_POINTER}, which says what belongs to it; restore that file"
        )
    } else {
        format!("is not empty ({strange}), and is no data directory of Keelson")
    })
}

/// Takes a directory that was used before for this process alone; `None` if it never was.
///
/// # Errors
/// [`ServeError::Open`] if another process uses it, or it cannot be written.
pub(super) fn take_existing(path: &Path) -> Result<Option<DirDisk>, ServeError> {
    if !path.join(LOCK).exists() {
        return Ok(None);
    }
    DirDisk::open(path).map(Some).map_err(ServeError::Open)
}

/// Makes a directory if there is none, and takes it for this process alone.
///
/// # Errors
/// [`ServeError::DataDir`] if it cannot be made; else as [`take_existing`].
pub(super) fn make(path: &Path) -> Result<DirDisk, ServeError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| failed(path, &error))?;
    DirDisk::open(path).map_err(ServeError::Open)
}

fn failed(path: &Path, error: &std::io::Error) -> ServeError {
    ServeError::DataDir { path: path.display().to_string(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_directory_is() {
        for (names, want, why) in [
            ("", None, "empty"),
            ("lost+found", None, "a file system's root"),
            ("LOCK", None, "a start was refused once"),
            ("LOCK MANIFEST-000001 CURRENT.new LOG-END", None, "a first start was cut off"),
            ("CURRENT IDENTITY 00000001.seg", None, "a member's"),
            ("CURRENT notes.txt", None, "a member's, and a file that somebody put there"),
            ("IDENTITY", None, "a member's whose data is gone: said when it is opened"),
            ("member", Some("is a data directory of etcd"), "etcd's"),
            ("snap wal", Some("is a data directory of etcd"), "etcd's member directory"),
            ("CURRENT member", Some("is a data directory of etcd"), "both: nobody may touch it"),
            ("snap", Some("is not empty (snap)"), "somebody's"),
            ("LOCK notes.txt", Some("is not empty (notes.txt)"), "a lock says little: others call theirs so"),
            ("00000001.seg", Some("has data (00000001.seg) but no CURRENT"), "ours, without its head"),
        ] {
            let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            let got = strangers(&names);
            match want {
                None => assert_eq!(got, None, "{names:?}: {why}"),
                Some(want) => {
                    let got = got.unwrap_or_else(|| panic!("{names:?}: {why}: not refused"));
                    assert!(got.starts_with(want), "{names:?}: {why}: {got}");
                }
            }
        }
    }

    #[test]
    fn only_making_makes_anything() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a").join("b");
        look(&path).expect("nothing is nobody's");
        assert!(take_existing(&path).expect("nothing to take").is_none());
        assert!(!dir.path().join("a").exists(), "looking makes nothing");
        let held = make(&path).expect("made");
        let error = take_existing(&path).expect_err("it is held").to_string();
        assert!(error.contains("in use by another process"), "{error}");
        drop(held);
        assert!(take_existing(&path).expect("free again").is_some());
        let file = dir.path().join("file");
        std::fs::write(&file, "text").expect("written");
        assert!(matches!(look(&file), Err(ServeError::DataDir { .. })), "a file is no directory");
    }
}
