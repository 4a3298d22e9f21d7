//! Keys and values of the benches: 60 bytes and 1 KiB, as in all figures of this project.

use bytes::Bytes;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 60;
/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 1024;

/// Key number `number`; numbers and keys have the same order.
pub(crate) fn key(number: u64) -> Bytes {
    let prefix = "/registry/pods/";
    format!("{prefix}{number:0width$}", width = KEY_BYTES - prefix.len()).into()
}

/// A value that no compressor makes smaller and that differs by `number`.
pub(crate) fn value(number: u64) -> Bytes {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..VALUE_BYTES / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect::<Vec<u8>>().into()
}
