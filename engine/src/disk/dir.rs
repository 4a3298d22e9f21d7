//! Real files in one directory of the operating system, locked against a second process.

use super::{Disk, File, direct};
use crate::error::Error;
use std::fs::{OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file whose lock says that a process uses the directory.
const LOCK: &str = "LOCK";

/// Most parts that one `pwritev` takes (Linux's `UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;

/// A directory of the operating system.
#[derive(Debug)]
pub struct DirDisk {
    path: PathBuf,
    /// The directory itself, for syncing names.
    directory: std::fs::File,
    /// Holds the exclusive lock as long as this value lives; the system drops it with the process. `None` if
    /// nothing is written here, and there is no such file.
    _lock: Option<std::fs::File>,
    /// Whether files are opened for reading alone.
    read_only: bool,
}

impl DirDisk {
    /// Takes the directory at `path`, which must exist, for this process alone.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the directory if it is not there, cannot be written, or is in use by
    /// another process.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let refused = |what: &str, why: &dyn std::fmt::Display| {
            Error::Refused(format!("{what} {}: {why}", path.display()))
        };
        let directory = OpenOptions::new()
            .read(true)
            .open(path)
            .map_err(|error| refused("cannot open data directory", &error))?;
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))
            .map_err(|error| refused("cannot write to data directory", &error))?;
        take_lock(&lock, path)?;
        Ok(DirDisk { path: path.to_owned(), directory, _lock: Some(lock), read_only: false })
    }

    /// Takes the directory at `path` for reading alone: nothing is written, not even a lock file made; also
    /// good for a directory that cannot be written. Keeps others out as long as it lives, if there is a lock
    /// file.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the directory if it is not there, or is in use by another process.
    pub fn open_read_only(path: &Path) -> Result<Self, Error> {
        let refused = |what: &str, why: &dyn std::fmt::Display| {
            Error::Refused(format!("{what} {}: {why}", path.display()))
        };
        let open = |path: &Path| OpenOptions::new().read(true).open(path);
        let directory = open(path).map_err(|error| refused("cannot open data directory", &error))?;
        if !directory.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(refused("cannot open data directory", &"it is no directory"));
        }
        let lock = match open(&path.join(LOCK)) {
            Ok(lock) => {
                take_lock(&lock, path)?;
                Some(lock)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refused("cannot lock data directory", &error)),
        };
        Ok(DirDisk { path: path.to_owned(), directory, _lock: lock, read_only: true })
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only);
        options
    }
}

fn take_lock(lock: &std::fs::File, path: &Path) -> Result<(), Error> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Refused(format!("data directory is in use by another process: {}", path.display())))
        }
        Err(TryLockError::Error(error)) => {
            Err(Error::Refused(format!("cannot lock data directory {}: {error}", path.display())))
        }
    }
}

impl Disk for DirDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(DirFile(self.options().create_new(true).open(self.path.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(DirFile(self.options().open(self.path.join(name))?)))
    }

    fn open_uncached(&self, name: &str) -> io::Result<Arc<dyn File>> {
        direct::open(&self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != LOCK {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stats = rustix::fs::fstatvfs(&self.directory)?;
        Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
    }
}

#[derive(Debug)]
struct DirFile(std::fs::File);

impl File for DirFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_at(&self, mut offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        for parts in parts.chunks(PARTS_MAX) {
            let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
            let mut written =
                rustix::io::retry_on_intr(|| rustix::io::pwritev(&self.0, parts, offset))? as u64;
            if written < len {
                // The system took a part only: the rest goes piece by piece.
                let mut at = offset;
                for part in parts {
                    let skip = written.min(part.len() as u64);
                    written -= skip;
                    self.0.write_all_at(&part[skip as usize..], at + skip)?;
                    at += part.len() as u64;
                }
            }
            offset += len;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_in_many_parts_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let disk = DirDisk::open(directory.path()).unwrap();
        let file = disk.create("a").unwrap();
        let pieces: Vec<Vec<u8>> = (0..3000u32).map(|n| n.to_le_bytes().to_vec()).collect();
        let parts: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        file.write_at(5, &parts).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        let mut back = vec![0; 12000];
        file.read_at(5, &mut back).unwrap();
        assert_eq!(back, pieces.concat());
        assert_eq!(file.len().unwrap(), 12005);
        let past = file.read_at(10, &mut back).unwrap_err();
        assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof, "a short file is an error, not zeros");
        assert_eq!(disk.create("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        disk.rename("a", "b").unwrap();
        assert_eq!(disk.list().unwrap(), ["b"], "the lock file is not listed");
        assert!(disk.free_bytes().unwrap() > 0);
        disk.remove("b").unwrap();
        assert_eq!(disk.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirDisk::open(directory.path()).unwrap();
        let busy = DirDisk::open(directory.path()).unwrap_err().to_string();
        assert!(busy.contains("in use by another process"), "{busy}");
        drop(first);
        DirDisk::open(directory.path()).expect("the lock goes with its holder");
        DirDisk::open_read_only(Path::new("/proc/self/mem")).expect_err("no directory");
        for (path, why) in [
            (directory.path().join("absent"), "not there"),
            (PathBuf::from("/proc/self"), "no file can be created in it, not even by root"),
        ] {
            let error = DirDisk::open(&path).expect_err(why);
            assert!(matches!(error, Error::Refused(_)), "{why}: {error:?}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{why}: {error}");
        }
    }

    #[test]
    fn a_directory_taken_for_reading_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let reader = DirDisk::open_read_only(directory.path()).unwrap();
        assert!(!directory.path().join(LOCK).exists());
        reader.create("a").unwrap_err();
        let writer = DirDisk::open(directory.path()).unwrap();
        let file = writer.create("a").unwrap();
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n / 7) as u8).collect();
        file.write_at(0, &[IoSlice::new(&bytes)]).unwrap();
        let busy = DirDisk::open_read_only(directory.path()).unwrap_err().to_string();
        assert!(busy.contains("in use by another process"), "{busy}");
        drop(writer);
        let reader = DirDisk::open_read_only(directory.path()).unwrap();
        DirDisk::open(directory.path()).unwrap_err();
        for file in [reader.open("a").unwrap(), reader.open_uncached("a").unwrap()] {
            for (offset, len) in [(0, 20_000), (0, 1), (19_999, 1), (4096, 4096), (4095, 4098), (7, 0)] {
                let mut back = vec![0; len];
                file.read_at(offset as u64, &mut back).unwrap();
                assert_eq!(back, bytes[offset..offset + len], "{len} bytes at {offset}");
            }
            let past = file.read_at(19_990, &mut [0; 11]).unwrap_err();
            assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof);
            assert_eq!(file.len().unwrap(), 20_000);
            file.write_at(0, &[IoSlice::new(b"x")]).unwrap_err();
        }
    }
}
