use super::*;
use crate::disk::MemoryDisk;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn record(uid: u64) -> TableRecord {
    TableRecord { uid, len: 1000 + uid, crc: 7 }
}

fn edit(uid: u64) -> Edit {
    let applied = Applied { revision: uid.cast_signed(), groups: BTreeMap::from([(0, uid), (5, 2 * uid)]) };
    Edit {
        removed: if uid > 2 { vec![uid - 1] } else { Vec::new() },
        added: vec![record(uid)],
        next_uid: uid + 1,
        compacted: uid.cast_signed() / 2,
        log: Some(Bytes::from(vec![uid as u8; 40])),
        boundary: uid.is_multiple_of(2).then(|| (applied, Bytes::from(vec![1; 700]))),
    }
}

fn reopen(disk: &MemoryDisk) -> Result<Option<Manifest>> {
    Manifest::open(Arc::new(disk.clone()), &disk.list().unwrap())
}

fn created(edits: u64) -> (MemoryDisk, Manifest) {
    let disk = MemoryDisk::new();
    let mut manifest = Manifest::create(Arc::new(disk.clone()), &[]).unwrap();
    for uid in 1..=edits {
        manifest.commit(&edit(uid)).unwrap();
    }
    (disk, manifest)
}

#[test]
fn edits_come_back_in_their_places() {
    let disk = MemoryDisk::new();
    assert!(reopen(&disk).unwrap().is_none(), "an empty directory holds no store");
    let mut manifest = Manifest::create(Arc::new(disk.clone()), &[]).unwrap();
    for (removed, added, want, why) in [
        (&[][..], &[1][..], &[1][..], "a flush"),
        (&[], &[2], &[2, 1], "a newer one comes first"),
        (&[], &[3], &[3, 2, 1], "and again"),
        (&[1, 2], &[4], &[3, 4], "a merge takes the place of what it merged"),
        (&[4], &[], &[3], "a merge may leave nothing"),
    ] {
        let added = added.iter().map(|uid| record(*uid)).collect();
        manifest.commit(&Edit { removed: removed.to_vec(), added, ..Edit::default() }).unwrap();
        for manifest in [&manifest, &reopen(&disk).unwrap().unwrap()] {
            let uids: Vec<_> = manifest.state().tables.iter().map(|table| table.uid).collect();
            assert_eq!(uids, want, "{why}");
            assert!(manifest.is_settled());
        }
    }
}

#[test]
fn it_is_written_anew_when_it_is_long() {
    let (disk, mut manifest) = created(0);
    let first = manifest.name();
    for uid in 1..=40 {
        let boundary = Some((Applied::default(), Bytes::from(vec![uid as u8; 200_000])));
        manifest.commit(&Edit { boundary, ..edit(uid) }).unwrap();
        assert_eq!(reopen(&disk).unwrap().unwrap().state(), manifest.state());
    }
    assert_ne!(manifest.name(), first);
    let manifests = disk.list().unwrap().iter().filter(|name| is_file_name(name)).count();
    assert_eq!(manifests, 1, "the old one is gone");
    assert!(disk.file_bytes(&manifest.name()).unwrap().len() < 6 << 20);
}

#[test]
fn every_flipped_bit_is_found_or_changes_nothing() {
    let (disk, manifest) = created(4);
    let want = manifest.state().clone();
    let mut unnoticed = 0;
    for name in [CURRENT.to_owned(), manifest.name()] {
        let len = disk.file_bytes(&name).unwrap().len();
        for offset in 0..len as u64 {
            let damaged = disk.crash(0);
            damaged.flip_bit(&name, offset, (offset % 8) as u8);
            match reopen(&damaged) {
                Err(Error::Corrupt { file, .. }) => assert!(file == name || name == CURRENT, "{file}"),
                Err(other) => panic!("byte {offset} of {name}: {other}"),
                Ok(opened) => {
                    unnoticed += 1;
                    assert_eq!(opened.unwrap().state(), &want, "byte {offset} of {name}");
                }
            }
        }
    }
    assert_eq!(unnoticed, 16, "only the seal of the last edit may be damaged unnoticed: its edit is whole");
}

