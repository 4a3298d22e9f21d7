//! What an entry of the log says: a batch of transactions, each a list of effects.
//!
//! An entry carries effects, not requests: a replica applies them without reading. A batch is encoded
//! once by whoever evaluates, travels as those bytes, lies in the log as those bytes, and the values in it
//! are never copied again: the index points into them.
//!
//! LAYOUT of a batch (little-endian; `varint` is LEB128, `zigzag` a varint of the zig-zag form)
//! ```text
//! | kind u8 = 2 | fence_term u64 | fence_gen u32 | seq u64 | s0_seen u64 | lease_time_ms u64 | n_items u32 |
//! | n_ops varint, >= 1 | op ... |                                                    item: a transaction
//! | 0 u8 | len varint | bytes |                                                      item: a note
//! op: | flags u8 | key_len varint | key | old_lease zigzag |                                   both kinds
//!     | create zigzag | version varint | lease zigzag | value_len varint | value_crc u32 | value |   put only
//! flags: bit 0 tombstone, bit 1 creates the key (weight +1; create is this revision and stored as 0)
//! ```
//! Each transaction is one revision and has at least one op; `sub` of an op is its position in it. A note is
//! a change of replicated state that is not a key (a lease, a compaction); its bytes belong to the layer above.
//! Items take effect in order. The first byte tells a batch from what else an entry of the log may hold.
//! The decoder takes any bytes without panicking: what does not decode is [`Malformed`].

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes of the header of a batch.
pub const HEADER_LEN: usize = 41;

/// First byte of every batch.
pub const KIND_BATCH: u8 = 2;

/// The bytes do not decode as a batch; the caller knows which file and offset they came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed batch: {0}")]
pub struct Malformed(pub &'static str);

/// What orders a batch: see the fence rule in docs/revisions.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Raft term of the fence under which the batch was evaluated.
    pub fence_term: u64,
    /// Generation of that fence within its term.
    pub fence_gen: u32,
    /// Number of the batch after its fence; applied only if it is the last applied one + 1.
    pub seq: u64,
    /// Index of the home group that the evaluator had applied.
    pub s0_seen: u64,
    /// Lease time of the leader when it proposed, milliseconds; it never goes back.
    pub lease_time_ms: u64,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// The user's key.
    pub key: Bytes,
    /// Lease that held the key before this change, 0 for none: its attachment ends.
    pub old_lease: i64,
    /// What becomes of the key.
    pub change: Change,
}

/// What an [`Op`] does to its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key ends; weight −1.
    Delete,
    /// The key gets a value.
    Put {
        /// Revision that created the key; `None` if it is this one (weight +1).
        create: Option<i64>,
        /// etcd's version: 1 at creation, +1 with each put.
        version: i64,
        /// Lease that holds the key from now on, 0 for none.
        lease: i64,
        /// The value.
        value: Bytes,
        /// CRC-32 of the value.
        value_crc: u32,
        /// Offset of the value in the batch's bytes; filled by the decoder, ignored by the encoder.
        value_at: u32,
    },
}

impl Change {
    /// What the change adds to the number of keys: +1 create, 0 update, −1 delete.
    #[must_use]
    pub fn weight(&self) -> i8 {
        match self {
            Change::Delete => -1,
            Change::Put { create: None, .. } => 1,
            Change::Put { .. } => 0,
        }
    }
}

/// What [`Decoder::next_item`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A transaction; its ops are in the caller's list.
    Txn,
    /// Bytes of the layer above.
    Note(Bytes),
}

/// Writes a batch, item by item.
#[derive(Debug)]
pub struct Encoder {
    buffer: BytesMut,
    items: u32,
}

