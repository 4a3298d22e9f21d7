//! Reads over memtables and tables of tiny blocks, against a plain map.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::disk::{Disk, MemoryDisk};
use crate::error::Error;
use crate::table::reader::{BlockCache, new_cache};
use crate::table::writer::{TableRecord, Writer, file_name};
use crate::table::{Applied, Write};
use crate::types::{Pointer, Revision, Value};

/// All versions of each key, oldest first; `None` is a tombstone.
type Model = BTreeMap<Bytes, Vec<(Revision, Option<Value>)>>;

fn key(number: u8) -> Bytes {
    // Shared prefixes, keys that are prefixes of others, and a few long ones.
    let tail = usize::from(number % 7) * 5;
    Bytes::from([b"key/", &[b'a' + number % 5][..], &vec![number; 1 + tail]].concat())
}

fn value(main: i64) -> Value {
    if main % 2 == 0 {
        Value::Inline(Bytes::from(main.to_le_bytes().to_vec()))
    } else {
        Value::Pointer(Pointer { segment: (main % 5) as u32, offset: main as u32, len: 100, crc: 7 })
    }
}

/// The writes of a history, `changes` being `(key, delete)`, some of them sharing a revision.
fn writes(changes: &[(u8, bool)]) -> (Vec<Write>, Model) {
    let (mut model, mut writes): (Model, Vec<Write>) = Default::default();
    let mut revision = Revision { main: 1, sub: 0 };
    for (number, delete) in changes {
        if number % 3 == 0 {
            revision.sub += 1;
        } else {
            revision = Revision { main: revision.main + 1, sub: 0 };
        }
        let versions = model.entry(key(*number)).or_default();
        let exists = versions.last().is_some_and(|version| version.1.is_some());
        let weight = match (exists, delete) {
            (false, _) => 1,
            (true, true) => -1,
            (true, false) => 0,
        };
        let value = (weight >= 0).then(|| value(revision.main));
        versions.push((revision, value.clone()));
        let (key, lease) = (key(*number), i64::from(*number % 2));
        writes.push(Write { space: Space::Kv, key, revision, create: 1, version: 1, lease, weight, value });
    }
    (writes, model)
}

/// Writes a table of small blocks; `None` if there is nothing to write.
fn write_table(
    disk: &dyn Disk,
    uid: u64,
    memtable: Arc<Memtable>,
    block_bytes: usize,
) -> Option<TableRecord> {
    let everything = (i64::MIN, i64::MAX);
    let mut writer = Writer::create(disk, uid, memtable.keys(), 0, block_bytes).unwrap();
    for space in [Space::Kv, Space::Lease] {
        let mut versions = Versions::of_memtable(Arc::clone(&memtable), space, KeyRange::all(), everything);
        while let Some((key, version)) = versions.peek() {
            writer.add(space, key, version).unwrap();
            versions.advance().unwrap();
        }
    }
    if writer.is_empty() {
        writer.abort(disk);
        return None;
    }
    Some(writer.finish(Applied::default()).unwrap())
}

/// A view of `writes`, cut at `cuts` into tables (oldest first), a frozen memtable and an active one.
fn view(disk: &MemoryDisk, writes: &[Write], mut cuts: Vec<usize>, block_bytes: usize) -> View {
    cuts.sort_unstable();
    cuts.push(writes.len());
    let cache = new_cache(1 << 20);
    let (mut from, mut sources) = (0, Vec::new());
    for cut in cuts {
        let memtable = Memtable::default();
        memtable.apply(&writes[from..cut]);
        sources.push(Arc::new(memtable));
        from = cut;
    }
    let active = sources.pop().unwrap();
    let frozen = sources.pop();
    let mut tables: Vec<_> = (1..)
        .zip(sources)
        .filter_map(|(uid, memtable)| write_table(disk, uid, memtable, block_bytes))
        .map(|record| Arc::new(open(disk, record, &cache).unwrap()))
        .collect();
    tables.reverse();
    View { active, frozen, tables }
}

fn open(disk: &MemoryDisk, record: TableRecord, cache: &Arc<BlockCache>) -> Result<Table> {
    Table::open(disk, record, Arc::clone(cache))
}

