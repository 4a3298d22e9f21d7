//! How many rows an answer to Range has, told while it passes: it may be as large as the store, and is never kept.
//!
//! Reads protobuf's tags and lengths alone, wherever frames cut them. INVARIANT: what is no plain `RangeResponse` is not
//! counted at all.

/// The rows of one message.
#[derive(Debug)]
pub(super) struct Rows {
    /// What the next byte is.
    next: Next,
    /// The varint under way, and the bits of it that have come.
    value: u64,
    bits: u32,
    rows: u64,
    count: u64,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    /// Of gRPC's prefix, with so many bytes of it passed.
    Prefix(u8),
    Tag,
    /// Of a number, the value of this field.
    Number(u64),
    /// Of the length of this field.
    Length(u64),
    /// To be skipped, as are so many.
    Skipped(u64),
    /// Anything.
    GivenUp,
}

/// Fields of `RangeResponse`.
const KVS: u64 = 2;
const COUNT: u64 = 4;

impl Rows {
    pub(super) fn new() -> Rows {
        Rows { next: Next::Prefix(0), value: 0, bits: 0, rows: 0, count: 0 }
    }

    /// Rows that came, and the number that the answer says there are.
    pub(super) fn counted(&self) -> Option<(u64, u64)> {
        (!matches!(self.next, Next::GivenUp)).then_some((self.rows, self.count))
    }

    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Next::Skipped(left) = self.next {
                let skipped = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                bytes = &bytes[skipped..];
                let left = left - skipped as u64;
                self.next = if left == 0 { Next::Tag } else { Next::Skipped(left) };
                continue;
            }
            bytes = rest;
            self.take(byte);
        }
    }

    fn take(&mut self, byte: u8) {
        if let Next::Prefix(passed) = self.next {
            self.next = match passed {
                // Compressed.
                0 if byte != 0 => Next::GivenUp,
                4 => Next::Tag,
                _ => Next::Prefix(passed + 1),
            };
            return;
        }
        self.value |= u64::from(byte & 0x7f).checked_shl(self.bits).unwrap_or(0);
        self.bits += 7;
        if byte & 0x80 != 0 {
            if self.bits >= 70 {
                self.next = Next::GivenUp;
            }
            return;
        }
        let value = std::mem::take(&mut self.value);
        self.bits = 0;
        self.next = match self.next {
            Next::Tag => match value & 7 {
                0 => Next::Number(value >> 3),
                2 => Next::Length(value >> 3),
                _ => Next::GivenUp,
            },
            Next::Number(field) => {
                if field == COUNT {
                    self.count = value;
                }
                Next::Tag
            }
            Next::Length(field) => {
                if field == KVS {
                    self.rows += 1;
                }
                if value == 0 { Next::Tag } else { Next::Skipped(value) }
            }
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message as _;

    use super::*;
    use crate::pb::etcdserverpb::{RangeResponse, ResponseHeader};
    use crate::pb::mvccpb::KeyValue;

    fn message(response: &RangeResponse) -> Vec<u8> {
        let body = response.encode_to_vec();
        let len = u32::try_from(body.len()).expect("short").to_be_bytes();
        [&[0][..], &len, &body].concat()
    }

    #[test]
    fn rows_are_counted_wherever_frames_cut_them() {
        let row = |len| KeyValue {
            key: Bytes::from("k"),
            value: Bytes::from(vec![0x12; len]),
            ..Default::default()
        };
        let header = Some(ResponseHeader { cluster_id: u64::MAX, ..Default::default() });
        for (rows, count, why) in [
            (vec![], 0, "nothing"),
            (vec![], 300, "a count alone"),
            (vec![row(0), row(200), row(20_000)], 3, "values that look like tags"),
            (vec![KeyValue::default()], 1, "a row of nothing"),
        ] {
            let want = Some((rows.len() as u64, count as u64));
            let bytes = message(&RangeResponse { header, kvs: rows, more: true, count });
            for size in [1, 2, 7, 1000, bytes.len()] {
                let mut counted = Rows::new();
                bytes.chunks(size).for_each(|frame| counted.pass(frame));
                assert_eq!(counted.counted(), want, "{why}, frames of {size}");
            }
        }
    }

    #[test]
    fn what_is_something_else_is_not_counted() {
        for (bytes, why) in [
            (vec![1, 0, 0, 0, 1, 0x12], "compressed"),
            (vec![0, 0, 0, 0, 1, 0x15], "a field of four bytes"),
            ([&[0; 5][..], &[0xff; 12]].concat(), "a number without end"),
        ] {
            let mut counted = Rows::new();
            counted.pass(&bytes);
            assert_eq!(counted.counted(), None, "{why}");
        }
    }
}
