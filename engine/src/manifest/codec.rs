//! The manifest's bytes: records, and the judgement of what is torn and what is rotten.

use bytes::{BufMut, Bytes};

use super::{Edit, corrupt};
use crate::batch::{put_varint, zigzag};
use crate::error::Error;
use crate::table::Applied;
use crate::table::fields::{Fields, Reason};
use crate::table::writer::TableRecord;

const HEADER_MAGIC: u32 = u32::from_le_bytes(*b"KMAN");
const EDIT_MAGIC: u32 = u32::from_le_bytes(*b"EDIT");
const SEAL_MAGIC: u32 = u32::from_le_bytes(*b"SEAL");
/// The format that this program writes and reads.
const FORMAT: u16 = 1;
const HEADER_LEN: usize = 20;
const EDIT_HEADER_LEN: usize = 24;
const SEAL_LEN: usize = 16;
const HAS_LOG: u8 = 1;
const HAS_BOUNDARY: u8 = 2;
const NAME_PREFIX: &str = "MANIFEST-";

/// What a manifest's file holds.
#[derive(Debug)]
pub(super) struct Content {
    /// The edits that count, in order; at least one.
    pub(super) edits: Vec<Edit>,
    /// Where the last of them, with its seal, ends.
    pub(super) end: u64,
    /// Length of header and first edit.
    pub(super) whole_len: u64,
    /// Whether the file ends with a sealed edit, so that it can be appended to.
    pub(super) complete: bool,
}

/// Name of manifest `number`.
pub(super) fn file_name(number: u64) -> String {
    format!("{NAME_PREFIX}{number:08}")
}

/// Number of the manifest that is named so.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(NAME_PREFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Whether a manifest can be named so.
pub(crate) fn is_file_name(name: &str) -> bool {
    number_of(name).is_some()
}

/// Content of `CURRENT` for manifest `number`.
pub(super) fn current_text(number: u64) -> String {
    let text = format!("keelson {}", file_name(number));
    let crc = crc32fast::hash(text.as_bytes());
    format!("{text} {crc:08x}\n")
}

/// The number of the manifest that `CURRENT` names.
pub(super) fn parse_current(bytes: &[u8]) -> Result<u64, Reason> {
    let name = std::str::from_utf8(bytes).ok().and_then(|text| text.split(' ').nth(1));
    let number = name.and_then(number_of).ok_or("does not name a manifest")?;
    if current_text(number).as_bytes() == bytes { Ok(number) } else { Err("fails its checksum") }
}

/// The header of manifest `number`.
pub(super) fn header(number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    bytes.put_u32_le(HEADER_MAGIC);
    bytes.put_u16_le(FORMAT);
    bytes.put_u16_le(0);
    bytes.put_u64_le(number);
    bytes.put_u32_le(crc32fast::hash(&bytes));
    bytes
}

/// An edit with its header.
pub(super) fn edit_record(seq: u64, edit: &Edit) -> Vec<u8> {
    let body = encode(edit);
    let mut bytes = Vec::with_capacity(EDIT_HEADER_LEN + body.len());
    bytes.put_u32_le(EDIT_MAGIC);
    bytes.put_u32_le(u32::try_from(body.len()).expect("an edit is far below 4 GiB"));
    bytes.put_u64_le(seq);
    bytes.put_u32_le(crc32fast::hash(&body));
    bytes.put_u32_le(crc32fast::hash(&bytes));
    bytes.extend_from_slice(&body);
    bytes
}

/// The seal of edit `seq`.
pub(super) fn seal(seq: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SEAL_LEN);
    bytes.put_u32_le(SEAL_MAGIC);
    bytes.put_u64_le(seq);
    bytes.put_u32_le(crc32fast::hash(&bytes));
    bytes
}

/// Reads a manifest's file.
///
/// # Errors
/// [`Error::Corrupt`] for what is not as it was written, [`Error::Refused`] for another format.
pub(super) fn read(name: &str, number: u64, bytes: &Bytes) -> Result<Content, Error> {
    let rotten = |at: usize, reason| corrupt(name, at as u64, reason);
    read_header(name, number, bytes)?;
    let mut content = Content { edits: Vec::new(), end: 0, whole_len: 0, complete: false };
    let mut at = HEADER_LEN;
    loop {
        let seq = content.edits.len() as u64 + 1;
        content.end = at as u64;
        let (edit, edit_end) = match read_edit(bytes, at, seq) {
            Ok(read) => read,
            // A manifest is not named before its first edit is durable.
            Err(reason) if seq == 1 => return Err(rotten(at, reason)),
            Err(reason) if has_record_after(bytes, at, seq) => return Err(rotten(at, reason)),
            Err(_) => {
                content.complete = at == bytes.len();
                return Ok(content);
            }
        };
        content.edits.push(edit);
        at = edit_end + SEAL_LEN;
        if bytes.get(edit_end..at) != Some(&seal(seq)) {
            if seq == 1 || has_record_after(bytes, edit_end, seq + 1) {
                return Err(rotten(edit_end, "seal fails its checksum"));
            }
            content.end = edit_end as u64;
            return Ok(content);
        }
        if seq == 1 {
            content.whole_len = at as u64;
        }
    }
}

