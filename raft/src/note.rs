//! Changes of replicated state that are not keys, as they lie in a batch (see [`engine::batch`]).
//!
//! LAYOUT: one tag byte, then fixed little-endian fields; `MemberUpdate` carries JSON, since it is rare and
//! read by people. The decoder takes any bytes without panicking.

use engine::batch::Malformed;

use crate::request::{Alarm, AlarmKind, Member};

/// One such change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// Starts a new numbering of batches; valid only as the only item of a batch of its own fence.
    Fence,
    /// History before this revision ends.
    Compact(i64),
    /// A lease begins now, in lease time.
    LeaseGrant { id: i64, ttl_seconds: i64 },
    /// A lease begins anew, now in lease time.
    LeaseRenew { id: i64 },
    /// A lease ends; the transaction after it deletes its keys.
    LeaseRevoke { id: i64 },
    /// An alarm goes on.
    AlarmRaise(Alarm),
    /// An alarm goes off.
    AlarmClear(Alarm),
    /// A member says who it is.
    MemberUpdate(Member),
}

impl Note {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        let number = |out: &mut Vec<u8>, value: i64| out.extend_from_slice(&value.to_le_bytes());
        match self {
            Note::Fence => out.push(0),
            Note::Compact(revision) => {
                out.push(1);
                number(&mut out, *revision);
            }
            Note::LeaseGrant { id, ttl_seconds } => {
                out.push(2);
                number(&mut out, *id);
                number(&mut out, *ttl_seconds);
            }
            Note::LeaseRenew { id } => {
                out.push(3);
                number(&mut out, *id);
            }
            Note::LeaseRevoke { id } => {
                out.push(4);
                number(&mut out, *id);
            }
            Note::AlarmRaise(alarm) | Note::AlarmClear(alarm) => {
                out.push(if matches!(self, Note::AlarmRaise(_)) { 5 } else { 6 });
                number(&mut out, alarm.member.cast_signed());
                out.push(match alarm.kind {
                    AlarmKind::NoSpace => 1,
                    AlarmKind::Corrupt => 2,
                });
            }
            Note::MemberUpdate(member) => {
                out.push(7);
                serde_json::to_writer(&mut out, member).expect("a member is plain data");
            }
        }
        out
    }

    /// # Errors
    /// [`Malformed`] if the bytes are no note.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Note, Malformed> {
        let (&tag, rest) = bytes.split_first().ok_or(Malformed("an empty note"))?;
        let mut fields = Fields(rest);
        let note = match tag {
            0 => Note::Fence,
            1 => Note::Compact(fields.number()?),
            2 => Note::LeaseGrant { id: fields.number()?, ttl_seconds: fields.number()? },
            3 => Note::LeaseRenew { id: fields.number()? },
            4 => Note::LeaseRevoke { id: fields.number()? },
            5 => Note::AlarmRaise(fields.alarm()?),
            6 => Note::AlarmClear(fields.alarm()?),
            7 => {
                let member = serde_json::from_slice(fields.0).map_err(|_| Malformed("not a member"))?;
                fields.0 = &[];
                Note::MemberUpdate(member)
            }
            _ => return Err(Malformed("an unknown note")),
        };
        if fields.0.is_empty() { Ok(note) } else { Err(Malformed("bytes after a note")) }
    }
}

/// Fields of a note not read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number(&mut self) -> Result<i64, Malformed> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Malformed("a note that ends early"))?;
        self.0 = rest;
        Ok(i64::from_le_bytes(*number))
    }

    fn alarm(&mut self) -> Result<Alarm, Malformed> {
        let member = self.number()?.cast_unsigned();
        let (&kind, rest) = self.0.split_first().ok_or(Malformed("a note that ends early"))?;
        self.0 = rest;
        let kind = match kind {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            _ => return Err(Malformed("an unknown alarm")),
        };
        Ok(Alarm { member, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_note_reads_back_as_it_was_written() {
        let member = Member { id: 7, name: "m".to_owned(), ..Member::default() };
        let alarm = Alarm { member: u64::MAX, kind: AlarmKind::Corrupt };
        for note in [
            Note::Fence,
            Note::Compact(5),
            Note::LeaseGrant { id: -3, ttl_seconds: 60 },
            Note::LeaseRenew { id: i64::MIN },
            Note::LeaseRevoke { id: 9 },
            Note::AlarmRaise(alarm),
            Note::AlarmClear(Alarm { member: 0, kind: AlarmKind::NoSpace }),
            Note::MemberUpdate(member),
        ] {
            let bytes = note.encode();
            assert_eq!(Note::decode(&bytes).as_ref(), Ok(&note));
            assert!(Note::decode(&[&bytes[..], b"x"].concat()).is_err(), "{note:?} with a byte after it");
            assert!(Note::decode(&bytes[..bytes.len() - 1]).is_err(), "{note:?} cut short");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Note::decode(&bytes);
        }
    }
}
