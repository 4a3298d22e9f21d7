//! Reading a real file past the system's cache.
//!
//! A scrub that reads through the cache learns what the cache holds, not what the medium does, and pushes out
//! what others need. So the file is opened with `O_DIRECT` and read in whole blocks. Where a file system does
//! not know that, the cached pages of what is about to be read are dropped first (`posix_fadvise`).

use super::File;
use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, OFlags, fadvise};

/// Direct reads begin, end and lie in memory at multiples of this; good for every common device.
const ALIGN: usize = 4096;

/// Opens a file for reading past the cache.
pub(super) fn open(path: &Path) -> io::Result<Arc<dyn File>> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Arc::new(Direct(file))),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Ok(Arc::new(Dropping(OpenOptions::new().read(true).open(path)?)))
        }
        Err(error) => Err(error),
    }
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "opened for reading alone")
}

/// Opened with `O_DIRECT`.
#[derive(Debug)]
struct Direct(std::fs::File);

impl File for Direct {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let skip = (offset % ALIGN as u64) as usize;
        let wanted = skip + buf.len();
        let blocks = wanted.next_multiple_of(ALIGN);
        let mut space = vec![0u8; blocks + ALIGN];
        let from = space.as_ptr().align_offset(ALIGN);
        let aligned = &mut space[from..from + blocks];
        let mut read = 0;
        while read < wanted {
            match self.0.read_at(&mut aligned[read..], offset - skip as u64 + read as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // Only at the end of the file it is not whole blocks, and then nothing follows.
                Ok(count) if count % ALIGN != 0 && read + count < wanted => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buf.copy_from_slice(&aligned[skip..wanted]);
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Err(refused())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }
}

/// Drops what is cached of a part before it is read.
#[derive(Debug)]
struct Dropping(std::fs::File);

impl File for Dropping {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        // A file system may know no such advice either: then the cache is read.
        let _ = fadvise(&self.0, offset, std::num::NonZeroU64::new(buf.len() as u64), Advice::DontNeed);
        self.0.read_exact_at(buf, offset)
    }

    fn write_at(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Err(refused())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_is_with_and_without_direct_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let bytes: Vec<u8> = (0..10_000u32).map(|n| (n * 31) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let dropping = Dropping(OpenOptions::new().read(true).open(&path).unwrap());
        for file in [&*open(&path).unwrap(), &dropping as &dyn File] {
            let mut back = vec![0; 5001];
            file.read_at(4999, &mut back).unwrap();
            assert_eq!(back, bytes[4999..]);
            file.sync().unwrap_err();
            file.set_len(0).unwrap_err();
        }
    }
}
