//! Reading numbers and byte strings from bytes that may be anything.
//!
//! Every file of the index is decoded through [`Fields`]: it never panics and never reads past the end;
//! what does not decode is a reason, to which the caller adds file and offset.

use bytes::Bytes;

use crate::batch::unzigzag;

/// Why bytes do not decode.
pub(crate) type Reason = &'static str;

/// A cursor over encoded fields.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Starts at offset `at` of `bytes`.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Fields { bytes, at: at.min(bytes.len()) }
    }

    /// Bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Reason> {
        if self.left() < len {
            return Err("ends in the middle of a field");
        }
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    /// A byte string with its length before it.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Reason> {
        let len = self.length()?;
        self.take(len)
    }

    /// A byte string with its length before it, as a slice of `whole`, which must hold the same bytes.
    pub(crate) fn shared_string(&mut self, whole: &Bytes) -> Result<Bytes, Reason> {
        let len = self.length()?;
        let at = self.at;
        self.take(len)?;
        Ok(whole.slice(at..at + len))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Reason> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Reason> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("2 bytes")))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Reason> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Reason> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    /// A LEB128 number.
    pub(crate) fn varint(&mut self) -> Result<u64, Reason> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err("number out of range");
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("number too long")
    }

    /// A LEB128 number of at most 32 bits.
    pub(crate) fn varint32(&mut self) -> Result<u32, Reason> {
        u32::try_from(self.varint()?).map_err(|_| "number out of range")
    }

    /// A LEB128 number of the zig-zag form.
    pub(crate) fn zigzag(&mut self) -> Result<i64, Reason> {
        Ok(unzigzag(self.varint()?))
    }

    /// A length or a count that fits the bytes that are left, so that nobody allocates for a lie.
    pub(crate) fn length(&mut self) -> Result<usize, Reason> {
        let len = usize::try_from(self.varint()?).map_err(|_| "length out of range")?;
        if len > self.left() { Err("length beyond the end") } else { Ok(len) }
    }

    /// Refuses bytes after the last field.
    pub(crate) fn end(&self) -> Result<(), Reason> {
        if self.left() == 0 { Ok(()) } else { Err("bytes after the last field") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{put_varint, zigzag};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value in any::<u64>(), signed in any::<i64>()) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            put_varint(&mut bytes, zigzag(signed));
            let mut fields = Fields::new(&bytes, 0);
            prop_assert_eq!(fields.varint(), Ok(value));
            prop_assert_eq!(fields.zigzag(), Ok(signed));
            prop_assert_eq!(fields.end(), Ok(()));
        }
    }

    #[test]
    fn what_ends_early_is_refused() {
        for (bytes, why) in [
            (&[0x80u8][..], "a number without its last byte"),
            (&[5, 1, 2], "a string longer than the bytes"),
            (&[0xff; 11], "a number of more than 64 bits"),
        ] {
            assert!(Fields::new(bytes, 0).string().is_err(), "{why}");
        }
    }
}
