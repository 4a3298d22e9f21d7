//! Writing a table: sorted versions in, one complete and synced file out.
//!
//! Blocks go to the file as they fill, so a table of any size costs the memory of its index and filter.
//! The file is not part of the store until the manifest names it: a writer that is dropped leaves at worst
//! an orphan, which the next start removes; [`Writer::abort`] removes it at once.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::block;
use super::filter::{self, hash};
use super::footer::{Footer, HEADER_LEN, Section, encode_header, encode_trailer};
use super::index::{BlockEntry, Revisions, Sums};
use super::{Applied, Version};
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use crate::types::{Revision, Space};

/// Bytes of a block: small enough to be read for one key, large enough to share a read and a checksum.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;
/// Bytes collected before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// What the manifest keeps of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableRecord {
    /// Number of the table.
    pub(crate) uid: u64,
    /// Length of its file.
    pub(crate) len: u64,
    /// CRC-32 of its trailer.
    pub(crate) crc: u32,
}

/// Name of the file of table `uid`.
pub(crate) fn file_name(uid: u64) -> String {
    format!("{uid:08}.tab")
}

/// A table being written.
#[derive(Debug)]
pub(crate) struct Writer {
    uid: u64,
    name: String,
    file: Arc<dyn File>,
    /// Bytes handed to the file.
    written: u64,
    /// Bytes to be written at `written`.
    buffer: Vec<u8>,
    block: block::Builder,
    block_bytes: usize,
    block_first: Option<(Space, Bytes, Revision)>,
    block_revisions: Revisions,
    index: Vec<u8>,
    n_blocks: u32,
    /// Compaction revision whose rule the caller applies.
    compacted: i64,
    base_versions: u64,
    base_weight: i64,
    filter: filter::Builder,
    keys: u64,
    sums: Sums,
    revisions: Revisions,
    first: Option<(Space, Bytes)>,
    last: Option<(Space, Vec<u8>, Revision)>,
    segments: BTreeMap<u32, u64>,
}

impl Writer {
    /// Starts table `uid` with room in its filter for `keys_max` keys, of versions that the compaction rule
    /// at `compacted` left. A block is ended when it has `block_bytes`.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] from the disk.
    pub(crate) fn create(
        disk: &dyn Disk,
        uid: u64,
        keys_max: u64,
        compacted: i64,
        block_bytes: usize,
    ) -> Result<Self> {
        let name = file_name(uid);
        let file = disk.create(&name).map_err(|source| Error::io(&name, &source))?;
        Ok(Writer {
            uid,
            name,
            file,
            written: 0,
            buffer: encode_header(uid),
            block: block::Builder::default(),
            block_bytes,
            block_first: None,
            block_revisions: Revisions::NONE,
            index: Vec::new(),
            n_blocks: 0,
            compacted,
            base_versions: 0,
            base_weight: 0,
            filter: filter::Builder::new(keys_max),
            keys: 0,
            sums: Sums::default(),
            revisions: Revisions::NONE,
            first: None,
            last: None,
            segments: BTreeMap::new(),
        })
    }