fn read_header(name: &str, number: u64, bytes: &[u8]) -> Result<(), Error> {
    let check = || {
        let mut fields = Fields::new(bytes, 0);
        let covered = fields.take(HEADER_LEN - 4)?;
        if fields.u32()? != crc32fast::hash(covered) {
            return Err("header fails its checksum");
        }
        let mut fields = Fields::new(covered, 0);
        if fields.u32()? != HEADER_MAGIC {
            return Err("not a manifest");
        }
        let format = fields.u16()?;
        let (zero, found) = (fields.u16()?, fields.u64()?);
        if format == FORMAT && (zero != 0 || found != number) {
            return Err("the file of another manifest");
        }
        Ok(format)
    };
    let format = check().map_err(|reason| corrupt(name, 0, reason))?;
    if format == FORMAT {
        return Ok(());
    }
    Err(Error::Refused(format!("{name} has manifest format {format}, this program reads format {FORMAT}")))
}

fn read_edit(bytes: &Bytes, at: usize, seq: u64) -> Result<(Edit, usize), Reason> {
    let (len, body_crc) = read_edit_header(bytes, at, seq).ok_or("edit's header fails its checksum")?;
    let from = at + EDIT_HEADER_LEN;
    let to = from.checked_add(len).filter(|to| *to <= bytes.len()).ok_or("edit beyond the end")?;
    let body = bytes.slice(from..to);
    if crc32fast::hash(&body) != body_crc {
        return Err("edit fails its checksum");
    }
    Ok((decode(&body)?, to))
}

/// Length and checksum of the edit that begins at `at`, if its header is whole and of an edit `seq`.
fn read_edit_header(bytes: &[u8], at: usize, seq: u64) -> Option<(usize, u32)> {
    let header = bytes.get(at..at + EDIT_HEADER_LEN)?;
    let (covered, crc) = header.split_at(EDIT_HEADER_LEN - 4);
    if crc != crc32fast::hash(covered).to_le_bytes() {
        return None;
    }
    let mut fields = Fields::new(covered, 0);
    let (magic, len) = (fields.u32().ok()?, fields.u32().ok()?);
    let (found, body_crc) = (fields.u64().ok()?, fields.u32().ok()?);
    (magic == EDIT_MAGIC && found == seq).then_some((len as usize, body_crc))
}

/// Whether behind `at` stands the seal of edit `seq`, or a seal or an edit that is later: then what is bad
/// at `at` was durable once.
fn has_record_after(bytes: &[u8], at: usize, seq: u64) -> bool {
    let later = |found: &[u8]| u64::from_le_bytes(found.try_into().expect("8 bytes")) >= seq;
    (at..bytes.len().saturating_sub(SEAL_LEN - 1)).any(|at| {
        let magic = &bytes[at..at + 4];
        if magic == SEAL_MAGIC.to_le_bytes() {
            let found = &bytes[at + 4..at + 12];
            return later(found)
                && bytes[at..at + SEAL_LEN] == seal(u64::from_le_bytes(found.try_into().expect("8 bytes")));
        }
        magic == EDIT_MAGIC.to_le_bytes()
            && bytes.get(at + 8..at + 16).is_some_and(|found| {
                let found = u64::from_le_bytes(found.try_into().expect("8 bytes"));
                found > seq && read_edit_header(bytes, at, found).is_some()
            })
    })
}

fn encode(edit: &Edit) -> Vec<u8> {
    let mut bytes = Vec::new();
    let log = if edit.log.is_some() { HAS_LOG } else { 0 };
    let boundary = if edit.boundary.is_some() { HAS_BOUNDARY } else { 0 };
    bytes.put_u8(log | boundary);
    put_varint(&mut bytes, edit.next_uid);
    put_varint(&mut bytes, zigzag(edit.compacted));
    put_varint(&mut bytes, edit.removed.len() as u64);
    for uid in &edit.removed {
        put_varint(&mut bytes, *uid);
    }
    put_varint(&mut bytes, edit.added.len() as u64);
    for table in &edit.added {
        put_varint(&mut bytes, table.uid);
        put_varint(&mut bytes, table.len);
        bytes.put_u32_le(table.crc);
    }
    if let Some(log) = &edit.log {
        put_varint(&mut bytes, log.len() as u64);
        bytes.put_slice(log);
    }
    if let Some((applied, state)) = &edit.boundary {
        applied.encode(&mut bytes);
        put_varint(&mut bytes, state.len() as u64);
        bytes.put_slice(state);
    }
    bytes
}

fn decode(body: &Bytes) -> Result<Edit, Reason> {
    let mut fields = Fields::new(body, 0);
    let flags = fields.u8()?;
    if flags > HAS_LOG | HAS_BOUNDARY {
        return Err("unknown flags of an edit");
    }
    let mut edit = Edit { next_uid: fields.varint()?, compacted: fields.zigzag()?, ..Edit::default() };
    for _ in 0..fields.length()? {
        edit.removed.push(fields.varint()?);
    }
    for _ in 0..fields.length()? {
        edit.added.push(TableRecord { uid: fields.varint()?, len: fields.varint()?, crc: fields.u32()? });
    }
    if flags & HAS_LOG != 0 {
        edit.log = Some(fields.shared_string(body)?);
    }
    if flags & HAS_BOUNDARY != 0 {
        edit.boundary = Some((Applied::decode(&mut fields)?, fields.shared_string(body)?));
    }
    fields.end()?;
    Ok(edit)
}