#[test]
fn a_torn_edit_is_dropped_and_never_appended_to() {
    let (disk, manifest) = created(3);
    let (name, before) = (manifest.name(), manifest.state().clone());
    let whole = disk.file_bytes(&name).unwrap();
    let record = edit_record(5, &edit(4));
    for cut in 0..record.len() {
        let mut bytes = whole.clone();
        bytes.extend_from_slice(&record[..cut]);
        let torn = disk.crash(0);
        torn.put_file(&name, bytes);
        let mut manifest = reopen(&torn).unwrap().unwrap();
        assert_eq!(manifest.state(), &before, "cut at {cut}");
        assert_eq!(manifest.is_settled(), cut == 0);
        manifest.commit(&edit(9)).unwrap();
        assert_eq!(manifest.name() == name, cut == 0, "a torn file is left behind");
        assert_eq!(reopen(&torn).unwrap().unwrap().state(), manifest.state());
    }
}

#[test]
fn another_format_is_refused_by_name() {
    let (disk, manifest) = created(1);
    let mut bytes = disk.file_bytes(&manifest.name()).unwrap();
    bytes[4] = 2;
    let crc = crc32fast::hash(&bytes[..16]).to_le_bytes();
    bytes[16..20].copy_from_slice(&crc);
    disk.put_file(&manifest.name(), bytes);
    let error = reopen(&disk).unwrap_err();
    assert_eq!(error.to_string(), "MANIFEST-00000001 has manifest format 2, this program reads format 1");
}

#[test]
fn a_failed_write_leaves_the_state_and_the_next_edit_mends_the_file() {
    for (what, why) in [(0, "no space"), (1, "sync of the edit fails"), (2, "write fails")] {
        let (disk, mut manifest) = created(3);
        let before = manifest.state().clone();
        match what {
            0 => disk.set_free_bytes(Some(30)),
            1 => disk.fail_next_sync(),
            _ => disk.fail_writes(true),
        }
        let error = manifest.commit(&edit(4)).unwrap_err();
        assert_eq!(matches!(error, Error::Full(_)), what == 0, "{why}: {error}");
        assert_eq!(manifest.state(), &before, "{why}");
        assert!(!manifest.is_settled(), "{why}");
        disk.set_free_bytes(None);
        disk.fail_writes(false);
        manifest.commit(&edit(5)).unwrap();
        assert!(manifest.is_settled(), "{why}");
        assert_eq!(reopen(&disk).unwrap().unwrap().state(), manifest.state(), "{why}");
        assert!(manifest.state().tables.iter().all(|table| table.uid != 4), "{why}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_power_cut_loses_no_committed_edit(edits in 1u64..6, fail_at in 0u64..6, seed in any::<u64>()) {
        let disk = MemoryDisk::new();
        let mut manifest = Manifest::create(Arc::new(disk.clone()), &[]).unwrap();
        let mut allowed = vec![manifest.state().clone()];
        for uid in 1..=edits {
            if uid == fail_at {
                disk.fail_next_sync();
            }
            let mut after = manifest.state().clone();
            after.apply(&edit(uid));
            match manifest.commit(&edit(uid)) {
                Ok(()) => allowed = vec![after],
                // In doubt: either may be found.
                Err(_) => allowed.push(after),
            }
            let crashed = disk.crash(seed ^ uid);
            let mut opened = reopen(&crashed).unwrap().unwrap();
            prop_assert!(allowed.contains(opened.state()));
            let state = opened.state().clone();
            opened.settle().unwrap();
            let again = crashed.crash(seed);
            let found = reopen(&again).unwrap().unwrap();
            prop_assert_eq!(found.state(), &state);
        }
    }

    #[test]
    fn any_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), seq in 0u64..3) {
        let disk = MemoryDisk::new();
        disk.put_file(CURRENT, bytes.clone());
        prop_assert!(reopen(&disk).is_err());
        let mut framed = header(1);
        framed.extend_from_slice(&bytes);
        framed.extend_from_slice(&seal(seq));
        disk.put_file(CURRENT, current_text(1).into_bytes());
        disk.put_file(&file_name(1), framed);
        prop_assert!(reopen(&disk).is_err());
    }
}
