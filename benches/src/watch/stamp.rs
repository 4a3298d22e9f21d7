//! Values that say when they were sent.
//!
//! LAYOUT (little-endian): | "KSTAMP\0\0" | nanoseconds since the run began u64 | random bytes |

use bytes::{BufMut, Bytes, BytesMut};

const MAGIC: &[u8; 8] = b"KSTAMP\0\0";
/// Bytes at the beginning of a value that the stamp takes.
pub(crate) const STAMP_BYTES: usize = MAGIC.len() + 8;

/// `value` with its first bytes replaced by a stamp of `nanos`.
pub(crate) fn stamped(value: &[u8], nanos: u64) -> Bytes {
    assert!(value.len() >= STAMP_BYTES, "a value of {} bytes has no room for a stamp", value.len());
    let mut out = BytesMut::with_capacity(value.len());
    out.put_slice(MAGIC);
    out.put_u64_le(nanos);
    out.put_slice(&value[STAMP_BYTES..]);
    out.freeze()
}

/// The nanoseconds of a stamp; `None` if the value carries none.
pub(crate) fn sent_nanos(value: &[u8]) -> Option<u64> {
    let nanos = value.strip_prefix(MAGIC)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_and_the_size_stays() {
        let value = stamped(&[7; 40], 123_456_789);
        assert_eq!((value.len(), sent_nanos(&value)), (40, Some(123_456_789)));
        for (foreign, why) in
            [(&b""[..], "a delete"), (b"KSTAMP\0\0short", "cut off"), (&[7; 40], "somebody else's")]
        {
            assert_eq!(sent_nanos(foreign), None, "{why}");
        }
    }
}
