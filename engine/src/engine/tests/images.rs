//! Power cuts at every point: a disk that keeps an image of what a cut would leave, drawn anew, before and
//! after operations on it, while random writes, flushes, merges and reuse of segments go on. Each image must
//! start, with exactly what was acknowledged, and at most whole entries behind it.
//!
//! A plain run looks at a few hundred images; `KEELSON_CRASH_IMAGES=10000` at so many.

use std::io::{self, IoSlice};
use std::sync::Arc;

use parking_lot::Mutex;

use super::world::{Wish, World, options};
use crate::KeyRange;
use crate::disk::{Disk, File, MemoryDisk};
use crate::engine::Options;
use crate::log::LogOptions;

/// Images that a plain run looks at.
const IMAGES: u64 = 400;
/// Images taken of one history, at most.
const IMAGES_PER_HISTORY: u64 = 100;

/// A small generator of numbers (splitmix64).
#[derive(Debug)]
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

/// What a power cut would have left.
#[derive(Debug)]
struct Image {
    disk: MemoryDisk,
    /// Entries acknowledged by then.
    acked: u64,
    /// The operation that it was taken at.
    operation: String,
    at_stake: bool,
}

/// A disk that takes images.
#[derive(Debug, Clone)]
struct CutDisk {
    memory: MemoryDisk,
    cuts: Arc<Mutex<Cuts>>,
}

#[derive(Debug)]
struct Cuts {
    dice: Dice,
    acked: u64,
    images: Vec<Image>,
}

impl CutDisk {
    /// Takes an image now and then.
    fn cut(&self, operation: &str, name: &str) {
        let mut cuts = self.cuts.lock();
        // Most operations are on the log; those that are rare are the more interesting.
        let every = if name.ends_with(".seg") || name == "LOG-END" { 8 } else { 3 };
        if cuts.dice.below(every) > 0 {
            return;
        }
        let disk = self.memory.crash(cuts.dice.below(u64::MAX));
        let (acked, at_stake) = (cuts.acked, self.memory.unsynced_bytes() > 0);
        cuts.images.push(Image { disk, acked, operation: format!("{operation} {name}"), at_stake });
    }

    fn around<T>(&self, operation: &str, name: &str, run: impl FnOnce() -> T) -> T {
        self.cut(&format!("before {operation}"), name);
        let result = run();
        self.cut(&format!("after {operation}"), name);
        result
    }

    fn file(&self, name: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(CutFile { disk: self.clone(), name: name.to_owned(), file })
    }
}