impl Encoder {
    /// An encoder with room for `capacity` bytes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(capacity.max(HEADER_LEN));
        buffer.put_bytes(0, HEADER_LEN);
        Encoder { buffer, items: 0 }
    }

    /// Bytes written so far, with the header.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether no item was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Appends one note.
    pub fn note(&mut self, bytes: &[u8]) {
        self.items += 1;
        self.buffer.put_u8(0);
        put_varint(&mut self.buffer, bytes.len() as u64);
        self.buffer.put_slice(bytes);
    }

    /// Appends one transaction.
    ///
    /// # Panics
    /// If `ops` is empty: what changes nothing is not logged.
    pub fn txn(&mut self, ops: &[Op]) {
        assert!(!ops.is_empty(), "a logged transaction changes something");
        self.items += 1;
        put_varint(&mut self.buffer, ops.len() as u64);
        for op in ops {
            self.op(op);
        }
    }

    fn op(&mut self, op: &Op) {
        let buffer = &mut self.buffer;
        let (tombstone, creates) = match &op.change {
            Change::Delete => (1, 0),
            Change::Put { create, .. } => (0, u8::from(create.is_none()) << 1),
        };
        buffer.put_u8(tombstone | creates);
        put_varint(buffer, op.key.len() as u64);
        buffer.put_slice(&op.key);
        put_varint(buffer, zigzag(op.old_lease));
        if let Change::Put { create, version, lease, value, value_crc, .. } = &op.change {
            put_varint(buffer, zigzag(create.unwrap_or(0)));
            put_varint(buffer, version.cast_unsigned());
            put_varint(buffer, zigzag(*lease));
            put_varint(buffer, value.len() as u64);
            buffer.put_u32_le(*value_crc);
            buffer.put_slice(value);
        }
    }

    /// Ends the batch.
    #[must_use]
    pub fn finish(mut self, header: &Header) -> Bytes {
        let mut head = &mut self.buffer[..HEADER_LEN];
        head.put_u8(KIND_BATCH);
        head.put_u64_le(header.fence_term);
        head.put_u32_le(header.fence_gen);
        head.put_u64_le(header.seq);
        head.put_u64_le(header.s0_seen);
        head.put_u64_le(header.lease_time_ms);
        head.put_u32_le(self.items);
        self.buffer.freeze()
    }
}

/// Reads a batch; keys and values are slices of its bytes, not copies.
#[derive(Debug, Clone)]
pub struct Decoder {
    bytes: Bytes,
    at: usize,
    header: Header,
    items_left: u32,
}

