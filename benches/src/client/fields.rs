//! Answers read in place: a walk over the fields of a protobuf message that allocates and copies nothing.
//!
//! A load tool wants a stamp out of each event and the last key of each page. Building the whole message costs it more
//! than the server's work is worth measuring against; so the hot answers are walked, the others decoded by prost.

use super::failure::Failure;

/// A field's content. Fixed-size numbers, which etcd's answers do not use, are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// A number.
    Varint(u64),
    /// Bytes, a string or a message.
    Bytes(&'a [u8]),
}

/// The fields of one message, in the order of the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

fn malformed() -> Failure {
    Failure::Transport("an answer is not a protobuf message".to_owned())
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Failure> {
        let mut number = 0;
        for at in 0..10 {
            let byte = *self.0.get(at).ok_or_else(malformed)?;
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(malformed())
    }

    /// The next field: its tag and content; `None` at the end.
    ///
    /// # Errors
    /// [`Failure::Transport`] for bytes that are no message.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, Failure> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| malformed())?;
                let (content, rest) = self.0.split_at_checked(len).ok_or_else(malformed)?;
                self.0 = rest;
                Field::Bytes(content)
            }
            _ => return Err(malformed()),
        };
        Ok(Some((key >> 3, field)))
    }

    /// The content of the last field with `tag`, empty if there is none.
    ///
    /// # Errors
    /// As [`Fields::next`].
    pub(crate) fn bytes(mut self, tag: u64) -> Result<&'a [u8], Failure> {
        let mut found = &[][..];
        while let Some((at, field)) = self.next()? {
            if let (true, Field::Bytes(content)) = (at == tag, field) {
                found = content;
            }
        }
        Ok(found)
    }

    /// The number of the last field with `tag`, 0 if there is none.
    ///
    /// # Errors
    /// As [`Fields::next`].
    pub(crate) fn number(mut self, tag: u64) -> Result<i64, Failure> {
        let mut found = 0;
        while let Some((at, field)) = self.next()? {
            if let (true, Field::Varint(number)) = (at == tag, field) {
                found = number;
            }
        }
        // int64 is two's complement on the wire.
        Ok(found.cast_signed())
    }
}

/// A watch answer without its events.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchHead {
    /// The watcher; -1 for a progress answer for all of the stream.
    pub(crate) watch_id: i64,
    /// Answers a create.
    pub(crate) created: bool,
    /// The watcher has ended.
    pub(crate) canceled: bool,
    /// Events told.
    pub(crate) events: u64,
}

/// Walks a watch answer; `each` gets the value of every event, empty for a delete.
///
/// # Errors
/// As [`Fields::next`].
pub(crate) fn watch_answer(message: &[u8], mut each: impl FnMut(&[u8])) -> Result<WatchHead, Failure> {
    const KEY_VALUE: u64 = 2;
    const VALUE: u64 = 5;
    let mut head = WatchHead::default();
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        match field {
            (2, Field::Varint(id)) => head.watch_id = id.cast_signed(),
            (3, Field::Varint(set)) => head.created = set != 0,
            (4, Field::Varint(set)) => head.canceled = set != 0,
            (11, Field::Bytes(event)) => {
                head.events += 1;
                each(Fields(Fields(event).bytes(KEY_VALUE)?).bytes(VALUE)?);
            }
            _ => {}
        }
    }
    Ok(head)
}

/// A page of a list without its rows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageHead<'a> {
    /// The revision of the header.
    pub(crate) revision: i64,
    /// Rows on the page.
    pub(crate) rows: u64,
    /// The key of the last row.
    pub(crate) last_key: &'a [u8],
    /// There are rows behind it.
    pub(crate) more: bool,
    /// Keys in the range asked for, whatever the limit.
    pub(crate) count: i64,
}

/// Walks the answer of a Range.
///
/// # Errors
/// As [`Fields::next`].
pub(crate) fn range_answer(message: &[u8]) -> Result<PageHead<'_>, Failure> {
    const HEADER_REVISION: u64 = 3;
    const ROW_KEY: u64 = 1;
    let mut head = PageHead::default();
    let mut last_row = &[][..];
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        match field {
            (1, Field::Bytes(header)) => head.revision = Fields(header).number(HEADER_REVISION)?,
            (2, Field::Bytes(row)) => {
                head.rows += 1;
                last_row = row;
            }
            (3, Field::Varint(set)) => head.more = set != 0,
            (4, Field::Varint(count)) => head.count = count.cast_signed(),
            _ => {}
        }
    }
    head.last_key = Fields(last_row).bytes(ROW_KEY)?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::*;
    use crate::client::wire;

    fn row(key: &'static str, value: &'static str) -> wire::KeyValue {
        wire::KeyValue { key: key.into(), value: value.into(), mod_revision: -1, ..Default::default() }
    }

    #[test]
    fn a_watch_answer_as_prost_writes_it() {
        let event = |kind, value| wire::Event { kind, kv: Some(row("k", value)) };
        let message = wire::WatchResponse {
            header: Some(wire::ResponseHeader { revision: 1 << 40 }),
            watch_id: -1,
            events: vec![event(0, "one"), event(wire::EVENT_DELETE, ""), event(0, "two")],
            ..Default::default()
        };
        let mut values = Vec::new();
        let head = watch_answer(&message.encode_to_vec(), |value| values.push(value.to_vec()));
        assert_eq!(head, Ok(WatchHead { watch_id: -1, events: 3, ..Default::default() }));
        assert_eq!(values, [&b"one"[..], b"", b"two"]);
        let created = wire::WatchResponse { created: true, watch_id: 7, ..Default::default() };
        let head = watch_answer(&created.encode_to_vec(), |_| {});
        assert_eq!(head, Ok(WatchHead { watch_id: 7, created: true, ..Default::default() }));
    }

    #[test]
    fn a_page_as_prost_writes_it() {
        let message = wire::RangeResponse {
            header: Some(wire::ResponseHeader { revision: 9 }),
            kvs: vec![row("a", "1"), row("b", "2")],
            more: true,
            count: 300,
        }
        .encode_to_vec();
        let want = PageHead { revision: 9, rows: 2, last_key: b"b", more: true, count: 300 };
        assert_eq!(range_answer(&message), Ok(want));
        assert_eq!(range_answer(&[]), Ok(PageHead::default()), "nothing found is an empty message");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (bytes, why) in [
            (&[0x80][..], "a number cut off"),
            (&[0xff; 11], "a number without end"),
            (&[0x12, 5, 1], "content cut off"),
            (&[0x09, 0, 0, 0, 0, 0, 0, 0, 0], "a fixed number"),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "a length beyond memory"),
        ] {
            assert!(range_answer(&Bytes::copy_from_slice(bytes)).is_err(), "{why}");
        }
    }
}