impl Disk for CutDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(name, self.around("create", name, || self.memory.create(name))?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(name, self.memory.open(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.around("rename", to, || self.memory.rename(from, to))
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.around("remove", name, || self.memory.remove(name))
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.around("sync", "directory", || self.memory.sync_dir())
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.memory.free_bytes()
    }
}

#[derive(Debug)]
struct CutFile {
    disk: CutDisk,
    name: String,
    file: Arc<dyn File>,
}

impl File for CutFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let result = self.file.write_at(offset, parts);
        self.disk.cut("after write", &self.name);
        result
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.around("sync", &self.name, || self.file.sync())
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

/// What the images showed, so that a test that tests nothing is seen.
#[derive(Debug, Default)]
struct Coverage {
    images: u64,
    /// With bytes that were written and not synced.
    at_stake: u64,
    /// In which entries survived that were not acknowledged.
    ahead: u64,
    /// Taken in the middle of a flush or merge.
    of_tables: u64,
    of_manifest: u64,
    /// Of stores with segments that were used again.
    reused: u64,
    /// That went on, and were cut again.
    continued: u64,
}

fn small() -> Options {
    Options {
        log: LogOptions {
            segment_bytes: 32 << 10,
            tail_bytes: 8 << 10,
            frame_bytes_max: 6 << 10,
            prepare_after_bytes: 48 << 10,
            ..LogOptions::default()
        },
        memtable_bytes_max: 32 << 10,
        ..options()
    }
}

fn random_txns(dice: &mut Dice) -> Vec<Vec<Wish>> {
    let wish = |dice: &mut Dice| {
        let len = match dice.below(8) {
            0 | 1 => None,
            2 | 3 => Some(dice.below(65)),
            7 => Some(dice.below(9000)),
            _ => Some(65 + dice.below(1500)),
        };
        (dice.below(40) as u16, len.map(|len| len as usize))
    };
    (0..=dice.below(2)).map(|_| (0..=dice.below(3)).map(|_| wish(dice)).collect()).collect()
}

/// One random step; `acknowledged` is told how far the log is durable.
fn step(world: &mut World, dice: &mut Dice, mut acknowledged: impl FnMut(u64)) {
    match dice.below(20) {
        0..10 => {
            for _ in 0..=dice.below(3) {
                let txns = random_txns(dice);
                world.append_batch(&txns);
            }
            world.commit(&mut acknowledged);
        }
        10 | 11 => {
            let (oldest, latest) = (world.model.compacted, world.model.revision);
            world.compact(oldest + (latest - oldest) * dice.below(5).cast_signed() / 4);
            acknowledged(world.index);
        }
        12..14 => drop(world.freeze()),
        14..18 => {
            for _ in 0..=dice.below(5) {
                world.step(1 + dice.below(40_000));
            }
        }
        18 => world.purge(),
        _ => world.settle(),
    }
}

/// Runs one history of about a hundred steps and looks at the images taken on the way.
fn history(seed: u64, coverage: &mut Coverage) {
    let mut dice = Dice(seed);
    let memory = MemoryDisk::new();
    let cuts = Cuts { dice: Dice(!seed), acked: 0, images: Vec::new() };
    let disk = CutDisk { memory: memory.clone(), cuts: Arc::new(Mutex::new(cuts)) };
    let mut world = World::on(memory, Arc::new(disk.clone()), small());
    let wanted = coverage.images + IMAGES_PER_HISTORY;
    for _ in 0..120 {
        step(&mut world, &mut dice, |acked| disk.cuts.lock().acked = acked);
        let images = std::mem::take(&mut disk.cuts.lock().images);
        for image in images {
            // Not all: the late ones of a history are as interesting as the early ones.
            if coverage.images < wanted && dice.below(4) == 0 {
                look_at(&world, image, &mut dice, coverage);
            }
        }
    }
}

fn look_at(world: &World, image: Image, dice: &mut Dice, coverage: &mut Coverage) {
    coverage.images += 1;
    coverage.at_stake += u64::from(image.at_stake);
    coverage.of_tables += u64::from(image.operation.ends_with(".tab"));
    coverage.of_manifest += u64::from(image.operation.contains("MANIFEST"));
    coverage.reused += u64::from(world.engine.stats().segments_released > 0);
    let mut found = world.recovered(image.disk, image.acked);
    coverage.ahead += u64::from(found.index > image.acked);
    check(&found, dice);
    if dice.below(6) > 0 {
        return;
    }
    coverage.continued += 1;
    for _ in 0..6 {
        step(&mut found, dice, |_| {});
    }
    let (acked, disk) = (found.index, found.disk.crash(dice.below(u64::MAX)));
    check(&found.recovered(disk, acked), dice);
}

fn check(world: &World, dice: &mut Dice) {
    let latest = world.model.revision;
    let older = world.model.compacted + dice.below((latest - world.model.compacted) as u64 + 1).cast_signed();
    world.check(&KeyRange::all(), latest, usize::MAX);
    world.check(&KeyRange::all(), older, 7);
    world.engine.verify_tables().unwrap();
}

#[test]
fn every_image_of_a_power_cut_recovers_to_what_was_acknowledged() {
    let wanted = std::env::var("KEELSON_CRASH_IMAGES").ok().and_then(|text| text.parse().ok());
    let wanted: u64 = wanted.unwrap_or(IMAGES);
    let mut coverage = Coverage::default();
    let mut seed = 0;
    while coverage.images < wanted {
        seed += 1;
        let before = coverage.images;
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| history(seed, &mut coverage)));
        if let Err(panic) = run {
            eprintln!("history {seed}, image {}", coverage.images - before);
            std::panic::resume_unwind(panic);
        }
    }
    let Coverage { images, at_stake, ahead, of_tables, of_manifest, reused, continued } = coverage;
    assert!(at_stake * 3 > images && ahead * 50 > images, "{coverage:?}");
    assert!(of_tables * 20 > images && of_manifest * 40 > images, "{coverage:?}");
    assert!(reused * 10 > images && continued * 10 > images, "{coverage:?}");
    println!("{coverage:?}");
}
