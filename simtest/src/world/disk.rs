//! The disk of a simulated member: a [`MemoryDisk`] that outlives its processes, with faults at chosen operations.
//!
//! WHAT CAN HAPPEN
//! * *Power cut*, at any operation that changes something: of what is not synced each sector is lost or kept, of the
//!   directory's changes some. The process that was writing gets nothing done any more.
//! * *Kill* of the process, at any such operation: what it wrote stays in the system's cache, unsynced.
//! * A write or a sync fails; the disk is full for a while; a bit rots, and is put right again.
//! * A sync lies: it says that it is done and does nothing. No store survives that with a power cut, so a world has
//!   such syncs only if it is asked for them, to see that the checkers notice.
//!
//! Slow syncs are not made here: whoever runs a step of the engine waits before it.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;

use engine::disk::{Disk, File, MemoryDisk};
use parking_lot::Mutex;

use super::dice::Dice;
use super::trace::Trace;

/// How a process ends at an operation of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The machine loses its power.
    Power,
    /// The process is killed.
    Kill,
}

/// What a crash of the machine did to what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Damage {
    /// Bytes that were written and not synced.
    pub(super) unsynced_bytes: u64,
    /// Whether the log's last writes are there in part.
    pub(super) torn_frame: bool,
}

/// The machine's disk.
#[derive(Debug)]
pub(super) struct Machine {
    memory: MemoryDisk,
    control: Arc<Mutex<Control>>,
    trace: Trace,
}

#[derive(Debug, Default)]
struct Control {
    /// The process that may use the disk; handles of others get errors.
    process: u64,
    /// Changing operations until the process ends, and how.
    cut_after: Option<(u64, Cut)>,
    /// How the process ended, once it has.
    ended: Option<Cut>,
    /// Writes and syncs to come before one of each fails.
    fail_write_after: Option<u64>,
    fail_sync_after: Option<u64>,
    lying: bool,
    /// Where the last writes to each file went: offset and length, newest last.
    last_writes: BTreeMap<String, Vec<(u64, u64)>>,
    /// The segment that was written to last.
    newest_segment: Option<String>,
    failures: u64,
    lies: u64,
}

/// Writes to a file that are remembered.
const WRITES_REMEMBERED: usize = 3;

/// A bit that was flipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rot {
    pub(super) file: String,
    pub(super) offset: u64,
    bit: u8,
}

impl Machine {
    pub(super) fn new(trace: Trace) -> Machine {
        Machine { memory: MemoryDisk::new(), control: Arc::default(), trace }
    }

    /// The disk for a new process; what older ones hold of it is of no more use.
    pub(super) fn mount(&self) -> Arc<dyn Disk> {
        let mut control = self.control.lock();
        control.process += 1;
        control.cut_after = None;
        control.ended = None;
        control.fail_write_after = None;
        control.fail_sync_after = None;
        let seat = Seat {
            control: Arc::clone(&self.control),
            process: control.process,
            trace: self.trace.clone(),
        };
        Arc::new(Mounted { memory: self.memory.clone(), seat: Arc::new(seat) })
    }

    /// Ends the process at the operation after `operations` more that change something.
    pub(super) fn cut_after(&self, operations: u64, cut: Cut) {
        self.control.lock().cut_after = Some((operations, cut));
    }

    /// How the process ended at an operation of the disk, if it did.
    pub(super) fn ended(&self) -> Option<Cut> {
        self.control.lock().ended
    }

    /// The process is gone: nothing that it left behind may write any more.
    pub(super) fn unmount(&self) {
        let mut control = self.control.lock();
        control.process += 1;
        control.ended = None;
        control.cut_after = None;
    }

    /// The machine loses its power. The process must be unmounted.
    pub(super) fn crash(&mut self, seed: u64) -> Damage {
        let mut damage = Damage { unsynced_bytes: self.memory.unsynced_bytes(), ..Damage::default() };
        let newest = self.control.lock().newest_segment.clone();
        let before = newest.as_ref().and_then(|name| self.memory.file_bytes(name));
        let lost = newest.as_ref().and_then(|name| self.memory.durable_bytes(name));
        self.memory = self.memory.crash(seed);
        if let Some(name) = &newest {
            let after = self.memory.file_bytes(name);
            damage.torn_frame = after.is_some() && after != before && after != lost;
        }
        damage
    }

    /// The next write but `writes` fails.
    pub(super) fn fail_write_after(&self, writes: u64) {
        self.control.lock().fail_write_after = Some(writes);
    }

    /// The next sync but `syncs` fails.
    pub(super) fn fail_sync_after(&self, syncs: u64) {
        self.control.lock().fail_sync_after = Some(syncs);
    }

    /// Whether syncs do nothing.
    pub(super) fn set_lying(&self, lying: bool) {
        self.control.lock().lying = lying;
    }

    /// Bytes by which files may still grow.
    pub(super) fn set_free_bytes(&self, bytes: Option<u64>) {
        self.memory.set_free_bytes(bytes);
    }

    /// Writes and syncs that failed, and syncs that lied.
    pub(super) fn failures(&self) -> (u64, u64) {
        let control = self.control.lock();
        (control.failures, control.lies)
    }

