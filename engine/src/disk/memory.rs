//! A directory in memory that knows which writes were synced, and can show what a power cut would leave.
//!
//! Each file has two contents: what a reader sees (`data`) and what is certainly on the platter (`durable`),
//! with the unsynced changes between them in order. Names are kept in the same way: the directory as seen,
//! the durable one, and the journal of unsynced operations.
//!
//! THE MODEL OF FAILURE
//! * [`MemoryDisk::crash`]: of each unsynced write every 512-byte sector is lost or kept, whatever became of
//!   earlier ones; of the directory journal some prefix is kept.
//! * A failed sync drops the dirty state, as Linux does: some sectors of what it covered reach the platter,
//!   readers go on seeing all of it, and a later sync that succeeds does not bring the rest.
//! * A failed write leaves some first part of its bytes behind.
//! * Rot ([`MemoryDisk::flip_bit`]) hits reader and platter alike.

use super::{Disk, File};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;

/// Unit in which a disk writes atomically, bytes.
const SECTOR: u64 = 512;

/// A directory in memory; clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The directory as readers see it.
    names: BTreeMap<String, Arc<Mutex<Node>>>,
    /// The directory as a power cut finds it at least.
    durable_names: BTreeMap<String, Arc<Mutex<Node>>>,
    /// What leads from `durable_names` to `names`, in order.
    journal: Vec<Operation>,
    faults: Faults,
}

#[derive(Debug, Clone)]
enum Operation {
    /// Creation of a file.
    Link(String, Arc<Mutex<Node>>),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug, Default)]
struct Faults {
    /// Syncs that still succeed before one fails.
    fail_sync_after: Option<u32>,
    fail_writes: bool,
    /// Bytes by which files may still grow; `None` is no limit.
    free_bytes: Option<u64>,
    dice: Dice,
    syncs: u64,
}

/// One file, whatever its names.
#[derive(Debug, Default, Clone)]
struct Node {
    data: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

impl MemoryDisk {
    /// An empty directory.
    #[must_use]
    pub fn new() -> Self {
        MemoryDisk::default()
    }

    /// What a power cut now could leave, drawn from `seed`; this disk is not changed.
    ///
    /// Every unsynced write is lost, kept or torn by sector, in any subset; of the unsynced operations on
    /// the directory a prefix is kept. The result is free of injected faults.
    #[must_use]
    pub fn crash(&self, seed: u64) -> MemoryDisk {
        let mut dice = Dice(seed);
        let shared = self.shared.lock();
        let mut names = shared.durable_names.clone();
        let kept = dice.below(shared.journal.len() as u64 + 1) as usize;
        for operation in &shared.journal[..kept] {
            operation.apply(&mut names);
        }
        let names: BTreeMap<_, _> = names
            .into_iter()
            .map(|(name, node)| (name, Arc::new(Mutex::new(node.lock().crash(&mut dice)))))
            .collect();
        let shared = Shared { durable_names: names.clone(), names, ..Shared::default() };
        MemoryDisk { shared: Arc::new(Mutex::new(shared)) }
    }

    /// The next sync, of a file or of the directory, fails.
    pub fn fail_next_sync(&self) {
        self.fail_sync_after(0);
    }

    /// One sync, of a file or of the directory, fails after `count` more that succeed.
    pub fn fail_sync_after(&self, count: u32) {
        self.shared.lock().faults.fail_sync_after = Some(count);
    }

    /// Whether writes fail from now on.
    pub fn fail_writes(&self, fail: bool) {
        self.shared.lock().faults.fail_writes = fail;
    }

    /// Bytes by which files may grow from now on until the disk is full; `None` is no limit.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.shared.lock().faults.free_bytes = bytes;
    }

