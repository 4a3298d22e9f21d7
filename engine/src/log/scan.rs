//! Reading a segment frame by frame, and looking for proof that something is missing.

use super::format::{
    FOOTER, FRAME_HEADER, FRAME_MAGIC, FrameHeader, FramedRecord, HEADER_PAGE, MARK, SegmentHeader,
    align_frame, frame_records,
};
use super::pool::PoolFile;
use super::window::Window;
use crate::error::{Error, Result};

/// Bytes read at once.
const STEP: usize = 1 << 20;

/// Where the frames of a segment end.
#[derive(Debug)]
pub(super) struct Scanned {
    /// Where the next frame goes, or the first bad one stands.
    pub(super) end: u64,
    /// Seq of that frame.
    pub(super) next_seq: u64,
    /// Offset and end of the last good frame.
    pub(super) last: Option<(u64, u64)>,
    /// Whether a mark stands at `end`: all frames are durable.
    pub(super) marked: bool,
    /// Whether a footer stands at `end`.
    pub(super) footer: bool,
}

/// Hands the records of all good frames to `visit`, in order, with their frame's seq; stops at the first
/// frame that is not there, or not whole.
pub(super) fn frames(
    place: &PoolFile,
    header: &SegmentHeader,
    visit: impl FnMut(u64, &FramedRecord<'_>),
) -> Result<Scanned> {
    frames_from(place, header, (HEADER_PAGE, header.first_seq), u64::MAX, visit)
}

/// As [`frames`], from the frame that should stand at `from`; stops as well once it is at or behind `limit`.
pub(super) fn frames_from(
    place: &PoolFile,
    header: &SegmentHeader,
    (from, seq): (u64, u64),
    limit: u64,
    mut visit: impl FnMut(u64, &FramedRecord<'_>),
) -> Result<Scanned> {
    let mut window = window(place);
    let mut scanned = Scanned { end: from, next_seq: seq, last: None, marked: false, footer: false };
    while scanned.end < limit {
        let at = scanned.end;
        let bytes = read(place, &mut window, at, FRAME_HEADER)?;
        let found = bytes.and_then(FrameHeader::decode);
        let Some(frame) = found.filter(|frame| frame.belongs(header.uid, header.incarnation, at)) else {
            break;
        };
        if frame.flags != 0 {
            let right = frame.synced_seq == scanned.next_seq - 1;
            scanned.marked = right && frame.flags == MARK;
            scanned.footer = right && frame.flags == FOOTER;
            break;
        }
        let bytes = read(place, &mut window, at + FRAME_HEADER as u64, frame.len as usize)?;
        if frame.seq != scanned.next_seq {
            break;
        }
        let Some(records) = bytes.and_then(|bytes| frame_records(&frame, bytes)) else { break };
        for record in &records {
            visit(frame.seq, record);
        }
        let end = at + FRAME_HEADER as u64 + u64::from(frame.len);
        scanned.last = Some((at, end));
        scanned.next_seq += 1;
        scanned.end = align_frame(end);
    }
    Ok(scanned)
}

/// Whether the segment's first frame is there and whole.
pub(super) fn has_first_frame(place: &PoolFile, header: &SegmentHeader) -> Result<bool> {
    let mut window = window(place);
    let frame = read(place, &mut window, HEADER_PAGE, FRAME_HEADER)?.and_then(FrameHeader::decode);
    let Some(frame) = frame.filter(|it| it.belongs(header.uid, header.incarnation, HEADER_PAGE)) else {
        return Ok(false);
    };
    let bytes = read(place, &mut window, HEADER_PAGE + FRAME_HEADER as u64, frame.len as usize)?;
    let whole = bytes.is_some_and(|bytes| frame_records(&frame, bytes).is_some());
    Ok(whole && frame.flags == 0 && frame.seq == header.first_seq)
}

/// The footer at `offset`, if a whole one is there: its header and bytes.
pub(super) fn footer(
    place: &PoolFile,
    header: &SegmentHeader,
    offset: u64,
) -> Result<Option<(FrameHeader, Vec<u8>)>> {
    let mut window = window(place);
    let frame = read(place, &mut window, offset, FRAME_HEADER)?.and_then(FrameHeader::decode);
    let belongs =
        |frame: &FrameHeader| frame.flags == FOOTER && frame.belongs(header.uid, header.incarnation, offset);
    let Some(frame) = frame.filter(belongs) else { return Ok(None) };
    let bytes = read(place, &mut window, offset + FRAME_HEADER as u64, frame.len as usize)?;
    let whole = bytes.filter(|bytes| crc32fast::hash(bytes) == frame.records_crc);
    Ok(whole.map(|bytes| (frame, bytes.to_vec())))
}

/// Whether anything at or after `from` in this use of the segment says that frame `seq` was durable.
///
/// Frames may stand anywhere, as the length of the bad one is not known; bytes in a body that look like
/// frames of this segment are older than `seq`, so they prove nothing.
pub(super) fn proves_durable(place: &PoolFile, identity: (u32, u64), from: u64, seq: u64) -> Result<bool> {
    Ok(find(place, identity, from, |frame| frame.synced_seq >= seq)?.is_some())
}

/// The first header of a frame at or after `from`, in this use of the segment, that is `wanted`.
pub(super) fn find(
    place: &PoolFile,
    (uid, incarnation): (u32, u64),
    from: u64,
    wanted: impl Fn(&FrameHeader) -> bool,
) -> Result<Option<FrameHeader>> {
    let mut window = window(place);
    let mut at = align_frame(from);
    while at + FRAME_HEADER as u64 <= place.len {
        let len = (place.len - at).min(STEP as u64) / FRAME_HEADER as u64 * FRAME_HEADER as u64;
        let bytes = read(place, &mut window, at, len as usize)?.unwrap_or_default();
        for (number, header) in bytes.chunks_exact(FRAME_HEADER).enumerate() {
            if header[..4] != FRAME_MAGIC.to_le_bytes() {
                continue;
            }
            let offset = at + (number * FRAME_HEADER) as u64;
            let frame = FrameHeader::decode(header).filter(|frame| frame.belongs(uid, incarnation, offset));
            if let Some(frame) = frame.filter(&wanted) {
                return Ok(Some(frame));
            }
        }
        at += len;
    }
    Ok(None)
}

fn window(place: &PoolFile) -> Window<'_> {
    Window::new(place.file.as_ref(), place.len, STEP, STEP)
}

fn read<'w>(place: &PoolFile, window: &'w mut Window<'_>, at: u64, len: usize) -> Result<Option<&'w [u8]>> {
    window.get(at, len).map_err(|error| Error::io(&place.name, &error))
}
