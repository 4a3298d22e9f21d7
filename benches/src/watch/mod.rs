//! Watch: many watchers, one writer, and the time from a put to each event it causes.
//!
//! Writer and watchers are one process with one clock: a value begins with the time at which it was sent. What is
//! reported is what a client sees; it includes the time that this process needs to read what has arrived, which its own
//! CPU figure shows.
//!
//! Reading order: [`stamp`], [`crowd`] (the watchers and what they see), [`fanout`] (the writer, and a run put together),
//! [`report`].

pub(crate) mod crowd;
pub(crate) mod fanout;
pub(crate) mod report;
pub(crate) mod stamp;
#[cfg(test)]
mod tests;