    /// Flips bit `bit` (0-7) of the byte at `offset`; nothing happens beyond the end of the file.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) {
        if let Some(node) = self.node(name) {
            let mut node = node.lock();
            let Node { data, durable, .. } = &mut *node;
            for content in [data, durable] {
                if let Some(byte) = content.get_mut(offset as usize) {
                    *byte ^= 1 << (bit & 7);
                }
            }
        }
    }

    /// The file as a reader sees it; `None` if there is none of that name.
    #[must_use]
    pub fn file_bytes(&self, name: &str) -> Option<Vec<u8>> {
        Some(self.node(name)?.lock().data.clone())
    }

    /// Puts a file there, durable, replacing one of that name.
    pub fn put_file(&self, name: &str, bytes: Vec<u8>) {
        let node = Node { durable: bytes.clone(), data: bytes, pending: Vec::new() };
        let node = Arc::new(Mutex::new(node));
        let mut shared = self.shared.lock();
        shared.names.insert(name.to_owned(), node.clone());
        shared.durable_names.insert(name.to_owned(), node);
    }

    /// Syncs of files that succeeded so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.shared.lock().faults.syncs
    }

    /// Bytes written and not synced, over all files: what a power cut now puts at stake.
    #[must_use]
    pub fn unsynced_bytes(&self) -> u64 {
        let shared = self.shared.lock();
        let pending = |node: &Arc<Mutex<Node>>| -> u64 {
            let node = node.lock();
            node.pending
                .iter()
                .map(|change| match change {
                    Change::Write { bytes, .. } => bytes.len() as u64,
                    Change::Length(_) => 0,
                })
                .sum()
        };
        shared.names.values().map(pending).sum()
    }

    fn node(&self, name: &str) -> Option<Arc<Mutex<Node>>> {
        self.shared.lock().names.get(name).cloned()
    }
}

impl Operation {
    fn apply(&self, names: &mut BTreeMap<String, Arc<Mutex<Node>>>) {
        match self {
            Operation::Link(name, node) => {
                names.insert(name.clone(), node.clone());
            }
            Operation::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            Operation::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl Shared {
    fn run(&mut self, operation: Operation) {
        operation.apply(&mut self.names);
        self.journal.push(operation);
    }
}

impl Faults {
    /// Takes the failure that is due, if one is.
    fn sync(&mut self) -> io::Result<()> {
        match self.fail_sync_after {
            Some(0) => {
                self.fail_sync_after = None;
                return Err(io::Error::other("injected failure of a sync"));
            }
            Some(count) => self.fail_sync_after = Some(count - 1),
            None => {}
        }
        self.syncs += 1;
        Ok(())
    }

    fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let Some(free) = &mut self.free_bytes else { return Ok(()) };
        if *free < bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *free -= bytes;
        Ok(())
    }
}

impl Node {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.data, |_| true);
        self.pending.push(change);
    }

    /// The file after a power cut.
    fn crash(&self, dice: &mut Dice) -> Node {
        let mut durable = self.durable.clone();
        tear(&self.pending, &mut durable, dice);
        Node { data: durable.clone(), durable, pending: Vec::new() }
    }
}

impl Change {
    /// Applies the sectors that `keep` lets through.
    fn apply(&self, content: &mut Vec<u8>, mut keep: impl FnMut(u64) -> bool) {
        match self {
            Change::Length(len) => {
                if keep(0) {
                    content.resize(*len as usize, 0);
                }
            }
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len() as u64;
                let mut at = *offset;
                while at < end {
                    let next = ((at / SECTOR + 1) * SECTOR).min(end);
                    if keep(at / SECTOR) {
                        if (content.len() as u64) < next {
                            content.resize(next as usize, 0);
                        }
                        let from = (at - offset) as usize;
                        let to = (next - offset) as usize;
                        content[at as usize..next as usize].copy_from_slice(&bytes[from..to]);
                    }
                    at = next;
                }
            }
        }
    }
}