fn model_at(model: &Model, range: &KeyRange, main: i64) -> Vec<(Bytes, Revision, Option<Value>)> {
    let newest = |versions: &[(Revision, Option<Value>)]| {
        versions.iter().rev().find(|(revision, _)| revision.main <= main).cloned()
    };
    model
        .iter()
        .filter(|(key, _)| range.contains(key))
        .filter_map(|(key, versions)| {
            newest(versions).map(|(revision, value)| (key.clone(), revision, value))
        })
        .filter(|(_, _, value)| value.is_some())
        .collect()
}

fn plain(metas: &[KeyMeta]) -> Vec<(Bytes, Revision, Option<Value>)> {
    metas.iter().map(|meta| (meta.key.clone(), meta.modified, meta.value.clone())).collect()
}

/// All of `range`, `limit` keys a call.
fn scan_all(view: &View, range: &KeyRange, main: i64, direction: Direction, limit: usize) -> Vec<KeyMeta> {
    let (mut all, mut rest): (Vec<KeyMeta>, _) = (Vec::new(), range.clone());
    loop {
        let before = all.len();
        view.scan(Space::Kv, &rest, main, direction, limit, &mut all).unwrap();
        assert!(all.len() - before <= limit);
        if all.len() - before < limit {
            return all;
        }
        rest = rest.after(&all.last().unwrap().key, direction);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_read_is_that_of_a_plain_map(
        changes in proptest::collection::vec((0u8..40, proptest::bool::weighted(0.3)), 1..500),
        hot in proptest::collection::vec((Just(1u8), proptest::bool::weighted(0.2)), 0..200),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..5),
        block_bytes in prop_oneof![Just(1usize), 100usize..2000],
        questions in proptest::collection::vec((0u8..45, proptest::option::of(0u8..45), 0usize..2000, 1usize..20), 6),
    ) {
        let changes = [changes, hot].concat();
        let (writes, model) = writes(&changes);
        let cuts = cuts.iter().map(|cut| cut.index(writes.len() + 1)).collect();
        let disk = MemoryDisk::new();
        // One revision may be cut in two here, which no freeze does; the order by time holds all the same.
        let view = view(&disk, &writes, cuts, block_bytes);
        for table in &view.tables {
            table.verify().unwrap();
        }
        let latest = writes.last().unwrap().revision.main;
        for (from, to, at, limit) in questions {
            let range = KeyRange { start: key(from), end: to.map(key) };
            let range = if from == 44 { KeyRange::all() } else { range };
            let main = at as i64 % (latest + 2);
            let mut want = model_at(&model, &range, main);
            prop_assert_eq!(view.count(Space::Kv, &range, main).unwrap(), want.len() as i64, "count at {}", main);
            prop_assert_eq!(view.count(Space::Lease, &range, main).unwrap(), 0);
            let forward = scan_all(&view, &range, main, Direction::Forward, limit);
            prop_assert_eq!(plain(&forward), want.clone(), "scan at {}", main);
            want.reverse();
            let backward = scan_all(&view, &range, main, Direction::Backward, limit);
            prop_assert_eq!(plain(&backward), want.clone(), "scan back at {}", main);
            for number in 0..40 {
                let want = want.iter().find(|found| found.0 == key(number));
                let got = view.get(Space::Kv, &key(number), main).unwrap();
                if range.contains(&key(number)) {
                    let got = plain(&got.into_iter().collect::<Vec<_>>());
                    prop_assert_eq!(got.first(), want);
                }
            }
            let oldest = main / 2;
            let history = view.history(Space::Kv, &range, (oldest, main), 0).unwrap();
            let mut want: Vec<_> = model.iter().filter(|(key, _)| range.contains(key))
                .flat_map(|(key, versions)| versions.iter().map(move |(revision, value)| (key.clone(), *revision, value.clone())))
                .filter(|(_, revision, _)| (oldest..=main).contains(&revision.main))
                .collect();
            want.sort_by_key(|(_, revision, _)| *revision);
            prop_assert_eq!(plain(&history), want);
        }
    }
}

