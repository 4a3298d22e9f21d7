//! Keelson beside etcd: same machine, same disk, fsync on for both, same client, in turn.
//!
//! Cases come in groups. A group runs on a fresh server of one kind and then on a fresh server of the other; which one
//! goes first changes by round and by group, so that a machine that gets slower or busier favours nobody. Only one server
//! runs at a time. A ratio is taken within a round, where the two runs are neighbours, and its median over the rounds is
//! what counts; medians of each server, the spread of everything and what other processes took from the machine meanwhile
//! stand beside it.
//!
//! Loads run as processes of their own, by this same program: what one leaves behind does not touch the next.
//!
//! Reading order: [`figures`] (what is read from a report), [`cases`], [`machine`], [`runner`], [`samples`] (medians and
//! ratios), [`table`], [`plot`].

pub(crate) mod cases;
pub(crate) mod figures;
pub(crate) mod machine;
pub(crate) mod plot;
pub(crate) mod runner;
pub(crate) mod samples;
pub(crate) mod table;
