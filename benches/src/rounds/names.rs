//! Names of keys, and values from which the write can be read back and every byte checked.
//!
//! LAYOUT of a value: 16 hex digits of the write's number, then bytes that a generator seeded with it makes.

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

use super::record::{Event, Finding, KeyId, Row, Stored, WriteId};
use crate::client::wire;

/// All keys of the rounds begin so.
pub(crate) const PREFIX: &str = "/keelson-rounds/";
/// Bytes of a value that name the write.
pub(crate) const VALUE_BYTES_MIN: usize = 16;

/// The name of a key.
pub(crate) fn key_name(key: KeyId) -> Bytes {
    format!("{PREFIX}{key:06}").into()
}

fn key_id(name: &[u8]) -> Option<KeyId> {
    let digits = name.strip_prefix(PREFIX.as_bytes())?;
    if digits.len() != 6 { None } else { std::str::from_utf8(digits).ok()?.parse().ok() }
}

/// The value of a write.
pub(crate) fn value_of(write: WriteId, size: usize) -> Bytes {
    let mut value = format!("{write:016x}").into_bytes();
    let mut filler = vec![0; size.saturating_sub(VALUE_BYTES_MIN)];
    StdRng::seed_from_u64(write).fill_bytes(&mut filler);
    value.append(&mut filler);
    value.into()
}

/// The write of a value; `None` unless every byte is as written.
fn write_of(value: &[u8]) -> Option<WriteId> {
    let digits = std::str::from_utf8(value.get(..VALUE_BYTES_MIN)?).ok()?;
    let write = WriteId::from_str_radix(digits, 16).ok()?;
    (value_of(write, value.len()) == value).then_some(write)
}

/// Reads a key-value as a row of a known key.
///
/// # Errors
/// `foreign` for a key that nobody here wrote, `corrupt` for a value that is not as written.
pub(crate) fn row(kv: &wire::KeyValue) -> Result<(KeyId, Row), Finding> {
    let key = key_id(&kv.key).ok_or_else(|| foreign(kv))?;
    let write = write_of(&kv.value).ok_or_else(|| {
        let start = String::from_utf8_lossy(&kv.value[..kv.value.len().min(VALUE_BYTES_MIN)]).into_owned();
        let detail =
            format!("key {key} at {}: {} bytes that begin `{start}`", kv.mod_revision, kv.value.len());
        Finding::new("corrupt", detail)
    })?;
    let stored = Stored { write, create_revision: kv.create_revision, version: kv.version };
    Ok((key, Row { mod_revision: kv.mod_revision, stored }))
}

/// Reads a watch event.
///
/// # Errors
/// As [`row`].
pub(crate) fn event(event: &wire::Event) -> Result<Event, Finding> {
    let Some(kv) = &event.kv else {
        return Err(Finding::new("foreign", "an event without a key"));
    };
    if event.kind == wire::EVENT_DELETE {
        let key = key_id(&kv.key).ok_or_else(|| foreign(kv))?;
        return Ok(Event { revision: kv.mod_revision, key, put: None });
    }
    let (key, row) = row(kv)?;
    Ok(Event { revision: row.mod_revision, key, put: Some(row.stored) })
}

fn foreign(kv: &wire::KeyValue) -> Finding {
    let name = String::from_utf8_lossy(&kv.key);
    Finding::new("foreign", format!("key `{name}` at {} was written by nobody here", kv.mod_revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_its_write_and_any_flipped_bit_shows() {
        let value = value_of(77, 40);
        assert_eq!((value.len(), write_of(&value)), (40, Some(77)));
        for bit in 0..value.len() * 8 {
            let mut rotten = value.to_vec();
            rotten[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(write_of(&rotten), Some(77), "bit {bit}");
        }
        assert_eq!(
            write_of(&value[..39]).is_some(),
            write_of(&value[..39]) == Some(77),
            "a shorter value is another size"
        );
        assert_eq!(write_of(b"short"), None);
    }

    #[test]
    fn keys_are_told_from_foreign_ones() {
        assert_eq!(key_id(&key_name(42)), Some(42));
        for name in ["/keelson-rounds/42", "/other/000042", "/keelson-rounds/00004x"] {
            assert_eq!(key_id(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn rotten_and_foreign_rows_are_findings() {
        let kv =
            |key: Bytes, value: Bytes| wire::KeyValue { key, value, mod_revision: 5, ..Default::default() };
        assert!(row(&kv(key_name(1), value_of(3, 20))).is_ok());
        assert_eq!(row(&kv(key_name(1), Bytes::from_static(b"junk"))).map_err(|f| f.rule), Err("corrupt"));
        assert_eq!(row(&kv(Bytes::from_static(b"x"), value_of(3, 20))).map_err(|f| f.rule), Err("foreign"));
    }
}