#[test]
fn a_key_with_thousands_of_versions_between_others() {
    let mut changes = vec![(2, false), (4, false)];
    changes.extend((0..3000).map(|at| (1, at % 10 == 9)));
    changes.extend([(2, false), (4, true)]);
    let (writes, model) = writes(&changes);
    for block_bytes in [50, 5000] {
        let disk = MemoryDisk::new();
        let view = view(&disk, &writes, vec![1000, 2500, 3003, 3003], block_bytes);
        assert_eq!(view.tables.len(), 3);
        for main in [0, 1, 2, 3, 4, 500, 999, 1000, 1001, 2499, 2500, 2999, 3003, 3005] {
            let mut want = model_at(&model, &KeyRange::all(), main);
            assert_eq!(
                view.count(Space::Kv, &KeyRange::all(), main).unwrap(),
                want.len() as i64,
                "at {main}"
            );
            let got = scan_all(&view, &KeyRange::all(), main, Direction::Forward, 2);
            assert_eq!(plain(&got), want, "at {main}");
            want.reverse();
            let got = scan_all(&view, &KeyRange::all(), main, Direction::Backward, 2);
            assert_eq!(plain(&got), want, "backward at {main}");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_table_is_found_and_named() {
    let changes: Vec<_> = (0..60).map(|at| (at % 23, at % 11 == 10)).collect();
    let (mut writes, _) = writes(&changes);
    for write in writes.clone() {
        writes.push(Write { space: Space::Lease, ..write });
    }
    let disk = MemoryDisk::new();
    let memtable = Memtable::default();
    memtable.apply(&writes);
    let record = write_table(&disk, 9, Arc::new(memtable), 200).unwrap();
    let name = file_name(9);
    let read = |disk: &MemoryDisk| {
        let table = Arc::new(open(disk, record, &new_cache(1 << 20))?);
        table.verify()?;
        // And as readers read it.
        let view = View { active: Arc::default(), frozen: None, tables: vec![table] };
        view.history(Space::Kv, &KeyRange::all(), (0, 1000), 0)?;
        view.history(Space::Lease, &KeyRange::all(), (0, 1000), 0)
    };
    assert!(read(&disk).unwrap().len() > 50);
    let bytes = disk.file_bytes(&name).unwrap();
    for offset in 0..bytes.len() as u64 {
        disk.flip_bit(&name, offset, (offset % 8) as u8);
        match read(&disk) {
            Err(Error::Corrupt { file, offset: at, .. }) => {
                assert_eq!(file, name);
                assert!(at <= offset, "flipped {offset}, told {at}");
            }
            other => panic!("byte {offset} of {}: {other:?}", bytes.len()),
        }
        disk.flip_bit(&name, offset, (offset % 8) as u8);
    }
    for len in [0, 1, 19, 40, bytes.len() - 1] {
        disk.put_file(&name, bytes[..len].to_vec());
        assert!(matches!(read(&disk), Err(Error::Corrupt { .. })), "cut to {len}");
    }
    let mut other = bytes.clone();
    other[4] = 2;
    let crc = crc32fast::hash(&other[..16]).to_le_bytes();
    other[16..20].copy_from_slice(&crc);
    disk.put_file(&name, other);
    let error = read(&disk).unwrap_err();
    assert_eq!(error.to_string(), "00000009.tab has table format 2, this program reads format 1");
    disk.remove(&name).unwrap();
    assert!(matches!(read(&disk), Err(Error::Corrupt { file, .. }) if file == name), "a missing table");
}

proptest! {
    #[test]
    fn any_bytes_are_refused_as_a_table_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        headed in any::<bool>(),
    ) {
        let disk = MemoryDisk::new();
        let mut file = if headed { crate::table::footer::encode_header(3) } else { Vec::new() };
        file.extend_from_slice(&bytes);
        let trailer = &file[file.len().saturating_sub(20)..];
        let record = TableRecord { uid: 3, len: file.len() as u64, crc: crc32fast::hash(trailer) };
        disk.put_file(&file_name(3), file);
        prop_assert!(open(&disk, record, &new_cache(1 << 20)).is_err());
    }
}
