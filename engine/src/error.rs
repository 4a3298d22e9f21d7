//! What can go wrong in the engine, sorted by what the caller does next.

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the engine.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes fail their checksum or do not decode. Never serve them: stop, or ask a peer.
    #[error("corrupt data in {file} at offset {offset}: {reason}")]
    Corrupt {
        /// Name of the file within the data directory.
        file: String,
        /// Offset of the first bad structure in it, bytes.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The revision was compacted away. The same answer on every replica.
    #[error("revision was compacted, oldest readable is {oldest}")]
    Compacted {
        /// The oldest revision that can still be read.
        oldest: i64,
    },
    /// The disk has no space left. Reads, deletes and compaction go on.
    #[error("no space left on the disk: {0}")]
    Full(String),
    /// The disk failed; after a failed write or sync of the log nothing more is accepted: end the process.
    #[error("disk error on {file}: {reason}")]
    Io {
        /// Name of the file within the data directory, or the directory's path.
        file: String,
        /// The system's text.
        reason: String,
    },
    /// The data directory cannot be used by this program as it is; nothing was changed in it.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Whether every replica that applies the command gets this error; if not, the replica must stop.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        matches!(self, Error::Compacted { .. })
    }

    /// An I/O error on a named file; a full disk becomes [`Error::Full`].
    #[must_use]
    pub fn io(file: &str, source: &std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::StorageFull {
            return Error::Full(file.to_owned());
        }
        Error::Io { file: file.to_owned(), reason: source.to_string() }
    }
}
