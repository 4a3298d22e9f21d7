//! A part of a keyspace, and the order to walk it in.

use bytes::{BufMut, Bytes, BytesMut};

/// Keys `k` with `start <= k`, and `k < end` if there is an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key of the range.
    pub start: Bytes,
    /// First key after the range; `None`: to the end of the space.
    pub end: Option<Bytes>,
}

/// The order in which a scan gives the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

impl KeyRange {
    /// The range of one key.
    #[must_use]
    pub fn single(key: &[u8]) -> Self {
        KeyRange { start: Bytes::copy_from_slice(key), end: Some(successor(key)) }
    }

    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        KeyRange { start: Bytes::new(), end: None }
    }

    /// Whether `key` is in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start <= key && !self.is_past(key)
    }

    /// Whether no key can be in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// What remains of the range after `last` was seen by a scan in `direction`.
    #[must_use]
    pub fn after(&self, last: &[u8], direction: Direction) -> Self {
        match direction {
            Direction::Forward => KeyRange { start: successor(last), end: self.end.clone() },
            Direction::Backward => {
                KeyRange { start: self.start.clone(), end: Some(Bytes::copy_from_slice(last)) }
            }
        }
    }

    /// Whether `key` lies behind the end.
    pub(crate) fn is_past(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| key >= &end[..])
    }
}

/// The smallest key above `key`.
fn successor(key: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(key.len() + 1);
    bytes.put_slice(key);
    bytes.put_u8(0);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_half_open() {
        let ab = KeyRange { start: Bytes::from_static(b"a"), end: Some(Bytes::from_static(b"b")) };
        for (range, key, want, why) in [
            (&ab, &b"a"[..], true, "the start belongs to it"),
            (&ab, b"a\xff", true, "between"),
            (&ab, b"b", false, "the end does not"),
            (&ab, b"", false, "before the start"),
            (&KeyRange::single(b"a"), b"a\0", false, "the next possible key"),
            (&KeyRange::all(), b"\xff\xff", true, "no end"),
            (&ab.after(b"a", Direction::Forward), b"a", false, "seen already"),
            (&ab.after(b"a", Direction::Forward), b"a\0", true, "the next possible key is not seen"),
            (&ab.after(b"aa", Direction::Backward), b"aa", false, "seen already"),
        ] {
            assert_eq!(range.contains(key), want, "{why}");
        }
        assert!(ab.after(b"a", Direction::Backward).is_empty());
    }
}