    /// Number of the table.
    pub(crate) fn uid(&self) -> u64 {
        self.uid
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Appends a version.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] from the disk; the writer is good for [`Writer::abort`] only then.
    ///
    /// # Panics
    /// If the order is broken: space, key ascending, revision descending, none twice.
    pub(crate) fn add(&mut self, space: Space, key: &[u8], version: &Version) -> Result<()> {
        let new_key = match &mut self.last {
            Some((last_space, last_key, last_revision)) => {
                let same = *last_space == space && last_key == key;
                assert!(
                    (*last_space, &last_key[..]) < (space, key) || same && version.revision < *last_revision,
                    "{:?} of {key:?} after {last_revision:?} of {last_key:?} in {}",
                    version.revision,
                    self.name
                );
                if *last_space != space {
                    self.end_block()?;
                }
                !same
            }
            None => true,
        };
        if new_key {
            self.keys += 1;
            self.filter.insert(hash(space, key));
        }
        match &mut self.last {
            Some((last_space, last_key, last_revision)) => {
                (*last_space, *last_revision) = (space, version.revision);
                last_key.clear();
                last_key.extend_from_slice(key);
            }
            None => {
                self.first = Some((space, Bytes::copy_from_slice(key)));
                self.last = Some((space, key.to_vec(), version.revision));
            }
        }
        if self.block.is_empty() {
            self.block_first = Some((space, Bytes::copy_from_slice(key), version.revision));
        }
        self.block.add(key, version);
        self.block_revisions.add(version);
        self.revisions.add(version);
        self.sums.add(version);
        let main = version.revision.main;
        if main < self.compacted || main == self.compacted && !version.is_tombstone() {
            self.base_versions += 1;
        }
        if main <= self.compacted {
            self.base_weight += i64::from(version.weight);
        }
        if let Some((segment, len)) = version.log_bytes() {
            *self.segments.entry(segment).or_default() += len;
        }
        if self.block.size() >= self.block_bytes {
            self.end_block()?;
        }
        Ok(())
    }

    /// Writes what is left, the table's end, and syncs. The name is durable only after the directory's sync.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] from the disk; the file is to be removed then.
    ///
    /// # Panics
    /// If nothing was added: an empty table has no bounds.
    pub(crate) fn finish(&mut self, applied: Applied) -> Result<TableRecord> {
        self.end_block()?;
        let filter = std::mem::replace(&mut self.filter, filter::Builder::new(0)).finish();
        let filter = self.section(&filter)?;
        let mut index = Vec::with_capacity(self.index.len() + 4);
        index.put_u32_le(self.n_blocks);
        index.append(&mut self.index);
        let index = self.section(&index)?;
        let (last_space, last_key, _) = self.last.take().expect("a table is not empty");
        let footer = Footer {
            uid: self.uid,
            filter,
            index,
            compacted: self.compacted,
            base_versions: self.base_versions,
            base_weight: self.base_weight,
            keys: self.keys,
            sums: self.sums,
            revisions: self.revisions,
            first: self.first.take().expect("a table is not empty"),
            last: (last_space, Bytes::from(last_key)),
            segments: std::mem::take(&mut self.segments),
            applied,
        };
        let footer = self.section(&footer.encode())?;
        let trailer = encode_trailer(footer);
        self.buffer.extend_from_slice(&trailer);
        self.write()?;
        self.file.sync().map_err(|source| Error::io(&self.name, &source))?;
        Ok(TableRecord { uid: self.uid, len: self.written, crc: crc32fast::hash(&trailer) })
    }

    /// Removes the file. A failure is no harm: the next start removes it.
    pub(crate) fn abort(self, disk: &dyn Disk) {
        let _ = disk.remove(&self.name);
    }

    fn end_block(&mut self) -> Result<()> {
        let Some((space, first_key, first_revision)) = self.block_first.take() else {
            return Ok(());
        };
        let bytes = self.block.finish();
        let section = self.section(&bytes)?;
        let entry = BlockEntry {
            space,
            first_key,
            first_revision,
            offset: section.offset,
            len: section.len,
            crc: section.crc,
            totals: self.sums,
            revisions: std::mem::replace(&mut self.block_revisions, Revisions::NONE),
        };
        entry.encode(&mut self.index);
        self.n_blocks += 1;
        Ok(())
    }

    /// Appends a part of the file and says where it is.
    fn section(&mut self, bytes: &[u8]) -> Result<Section> {
        let section = Section {
            offset: self.written + self.buffer.len() as u64,
            len: u32::try_from(bytes.len()).expect("parts of a table are below 4 GiB"),
            crc: crc32fast::hash(bytes),
        };
        debug_assert!(section.offset >= HEADER_LEN as u64, "the header comes first");
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(section)
    }

    fn write(&mut self) -> Result<()> {
        self.file
            .write_at(self.written, &[IoSlice::new(&self.buffer)])
            .map_err(|source| Error::io(&self.name, &source))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