impl Decoder {
    /// Starts reading `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] if there is no whole header.
    pub fn new(bytes: Bytes) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed("shorter than its header"));
        }
        if bytes[0] != KIND_BATCH {
            return Err(Malformed("not a batch"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let header = Header {
            fence_term: u64_at(1),
            fence_gen: u32_at(9),
            seq: u64_at(13),
            s0_seen: u64_at(21),
            lease_time_ms: u64_at(29),
        };
        let items_left = u32_at(37);
        Ok(Decoder { bytes, at: HEADER_LEN, header, items_left })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Reads the next item; `None` at the end. The ops of a transaction replace what `ops` held.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes end early, are left over, or a field is out of range.
    pub fn next_item(&mut self, ops: &mut Vec<Op>) -> Result<Option<Item>, Malformed> {
        ops.clear();
        if self.items_left == 0 {
            return if self.at == self.bytes.len() {
                Ok(None)
            } else {
                Err(Malformed("bytes after the last item"))
            };
        }
        self.items_left -= 1;
        let n_ops = self.varint()?;
        if n_ops == 0 {
            let len = self.length()?;
            return Ok(Some(Item::Note(self.take(len)?)));
        }
        for _ in 0..n_ops {
            ops.push(self.op()?);
        }
        Ok(Some(Item::Txn))
    }

    fn op(&mut self) -> Result<Op, Malformed> {
        let flags = self.take(1)?[0];
        if flags > 2 {
            return Err(Malformed("unknown op flags"));
        }
        let key_len = self.length()?;
        let key = self.take(key_len)?;
        let old_lease = unzigzag(self.varint()?);
        if flags == 1 {
            return Ok(Op { key, old_lease, change: Change::Delete });
        }
        let create = unzigzag(self.varint()?);
        let version = self.varint()?.cast_signed();
        let lease = unzigzag(self.varint()?);
        let value_len = self.length()?;
        let value_crc = u32::from_le_bytes(self.take(4)?[..].try_into().expect("4 bytes"));
        let value_at = u32::try_from(self.at).map_err(|_| Malformed("batch of 4 GiB and more"))?;
        let value = self.take(value_len)?;
        let create = if flags == 2 { None } else { Some(create) };
        Ok(Op { key, old_lease, change: Change::Put { create, version, lease, value, value_crc, value_at } })
    }

    fn take(&mut self, len: usize) -> Result<Bytes, Malformed> {
        if self.bytes.len() - self.at < len {
            return Err(Malformed("ends in the middle of a field"));
        }
        let taken = self.bytes.slice(self.at..self.at + len);
        self.at += len;
        Ok(taken)
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed("length out of range"))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(Malformed("ends in the middle of a number"));
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed("number out of range"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed("number too long"))
    }
}

/// Appends `value` as LEB128.
pub fn put_varint(buffer: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        buffer.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    buffer.put_u8(value as u8);
}

/// Maps small negative numbers to small unsigned ones.
#[must_use]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The inverse of [`zigzag`].
#[must_use]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn op() -> impl Strategy<Value = Op> {
        let bytes = |max| proptest::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from);
        let put = (proptest::option::of(1i64..), 1i64.., any::<i64>(), bytes(200)).prop_map(
            |(create, version, lease, value)| {
                let value_crc = crc32fast::hash(&value);
                Change::Put { create, version, lease, value, value_crc, value_at: 0 }
            },
        );
        (bytes(40), any::<i64>(), prop_oneof![Just(Change::Delete), put])
            .prop_map(|(key, old_lease, change)| Op { key, old_lease, change })
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            txns in proptest::collection::vec(proptest::collection::vec(op(), 1..6), 0..6),
            numbers in any::<(u64, u32, u64, u64, u64)>(),
        ) {
            let (fence_term, fence_gen, seq, s0_seen, lease_time_ms) = numbers;
            let header = Header { fence_term, fence_gen, seq, s0_seen, lease_time_ms };
            let mut encoder = Encoder::new(64);
            for txn in &txns {
                encoder.txn(txn);
                encoder.note(&txn[0].key);
            }
            let bytes = encoder.finish(&header);
            let mut decoder = Decoder::new(bytes.clone()).unwrap();
            prop_assert_eq!(decoder.header(), header);
            let mut ops = Vec::new();
            for txn in &txns {
                prop_assert_eq!(decoder.next_item(&mut ops).unwrap(), Some(Item::Txn));
                for (got, want) in ops.iter_mut().zip(txn) {
                    if let Change::Put { value, value_at, .. } = &mut got.change {
                        let at = *value_at as usize;
                        prop_assert_eq!(&bytes[at..at + value.len()], &value[..]);
                        *value_at = 0;
                    }
                    prop_assert_eq!(&*got, want);
                }
                prop_assert_eq!(decoder.next_item(&mut ops).unwrap(), Some(Item::Note(txn[0].key.clone())));
            }
            prop_assert_eq!(decoder.next_item(&mut ops).unwrap(), None);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
            items in any::<u32>(),
        ) {
            if bytes.len() >= HEADER_LEN {
                bytes[0] = KIND_BATCH;
                bytes[37..41].copy_from_slice(&items.to_le_bytes());
            }
            if let Ok(mut decoder) = Decoder::new(Bytes::from(bytes)) {
                let mut ops = Vec::new();
                while let Ok(Some(_)) = decoder.next_item(&mut ops) {}
            }
        }
    }

    #[test]
    fn weights_say_how_the_number_of_keys_changes() {
        let put = |create| Change::Put {
            create,
            version: 1,
            lease: 0,
            value: Bytes::new(),
            value_crc: 0,
            value_at: 0,
        };
        for (change, want, why) in
            [(put(None), 1, "creates"), (put(Some(7)), 0, "overwrites"), (Change::Delete, -1, "deletes")]
        {
            assert_eq!(change.weight(), want, "{why}");
        }
    }
}
