//! Looking at a store that nobody uses: is it whole, and what is in it. Nothing is changed.
//!
//! READING ORDER
//! 1. `sums`: the weights of all versions of all tables, key by key; the scrub uses it too.
//! 2. `whole`: [`check`], which reads every byte that counts and tells all damage it finds, not the first alone.
//! 3. `inventory`: [`inspect`], which reads what a start reads.
//!
//! WHAT IS CHECKED: `CURRENT` and the manifest; `LOG-END`; every frame of every live segment, and that none is
//! missing; footers against frames; every block of every table against index and footer; that each key's
//! weights sum to its existence at every revision that can be read; every value that a version points to; and
//! that the log goes on where the tables end.

mod inventory;
pub(crate) mod sums;
#[cfg(test)]
mod tests;
mod whole;

pub use inventory::{Inventory, TableContent, inspect};
pub use whole::{Report, check};

use crate::error::Error;

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Name of the file within the data directory.
    pub file: String,
    /// Offset of the first bad structure in it, bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// How far a check has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// What is being read: "log", "tables" or "versions".
    pub stage: &'static str,
    /// The file that is being read.
    pub file: &'a str,
    /// Bytes of this stage that were read.
    pub done: u64,
    /// Bytes of this stage.
    pub total: u64,
}

impl From<Error> for Damage {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt { file, offset, reason } => Damage { file, offset, reason: reason.to_owned() },
            Error::Io { file, reason } => Damage { file, offset: 0, reason },
            other => Damage { file: String::new(), offset: 0, reason: other.to_string() },
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at offset {}: {}", self.file, self.offset, self.reason)
    }
}
