//! The two-layer design, as KubeBrain has it, on sled: versions of keys on top of a plain ordered key-value store.
//!
//! LAYOUT
//! * tree `index`: user key → revision u64 BE, deleted u8: the latest change, changed by compare-and-swap.
//! * tree `objects`: user key, with each 0x00 as 0x00 0xff, then 0x00 0x00, then revision u64 BE → value; no entry for a
//!   deletion.
//!
//! A put reads the index, writes the object, then swaps the index: until then nobody sees the object. A list walks every
//! version of every key in the range, as does a count: there is nothing that knows how many keys there are.
//!
//! INVARIANT: the escaped user keys have the order of the user keys, and no one is a prefix of another.

use std::path::Path;

/// The store.
pub(crate) struct TwoLayer {
    db: sled::Db,
    index: sled::Tree,
    objects: sled::Tree,
    revision: u64,
}

/// Key and value of a row.
pub(crate) type Row = (Vec<u8>, sled::IVec);

fn escaped(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 10);
    for byte in key {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
    out
}

fn object_key(key: &[u8], revision: u64) -> Vec<u8> {
    let mut out = escaped(key);
    out.extend_from_slice(&revision.to_be_bytes());
    out
}

/// The user key of an object's key without its revision.
fn unescaped(escaped: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut bytes = escaped[..escaped.len() - 2].iter();
    while let Some(byte) = bytes.next() {
        out.push(*byte);
        if *byte == 0 {
            bytes.next();
        }
    }
    out
}

fn state(revision: u64, deleted: bool) -> Vec<u8> {
    let mut out = revision.to_be_bytes().to_vec();
    out.push(u8::from(deleted));
    out
}

fn parse(state: &[u8]) -> (u64, bool) {
    let (revision, deleted) = state.split_first_chunk::<8>().expect("eight bytes and one");
    (u64::from_be_bytes(*revision), deleted == [1])
}

impl TwoLayer {
    /// A store in `directory`, which syncs only when told to.
    pub(crate) fn open(directory: &Path) -> sled::Result<Self> {
        let db = sled::Config::new().path(directory).flush_every_ms(None).open()?;
        let (index, objects) = (db.open_tree("index")?, db.open_tree("objects")?);
        Ok(TwoLayer { db, index, objects, revision: 1 })
    }

    /// Puts a key; durable after [`TwoLayer::sync`].
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> sled::Result<u64> {
        let revision = self.revision + 1;
        let object = object_key(key, revision);
        self.objects.insert(&object, value)?;
        let known = self.index.get(key)?;
        let swapped = self.index.compare_and_swap(key, known, Some(state(revision, false)))?;
        assert!(swapped.is_ok(), "one writer, so nobody else has changed the key");
        self.revision = revision;
        Ok(revision)
    }

    /// Deletes a key; whether there was one.
    pub(crate) fn delete(&mut self, key: &[u8]) -> sled::Result<bool> {
        let Some(known) = self.index.get(key)? else { return Ok(false) };
        if parse(&known).1 {
            return Ok(false);
        }
        let revision = self.revision + 1;
        let swapped = self.index.compare_and_swap(key, Some(known), Some(state(revision, true)))?;
        assert!(swapped.is_ok(), "one writer, so nobody else has changed the key");
        self.revision = revision;
        Ok(true)
    }

    /// Makes durable what was written.
    pub(crate) fn sync(&self) -> sled::Result<()> {
        self.db.flush().map(drop)
    }

    /// The value of a key, now.
    pub(crate) fn get(&self, key: &[u8]) -> sled::Result<Option<sled::IVec>> {
        let Some(known) = self.index.get(key)? else { return Ok(None) };
        match parse(&known) {
            (_, true) => Ok(None),
            (revision, false) => self.objects.get(object_key(key, revision)),
        }
    }

    /// Calls `each` with the live rows of `start..end` in order until it says that it has enough.
    fn walk(
        &self,
        start: &[u8],
        end: &[u8],
        mut each: impl FnMut(Vec<u8>, sled::IVec) -> bool,
    ) -> sled::Result<()> {
        const REVISION_BYTES: usize = 8;
        let mut newest: Option<(Vec<u8>, u64, sled::IVec)> = None;
        let mut give = |(key, revision, value): (Vec<u8>, u64, sled::IVec)| -> sled::Result<bool> {
            let user = unescaped(&key);
            // The index says whether the newest object is still the newest change.
            let live = self.index.get(&user)?.is_some_and(|known| parse(&known) == (revision, false));
            Ok(!live || each(user, value))
        };
        for object in self.objects.range(escaped(start)..escaped(end)) {
            let (object, value) = object?;
            let (key, revision) = object.split_at(object.len() - REVISION_BYTES);
            let revision = u64::from_be_bytes(revision.try_into().expect("eight bytes"));
            if let Some(before) = newest.take_if(|(of, ..)| of != key)
                && !give(before)?
            {
                return Ok(());
            }
            newest = Some((key.to_vec(), revision, value));
        }
        if let Some(last) = newest {
            give(last)?;
        }
        Ok(())
    }

    /// The first `limit` rows of `start..end`.
    pub(crate) fn list(&self, start: &[u8], end: &[u8], limit: usize) -> sled::Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(limit.min(1024));
        self.walk(start, end, |key, value| {
            rows.push((key, value));
            rows.len() < limit
        })?;
        Ok(rows)
    }

    /// How many keys there are in `start..end`.
    pub(crate) fn count(&self, start: &[u8], end: &[u8]) -> sled::Result<u64> {
        let mut count = 0;
        self.walk(start, end, |_, _| {
            count += 1;
            true
        })?;
        Ok(count)
    }
}