    /// Flips a bit of something that is certainly not the log's end: there a damaged frame cannot be told from one
    /// that a power cut tore. `None` if there is nothing else.
    pub(super) fn rot(&self, dice: &mut Dice) -> Option<Rot> {
        let control = self.control.lock();
        let names = self.memory.list().ok()?;
        let mut places: Vec<(String, u64)> = Vec::new();
        for name in names {
            let len = self.memory.file_bytes(&name).map_or(0, |bytes| bytes.len() as u64);
            let is_newest = control.newest_segment.as_ref() == Some(&name);
            let end = match control.last_writes.get(&name) {
                Some(writes) if is_newest || !name.ends_with(".tab") => {
                    writes.iter().map(|(offset, _)| *offset).min().unwrap_or(len).min(len)
                }
                _ => len,
            };
            let eligible = name.ends_with(".tab") || name.ends_with(".seg");
            if eligible && end > 0 {
                places.push((name, end));
            }
        }
        if places.is_empty() {
            return None;
        }
        let (file, end) = places[usize::try_from(dice.between(0, places.len() as u64 - 1)).ok()?].clone();
        let rot = Rot { file, offset: dice.between(0, end - 1), bit: dice.between(0, 7) as u8 };
        self.memory.flip_bit(&rot.file, rot.offset, rot.bit);
        Some(rot)
    }

    /// Puts a bit right again, if its file is still there.
    pub(super) fn mend(&self, rot: &Rot) {
        self.memory.flip_bit(&rot.file, rot.offset, rot.bit);
    }
}

/// The disk as a process has it.
#[derive(Debug)]
struct Mounted {
    memory: MemoryDisk,
    seat: Arc<Seat>,
}

/// A process's right to use the disk.
#[derive(Debug)]
struct Seat {
    control: Arc<Mutex<Control>>,
    process: u64,
    trace: Trace,
}

/// A file as a process has it.
#[derive(Debug)]
struct Handle {
    name: String,
    file: Arc<dyn File>,
    memory: MemoryDisk,
    seat: Arc<Seat>,
}

fn gone() -> io::Error {
    io::Error::other("the process is gone")
}

impl Seat {
    /// Whether the process may use the disk.
    fn reading(&self) -> io::Result<()> {
        let control = self.control.lock();
        if control.process == self.process && control.ended.is_none() { Ok(()) } else { Err(gone()) }
    }

    /// The same for an operation that changes something; it may be the one at which the process ends.
    fn changing(&self, what: &str, name: &str) -> io::Result<()> {
        self.reading()?;
        self.trace.line("disk", format_args!("{what} {name}"));
        let mut control = self.control.lock();
        let Some((left, cut)) = &mut control.cut_after else { return Ok(()) };
        if *left > 0 {
            *left -= 1;
            return Ok(());
        }
        control.ended = Some(*cut);
        Err(gone())
    }

    /// Whether a failure that was ordered is due.
    fn fails(&self, due: impl Fn(&mut Control) -> &mut Option<u64>) -> bool {
        let mut control = self.control.lock();
        let left = due(&mut control);
        match *left {
            None => return false,
            Some(0) => *left = None,
            Some(more) => {
                *left = Some(more - 1);
                return false;
            }
        }
        control.failures += 1;
        true
    }

    /// Whether a sync lies.
    fn lies(&self) -> bool {
        let mut control = self.control.lock();
        control.lies += u64::from(control.lying);
        control.lying
    }
}

impl Mounted {
    fn handle(&self, name: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(Handle {
            name: name.to_owned(),
            file,
            memory: self.memory.clone(),
            seat: Arc::clone(&self.seat),
        })
    }
}

impl Disk for Mounted {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.seat.changing("create", name)?;
        self.memory.create(name).map(|file| self.handle(name, file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.seat.reading()?;
        self.memory.open(name).map(|file| self.handle(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.seat.changing("rename", from)?;
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.seat.changing("remove", name)?;
        self.seat.control.lock().last_writes.remove(name);
        self.memory.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.seat.reading()?;
        self.memory.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.seat.changing("sync", "directory")?;
        if self.seat.lies() {
            return Ok(());
        }
        if self.seat.fails(|control| &mut control.fail_sync_after) {
            self.memory.fail_next_sync();
        }
        self.memory.sync_dir()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.seat.reading()?;
        self.memory.free_bytes()
    }
}

impl File for Handle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.seat.reading()?;
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let mut crc = crc32fast::Hasher::new();
        parts.iter().for_each(|part| crc.update(part));
        let (len, crc) = (parts.iter().map(|part| part.len() as u64).sum::<u64>(), crc.finalize());
        self.seat.changing(&format!("write {offset} {len} {crc:08x}"), &self.name)?;
        {
            let mut control = self.seat.control.lock();
            let writes = control.last_writes.entry(self.name.clone()).or_default();
            writes.push((offset, len));
            let old = writes.len().saturating_sub(WRITES_REMEMBERED);
            writes.drain(..old);
            if self.name.ends_with(".seg") {
                control.newest_segment = Some(self.name.clone());
            }
        }
        if self.seat.fails(|control| &mut control.fail_write_after) {
            // Some first part of it is written, as the system may do.
            let mut kept = Vec::with_capacity(parts.len());
            let mut room = crc as usize % (len as usize + 1);
            for part in parts {
                let taken = part.len().min(room);
                kept.push(IoSlice::new(&part[..taken]));
                room -= taken;
            }
            self.file.write_at(offset, &kept)?;
            return Err(io::Error::other("injected failure of a write"));
        }
        self.file.write_at(offset, parts)
    }

    fn sync(&self) -> io::Result<()> {
        self.seat.changing("sync", &self.name)?;
        if self.seat.lies() {
            return Ok(());
        }
        if self.seat.fails(|control| &mut control.fail_sync_after) {
            self.memory.fail_next_sync();
        }
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.seat.reading()?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.seat.changing(&format!("length {len}"), &self.name)?;
        self.file.set_len(len)
    }
}
