//! From applied entries to watchers.
//!
//! * `tail`: the newest changes, in memory, shared by all shards, bounded in bytes.
//! * `history`: older changes, read from the log itself.
//! * `hub`: one a shard: which watcher wants which change; one wake-up per applied batch.
//! * `interest`: the index of live watchers by what they watch.
//! * `stream`: one gRPC stream's watchers: ids, answers in order, catching up, progress.
//!
//! A watcher is a cursor: the next revision it must see. While it keeps up it is *live*, and the hub queues
//! what it wants. If its stream's queue is full, or it starts in the past, it *lags*: nothing is kept for it
//! but the cursor, and its stream reads the log from there until it has caught up.
//!
//! INVARIANTS
//! * A live watcher's cursor is above the hub's position, or in the future of the store.
//! * A progress answer with revision R is queued only when every watcher of its stream was given, or has
//!   queued before it, all changes up to R.
//! * All changes of one revision are in one answer, unless the watcher asked for fragments.

mod history;
mod hub;
mod interest;
mod stream;
mod tail;

pub(crate) use hub::{Hub, HubPort};
pub use stream::{Event, WatchAnswer, WatchCreate, WatchStream};
pub use tail::SharedEncoding;
pub(crate) use tail::{Change, Tail};
