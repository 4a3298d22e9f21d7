//! Leases in time.

pub(crate) mod book;
