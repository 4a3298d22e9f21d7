//! The nouns shared by log, tables and reads.

use bytes::Bytes;

/// A position in the history: transaction `main`, and the place `sub` of the change within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision {
    /// etcd's revision: +1 for each transaction that changes something.
    pub main: i64,
    /// Position of the change within its transaction, from 0.
    pub sub: u32,
}

/// Keyspaces of one engine. They share log and tables and never meet in a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// Users' keys.
    Kv = 1,
    /// `(lease id, key)`: which keys a lease holds. Key: 8 bytes big-endian id, then the user's key.
    Lease = 2,
}

/// Where a value lies in the log, and what it must hash to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// Segment uid: local to this node, new at each use or reuse of a segment's file.
    pub segment: u32,
    /// Offset of the value's first byte in the segment's file.
    pub offset: u32,
    /// Length of the value, bytes.
    pub len: u32,
    /// CRC-32 of the value.
    pub crc: u32,
}

/// A value as the index holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// At most [`Value::INLINE_MAX`] bytes, stored in the index itself.
    Inline(Bytes),
    /// Stored in the log.
    Pointer(Pointer),
}

impl Value {
    /// Longest value that the index stores itself, bytes.
    pub const INLINE_MAX: usize = 64;

    /// Length of the value, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Value::Inline(bytes) => bytes.len(),
            Value::Pointer(pointer) => pointer.len as usize,
        }
    }

    /// Whether the value is empty; an empty value is not an absent one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
