//! One use of a segment's file, shared by whoever writes or reads it.
//!
//! A segment is known by its uid from the moment a record is laid out in it; its file is bound when its
//! first frame is written. When it was released and the last holder lets go, the file returns to the pool:
//! so no reader ever sees a file recycled under it.

use super::GroupId;
use super::pool::{Pool, PoolFile};
use crate::disk::File;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// All live segments by uid; replaced, never changed, so a reader keeps the set it started with.
pub(super) type Segments = BTreeMap<u32, Arc<Segment>>;

/// Keeps the files of all segments that were live when it was taken readable and away from reuse.
#[derive(Debug, Clone)]
pub struct SegmentPin(#[expect(dead_code, reason = "held for its life alone")] pub(super) Arc<Segments>);

/// A sealed segment, as far as reclaiming it is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Number of this use of the file.
    pub uid: u32,
    /// Bytes of header and frames.
    pub bytes: u64,
    /// Per group with entries in it: the group, its first and its last index there.
    pub groups: Vec<(GroupId, u64, u64)>,
}

/// What is known of a segment once nothing more goes into it.
#[derive(Debug)]
pub(super) struct Sealed {
    /// Seq of its last frame.
    pub(super) last_seq: u64,
    pub(super) groups: Vec<(GroupId, u64, u64)>,
}

/// One use of a segment's file.
#[derive(Debug)]
pub(super) struct Segment {
    uid: u32,
    incarnation: u64,
    /// The file; unset until the first frame is written.
    place: OnceLock<PoolFile>,
    /// Offset after the last durable frame. Readers go no further.
    durable_end: AtomicU64,
    sealed: OnceLock<Sealed>,
    /// Set when the caller gave the segment up: its file goes to the pool in the end.
    released: AtomicBool,
    pool: Arc<Pool>,
}

impl Segment {
    pub(super) fn new(uid: u32, incarnation: u64, pool: Arc<Pool>) -> Self {
        Segment {
            uid,
            incarnation,
            place: OnceLock::new(),
            durable_end: AtomicU64::new(0),
            sealed: OnceLock::new(),
            released: AtomicBool::new(false),
            pool,
        }
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Gives the segment its file, once.
    pub(super) fn bind(&self, place: PoolFile) {
        assert!(self.place.set(place).is_ok(), "segment {} has a file already", self.uid);
    }

    /// The file, if the first frame was written or is being written.
    pub(super) fn place(&self) -> Option<&PoolFile> {
        self.place.get()
    }

    pub(super) fn durable_end(&self) -> u64 {
        self.durable_end.load(Ordering::Acquire)
    }

    pub(super) fn set_durable_end(&self, end: u64) {
        let before = self.durable_end.swap(end, Ordering::AcqRel);
        assert!(before < end, "durable end of segment {} went back {before} -> {end}", self.uid);
    }

    pub(super) fn seal(&self, sealed: Sealed) {
        assert!(self.sealed.set(sealed).is_ok(), "segment {} was sealed already", self.uid);
    }

    pub(super) fn sealed(&self) -> Option<&Sealed> {
        self.sealed.get()
    }

    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Release);
    }

    /// The file for reading and its name.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the segment has no file, which no valid location leads to.
    pub(super) fn readable(&self) -> Result<(&dyn File, &str)> {
        match self.place() {
            Some(place) => Ok((place.file.as_ref(), &place.name)),
            None => Err(missing(self.uid, 0)),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if *self.released.get_mut()
            && let Some(mut place) = self.place.take()
        {
            place.synced_len = place.synced_len.max(*self.durable_end.get_mut());
            self.pool.put(place);
        }
    }
}

/// A location names a segment that is not there.
pub(super) fn missing(uid: u32, offset: u64) -> Error {
    Error::Corrupt {
        file: format!("segment {uid}"),
        offset,
        reason: "a location names a segment that is gone",
    }
}
