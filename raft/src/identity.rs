//! Who this member is: written once, before anything else, and never changed.
//!
//! LAYOUT of the file `IDENTITY`: one line of JSON `{"format":1,"cluster_id":N,"member_id":N}`, then one line
//! with the CRC-32 of the first, as 8 hexadecimal digits.

use std::io::IoSlice;

use engine::disk::Disk;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const FILE: &str = "IDENTITY";
const FILE_NEW: &str = "IDENTITY.new";
const FORMAT: u32 = 1;

/// See the module's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    format: u32,
    /// etcd's cluster id.
    pub cluster_id: u64,
    /// etcd's member id.
    pub member_id: u64,
}

impl Identity {
    /// An identity for a new member.
    #[must_use]
    pub fn new(cluster_id: u64, member_id: u64) -> Self {
        Identity { format: FORMAT, cluster_id, member_id }
    }

    /// The identity that the directory has; `None` for a new one.
    ///
    /// # Errors
    /// [`Error::Storage`] if it cannot be read, is damaged or of another format.
    pub fn load(disk: &dyn Disk) -> Result<Option<Identity>> {
        let failed = |reason: String| Error::Storage(format!("{FILE}: {reason}"));
        let names = disk.list().map_err(|error| failed(error.to_string()))?;
        if !names.iter().any(|name| name == FILE) {
            return Ok(None);
        }
        let read = || -> std::io::Result<Vec<u8>> {
            let file = disk.open(FILE)?;
            let mut bytes = vec![0; usize::try_from(file.len()?.min(4096)).expect("at most 4096")];
            file.read_at(0, &mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|error| failed(error.to_string()))?;
        Identity::decode(&bytes).map(Some).map_err(|reason| failed(reason.to_owned()))
    }

    /// Makes this the identity of a new directory, durably.
    ///
    /// # Errors
    /// [`Error::Storage`] if it cannot be written.
    pub fn store(&self, disk: &dyn Disk) -> Result<()> {
        let line = serde_json::to_string(self).expect("plain data");
        let text = format!("{line}\n{:08x}\n", crc32fast::hash(line.as_bytes()));
        let write = || -> std::io::Result<()> {
            if disk.list()?.iter().any(|name| name == FILE_NEW) {
                disk.remove(FILE_NEW)?;
            }
            let file = disk.create(FILE_NEW)?;
            file.write_at(0, &[IoSlice::new(text.as_bytes())])?;
            file.sync()?;
            disk.rename(FILE_NEW, FILE)?;
            disk.sync_dir()
        };
        write().map_err(|error| Error::Storage(format!("{FILE}: {error}")))
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Identity, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not text")?;
        let (line, crc) = text.split_once('\n').ok_or("no checksum")?;
        let crc = u32::from_str_radix(crc.trim_end_matches('\n'), 16).map_err(|_| "no checksum")?;
        if crc != crc32fast::hash(line.as_bytes()) {
            return Err("its checksum does not match");
        }
        let identity: Identity = serde_json::from_str(line).map_err(|_| "not an identity")?;
        if identity.format == FORMAT { Ok(identity) } else { Err("written by another version of the format") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::disk::MemoryDisk;

    #[test]
    fn an_identity_is_read_back_and_damage_is_named() {
        let disk = MemoryDisk::new();
        assert_eq!(Identity::load(&disk), Ok(None), "a new directory has none");
        let identity = Identity::new(1, u64::MAX);
        identity.store(&disk).unwrap();
        assert_eq!(Identity::load(&disk), Ok(Some(identity)));
        disk.flip_bit(FILE, 14, 0);
        let error = Identity::load(&disk).unwrap_err();
        assert!(error.to_string().contains("IDENTITY: its checksum"), "{error}");
    }
}