/// Brings a drawn subset of unsynced changes to the platter. Whole outcomes (all, none) come up often,
/// since a coin for each sector alone would all but never keep a long write.
fn tear(pending: &[Change], durable: &mut Vec<u8>, dice: &mut Dice) {
    let of_file = dice.below(4);
    for change in pending {
        let fate = if of_file < 2 { of_file } else { dice.below(4) };
        match fate {
            0 => {}
            1 => change.apply(durable, |_| true),
            2 => change.apply(durable, |_| dice.below(2) == 0),
            _ => {
                // All but a single sector, or that one alone.
                let inverted = dice.below(2) == 0;
                let mut odd_one = dice.below(8);
                change.apply(durable, |_| {
                    let hit = odd_one == 0;
                    odd_one = odd_one.wrapping_sub(1);
                    hit == inverted
                });
            }
        }
    }
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut shared = self.shared.lock();
        if shared.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let node = Arc::new(Mutex::new(Node::default()));
        shared.run(Operation::Link(name.to_owned(), node.clone()));
        Ok(Arc::new(MemoryFile { node, shared: self.shared.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let node = self.node(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemoryFile { node, shared: self.shared.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut shared = self.shared.lock();
        if !shared.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        shared.run(Operation::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut shared = self.shared.lock();
        if !shared.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        shared.run(Operation::Remove(name.to_owned()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.lock().names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.faults.sync()?;
        shared.durable_names = shared.names.clone();
        shared.journal.clear();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.shared.lock().faults.free_bytes.unwrap_or(1 << 40))
    }
}

#[derive(Debug)]
struct MemoryFile {
    node: Arc<Mutex<Node>>,
    shared: Arc<Mutex<Shared>>,
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let node = self.node.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = from.checked_add(buf.len()).and_then(|to| node.data.get(from..to));
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            bytes.extend_from_slice(part);
        }
        let mut shared = self.shared.lock();
        let mut node = self.node.lock();
        if shared.faults.fail_writes {
            bytes.truncate(shared.faults.dice.below(bytes.len() as u64 + 1) as usize);
            node.change(Change::Write { offset, bytes });
            return Err(io::Error::other("injected failure of a write"));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let grows = (offset + bytes.len() as u64).saturating_sub(node.data.len() as u64);
        shared.faults.grow(grows)?;
        node.change(Change::Write { offset, bytes });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut shared = self.shared.lock();
        let mut node = self.node.lock();
        let result = shared.faults.sync();
        let pending = std::mem::take(&mut node.pending);
        if result.is_err() {
            tear(&pending, &mut node.durable, &mut shared.faults.dice);
        } else {
            for change in pending {
                change.apply(&mut node.durable, |_| true);
            }
        }
        result
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.node.lock().data.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut shared = self.shared.lock();
        let mut node = self.node.lock();
        shared.faults.grow(len.saturating_sub(node.data.len() as u64))?;
        node.change(Change::Length(len));
        Ok(())
    }
}

/// A small generator of numbers (splitmix64); the same seed draws the same numbers.
#[derive(Debug, Clone, Default)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn write(file: &Arc<dyn File>, offset: u64, bytes: &[u8]) {
        file.write_at(offset, &[IoSlice::new(bytes)]).unwrap();
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_draws_the_rest() {
        let disk = MemoryDisk::new();
        let file = disk.create("a").unwrap();
        write(&file, 0, &[1; 2048]);
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        write(&file, 1024, &[2; 1024]);
        disk.create("b").unwrap();
        disk.rename("b", "c").unwrap();
        let mut contents = BTreeSet::new();
        let mut directories = BTreeSet::new();
        for seed in 0..200 {
            let image = disk.crash(seed);
            let bytes = image.file_bytes("a").unwrap();
            assert_eq!(bytes[..1024], [1; 1024], "seed {seed}: synced bytes survive");
            for sector in bytes.chunks(512) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}: a sector is whole");
            }
            contents.insert((bytes[1024], bytes[1536]));
            directories.insert(image.list().unwrap());
        }
        assert_eq!(contents.len(), 4, "both sectors lost and kept in every combination");
        assert_eq!(directories.len(), 3, "journal undone from its end: a, a+b, a+c");
        assert_eq!(disk.file_bytes("a").unwrap()[1024], 2, "the disk itself goes on");
    }

    #[test]
    fn a_sync_after_a_failed_one_proves_nothing() {
        let mut lost = 0;
        for round in 0..50 {
            let disk = MemoryDisk::new();
            disk.shared.lock().faults.dice = Dice(round);
            let file = disk.create("a").unwrap();
            disk.sync_dir().unwrap();
            write(&file, 0, &[7; 512]);
            disk.fail_next_sync();
            file.sync().unwrap_err();
            file.sync().unwrap();
            let mut seen = [0; 512];
            file.read_at(0, &mut seen).unwrap();
            assert_eq!(seen, [7; 512], "readers see the page cache");
            lost += usize::from(disk.crash(round).file_bytes("a").unwrap().is_empty());
        }
        assert!(lost > 5 && lost < 45, "lost in {lost} of 50: both outcomes happen");
    }

    #[test]
    fn a_full_disk_refuses_growth_only() {
        let disk = MemoryDisk::new();
        let file = disk.create("a").unwrap();
        disk.set_free_bytes(Some(100));
        write(&file, 0, &[1; 60]);
        let error = file.write_at(0, &[IoSlice::new(&[2; 101])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        write(&file, 0, &[3; 100]);
        assert_eq!(disk.free_bytes().unwrap(), 0);
        write(&file, 0, &[4; 100]);
    }
}
