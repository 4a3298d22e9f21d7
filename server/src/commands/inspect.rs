//! `keelson inspect DIR`: what is in a data directory, from what a start reads of it.

use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use engine::check::Inventory;
use raft::Identity;
use serde_json::{Value, json};

use super::bytes;

/// Looks at the directory; gives what to print, and whether all of it could be read.
///
/// # Errors
/// [`engine::Error`] if it is no directory of a store, is in use, or its manifest is damaged.
pub(super) fn run(directory: &Path, json: bool) -> engine::Result<(String, bool)> {
    let disk = super::open(directory)?;
    let inventory = engine::check::inspect(&disk)?;
    let identity = Identity::load(&*disk).map_err(|error| error.to_string());
    let whole = inventory.damages.is_empty() && identity.is_ok();
    let text = if json { as_json(&inventory, &identity) } else { for_people(&inventory, &identity) };
    Ok((text, whole))
}

type Who = Result<Option<Identity>, String>;

fn for_people(inventory: &Inventory, identity: &Who) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail; as below.
    let _ = match identity {
        Ok(Some(who)) => writeln!(text, "member {:x} of cluster {:x}", who.member_id, who.cluster_id),
        Ok(None) => writeln!(text, "no IDENTITY: it is not told whose this is"),
        Err(reason) => writeln!(text, "damaged: {reason}"),
    };
    for damage in &inventory.damages {
        let _ = writeln!(text, "damaged: {damage}");
    }
    let _ = writeln!(
        text,
        "{}: tables hold revision {}, compacted at {}, next table {}",
        inventory.manifest, inventory.applied.revision, inventory.compacted, inventory.next_table
    );
    for (group, bounds) in &inventory.log.groups {
        let applied = inventory.applied.groups.get(group).copied().unwrap_or(0);
        let _ = writeln!(
            text,
            "group {group}: log up to entry {} of term {}, purged up to {}, in tables up to {applied}",
            bounds.last.1, bounds.last.0, bounds.purged.1
        );
    }
    let _ = writeln!(text, "\ntables, newest first");
    for table in &inventory.tables {
        let _ = writeln!(
            text,
            "  {} {:>10}  {} versions of {} keys, revisions {} to {}, {} to {}, values in {} segments",
            table.file,
            bytes(table.bytes),
            table.versions,
            table.keys,
            table.revisions.0,
            table.revisions.1,
            key(&table.keys_between.0),
            key(&table.keys_between.1),
            table.segments.len()
        );
    }
    let _ = writeln!(text, "\nsegments, oldest first");
    for segment in &inventory.log.segments {
        let _ = writeln!(
            text,
            "  {} {:>10}  uid {}, {} pointed to",
            segment.file,
            bytes(segment.used_bytes),
            segment.uid,
            bytes(pointed_to(inventory, segment.uid))
        );
    }
    for (file, len) in &inventory.log.free {
        let _ = writeln!(text, "  {file} {:>10}  free", bytes(*len));
    }
    for file in &inventory.others {
        let _ = writeln!(text, "  {file}  left over");
    }
    text
}

/// Bytes of values in a segment that tables point to.
fn pointed_to(inventory: &Inventory, uid: u32) -> u64 {
    let of_table = |table: &engine::check::TableContent| -> u64 {
        table.segments.iter().filter(|(segment, _)| *segment == uid).map(|(_, bytes)| bytes).sum()
    };
    inventory.tables.iter().map(of_table).sum()
}

/// A key for people: escaped, and not all of a long one.
fn key(key: &Bytes) -> String {
    let shown = &key[..key.len().min(48)];
    let dots = if shown.len() < key.len() { "..." } else { "" };
    format!("\"{}{dots}\"", shown.escape_ascii())
}

fn as_json(inventory: &Inventory, identity: &Who) -> String {
    let who = match identity {
        Ok(Some(who)) => json!({"cluster_id": who.cluster_id, "member_id": who.member_id}),
        Ok(None) => Value::Null,
        Err(reason) => json!({"damaged": reason}),
    };
    let state = inventory
        .state
        .as_ref()
        .map(|state| serde_json::from_slice(state).unwrap_or_else(|_| json!({"bytes": state.len()})));
    let damages: Vec<_> = inventory
        .damages
        .iter()
        .map(|damage| json!({"file": damage.file, "offset": damage.offset, "reason": damage.reason}))
        .collect();
    let value = json!({
        "identity": who,
        "manifest": inventory.manifest,
        "next_table": inventory.next_table,
        "compacted": inventory.compacted,
        "revision": inventory.applied.revision,
        "applied": inventory.applied.groups,
        "state": state,
        "tables": tables(inventory),
        "segments": segments(inventory),
        "free": inventory.log.free.iter().map(|(file, len)| json!({"file": file, "bytes": len})).collect::<Vec<_>>(),
        "groups": groups(inventory),
        "noted_frame": inventory.log.noted_seq,
        "left_over": inventory.others,
        "damages": damages,
    });
    format!("{value:#}\n")
}

fn tables(inventory: &Inventory) -> Vec<Value> {
    let one = |table: &engine::check::TableContent| {
        json!({
            "file": table.file,
            "uid": table.uid,
            "bytes": table.bytes,
            "keys": table.keys,
            "versions": table.versions,
            "weight": table.weight,
            "value_bytes": table.value_bytes,
            "revision_min": table.revisions.0,
            "revision_max": table.revisions.1,
            "compacted": table.compacted,
            "first_key": table.keys_between.0.escape_ascii().to_string(),
            "last_key": table.keys_between.1.escape_ascii().to_string(),
            "segments": table.segments.iter().map(|(uid, bytes)| json!({"uid": uid, "bytes": bytes})).collect::<Vec<_>>(),
            "applied": table.applied.groups,
        })
    };
    inventory.tables.iter().map(one).collect()
}

fn segments(inventory: &Inventory) -> Vec<Value> {
    let one = |segment: &engine::log::SegmentContent| {
        json!({
            "file": segment.file,
            "uid": segment.uid,
            "bytes": segment.file_bytes,
            "used_bytes": segment.used_bytes,
            "pointed_to_bytes": pointed_to(inventory, segment.uid),
        })
    };
    inventory.log.segments.iter().map(one).collect()
}

fn groups(inventory: &Inventory) -> Vec<Value> {
    let one = |(group, bounds): &(u32, engine::log::Bounds)| json!({"group": group, "term": bounds.last.0, "last": bounds.last.1, "purged": bounds.purged.1});
    inventory.log.groups.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_escaped_and_cut() {
        for (given, want) in [
            (Bytes::from_static(b"/a\0"), "\"/a\\x00\"".to_owned()),
            (Bytes::from(vec![b'x'; 60]), format!("\"{}...\"", "x".repeat(48))),
        ] {
            assert_eq!(key(&given), want);
        }
    }

    #[test]
    fn both_forms_tell_the_same_store() {
        let mut inventory = Inventory { manifest: "MANIFEST-00000003".to_owned(), ..Inventory::default() };
        inventory.applied.revision = 41;
        let who = Ok(Some(Identity::new(1, 0xab)));
        let text = for_people(&inventory, &who);
        assert!(
            text.starts_with("member ab of cluster 1\nMANIFEST-00000003: tables hold revision 41"),
            "{text}"
        );
        let value: Value = serde_json::from_str(&as_json(&inventory, &who)).unwrap();
        assert_eq!((&value["revision"], &value["identity"]["member_id"]), (&json!(41), &json!(0xab)));
    }
}
