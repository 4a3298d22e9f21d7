//! The one seam to storage: a flat directory of files.
//!
//! Everything that the engine keeps goes through [`Disk`] and [`File`], so a test or a simulation can put a
//! whole member on a [`MemoryDisk`], cut its power, rot a bit or fill it up, while the shipped code runs
//! unchanged on a [`DirDisk`].
//!
//! WHAT A SYNC MEANS
//! * A write is durable once [`File::sync`] returned after it; before that any subset of its 512-byte
//!   sectors may survive a power cut.
//! * A name (created, renamed, removed) is durable once [`Disk::sync_dir`] returned after it.
//! * After a failed sync nothing is known about the writes it covered, and a later sync that succeeds
//!   proves nothing about them: only writing the bytes again and syncing does.
//!
//! Calls block; whoever must not wait calls from a thread that may. All of them are safe from any thread,
//! and a `read_at` sees every `write_at` that returned before it.

mod dir;
mod direct;
mod memory;

use std::io::{self, IoSlice};
use std::sync::Arc;

pub use dir::DirDisk;
pub use memory::MemoryDisk;

/// One flat directory of files, owned by this process alone.
pub trait Disk: Send + Sync + std::fmt::Debug + 'static {
    /// Creates an empty file, open for reading and writing; its name is durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; whatever the system reports.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; whatever the system reports.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading past the system's cache, as far as the system can: what is read
    /// comes from the medium, and what others read stays cached. Read by few, in large parts.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn open_uncached(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open(name)
    }

    /// Renames a file, replacing what `to` named; durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// `NotFound` if there is no `from`; whatever the system reports.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name; handles that are open stay usable. Durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// `NotFound` if there is none of that name; whatever the system reports.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// All names in the directory, sorted; those of subdirectories too, the lock file not.
    ///
    /// # Errors
    /// Whatever the system reports.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes all creations, renames and removals so far durable.
    ///
    /// # Errors
    /// Whatever the system reports; they are then in doubt.
    fn sync_dir(&self) -> io::Result<()>;

    /// Bytes that this process may still write to the file system.
    ///
    /// # Errors
    /// Whatever the system reports.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// An open file.
pub trait File: Send + Sync + std::fmt::Debug + 'static {
    /// Fills `buf` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; whatever the system reports.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Writes all `parts` one after the other from `offset` on, in one system call where that can be;
    /// extends the file.
    ///
    /// # Errors
    /// `StorageFull` and whatever the system reports; any part of the bytes may have been written.
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()>;

    /// Makes all writes that returned before this call durable (`fdatasync`).
    ///
    /// # Errors
    /// Whatever the system reports; those writes are then in doubt for good.
    fn sync(&self) -> io::Result<()>;

    /// Length of the file, bytes.
    ///
    /// # Errors
    /// Whatever the system reports.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Whatever the system reports.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros; durable after [`File::sync`].
    ///
    /// # Errors
    /// Whatever the system reports.
    fn set_len(&self, len: u64) -> io::Result<()>;
}
