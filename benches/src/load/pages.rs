//! Pages of a list, as clients with a limit read them: the first pages, a whole walk, or pages from anywhere.
//!
//! A walk reads as kube-apiserver's does: every page after the first begins just behind the last key seen and is read at
//! the revision of the first, so that the pages together are one list.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use rand::Rng;
use rand::rngs::StdRng;

use super::payload::Keys;
use super::work::Work;
use crate::client::fields::range_answer;
use crate::client::wire::{RangeRequest, frame, path};
use crate::client::{Connection, Failure};

/// Which pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// The first page, over and over.
    First,
    /// All pages from the first to the last, then again.
    Walk,
    /// Pages that begin at a random key.
    Random,
}

/// What all slots have read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Rows.
    pub(crate) rows: Cell<u64>,
    /// Walks that came to the last page.
    pub(crate) walks: Cell<u64>,
    /// Rows of the last whole walk.
    pub(crate) rows_of_walk: Cell<u64>,
    /// The count that came with the last first page.
    pub(crate) count: Cell<i64>,
}

/// A slot that reads pages.
pub(crate) struct Pages {
    /// The range, the limit and the flags of a first page.
    pub(crate) first: RangeRequest,
    /// Which pages.
    pub(crate) choice: Choice,
    /// Where random pages begin.
    pub(crate) keys: Keys,
    pub(crate) random: StdRng,
    /// What all slots have read.
    pub(crate) read: Rc<Read>,
    /// The page to go on with; `None` begins anew.
    next: Option<RangeRequest>,
    rows_so_far: u64,
    /// The count of the walk's first page.
    promised: i64,
    kind: &'static str,
}

impl Pages {
    /// Pages of the range and limit of `first`.
    pub(crate) fn new(
        first: RangeRequest,
        choice: Choice,
        keys: Keys,
        random: StdRng,
        read: Rc<Read>,
    ) -> Self {
        Pages { first, choice, keys, random, read, next: None, rows_so_far: 0, promised: 0, kind: "" }
    }

    fn request(&mut self) -> RangeRequest {
        match self.choice {
            Choice::First => self.first.clone(),
            Choice::Random => {
                let key = self.keys.key(self.random.random_range(0..self.keys.count));
                RangeRequest { key, ..self.first.clone() }
            }
            Choice::Walk => self.next.take().unwrap_or_else(|| self.first.clone()),
        }
    }

    /// Checks a page and notes where the next one begins.
    fn take(&mut self, request: RangeRequest, answer: &[u8]) -> Result<(), Failure> {
        let page = range_answer(answer)?;
        let limit = u64::try_from(request.limit).unwrap_or(0);
        if page.rows > limit || (page.more && page.rows < limit) {
            return Err(Failure::Transport(format!(
                "a page of {} rows, more: {}, for a limit of {limit}",
                page.rows, page.more
            )));
        }
        let is_first = request.key == self.first.key;
        self.kind = if is_first { "first page" } else { "later page" };
        self.read.rows.set(self.read.rows.get() + page.rows);
        if is_first {
            self.read.count.set(page.count);
            self.promised = page.count;
            self.rows_so_far = 0;
        }
        self.rows_so_far += page.rows;
        if self.choice != Choice::Walk {
            return Ok(());
        }
        if !page.more {
            if self.promised != self.rows_so_far.cast_signed() {
                return Err(Failure::Transport(format!(
                    "a walk of {} rows after a first page that counted {}",
                    self.rows_so_far, self.promised
                )));
            }
            self.read.walks.set(self.read.walks.get() + 1);
            self.read.rows_of_walk.set(self.rows_so_far);
            return Ok(());
        }
        let mut behind = Vec::with_capacity(page.last_key.len() + 1);
        behind.extend_from_slice(page.last_key);
        behind.push(0);
        let revision = if is_first { page.revision } else { request.revision };
        self.next = Some(RangeRequest { key: Bytes::from(behind), revision, ..request });
        Ok(())
    }
}

impl Work for Pages {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let request = self.request();
        let answer = connection.unary(path::RANGE, frame(&request)).await?;
        self.take(request, &answer)?;
        Ok(answer.len() as u64)
    }

    fn kind(&self, _: Instant) -> Option<&'static str> {
        Some(self.kind)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::client::wire::{KeyValue, RangeResponse, ResponseHeader, prefix_end};
    use crate::load::payload::slot_random;

    fn pages(choice: Choice) -> Pages {
        let first = RangeRequest {
            key: "/k/".into(),
            range_end: prefix_end(b"/k/"),
            limit: 2,
            ..RangeRequest::default()
        };
        let keys = Keys::new("/k/", 6, 100).expect("there is room");
        Pages::new(first, choice, keys, slot_random(1, 0), Rc::default())
    }

    fn answer(revision: i64, keys: &[&'static str], more: bool) -> Vec<u8> {
        let kvs = keys.iter().map(|key| KeyValue { key: (*key).into(), ..Default::default() }).collect();
        RangeResponse { header: Some(ResponseHeader { revision }), kvs, more, count: 3 }.encode_to_vec()
    }

    #[test]
    fn a_walk_stays_at_its_first_revision_and_begins_again() {
        let mut pages = pages(Choice::Walk);
        let first = pages.request();
        assert_eq!((&first.key[..], first.revision), (&b"/k/"[..], 0));
        pages.take(first, &answer(7, &["/k/a", "/k/b"], true)).expect("a page");
        assert_eq!(pages.kind, "first page");
        let second = pages.request();
        assert_eq!((&second.key[..], second.revision), (&b"/k/b\0"[..], 7));
        pages.take(second, &answer(9, &["/k/c"], false)).expect("the last page");
        assert_eq!((pages.kind, pages.read.walks.get(), pages.read.rows_of_walk.get()), ("later page", 1, 3));
        assert_eq!(pages.request().key, pages.first.key, "then from the start");
    }

    #[test]
    fn pages_of_a_wrong_size_are_refused() {
        for (keys, more, why) in [
            (&["a", "b", "c"][..], true, "more rows than the limit"),
            (&["a"][..], true, "more, but not full"),
        ] {
            let mut pages = pages(Choice::First);
            let request = pages.request();
            assert!(pages.take(request, &answer(1, keys, more)).is_err(), "{why}");
        }
    }

    #[test]
    fn a_walk_that_misses_rows_is_refused() {
        let mut pages = pages(Choice::Walk);
        let first = pages.request();
        pages.take(first, &answer(7, &["/k/a", "/k/b"], true)).expect("a page that counts three");
        let second = pages.request();
        assert!(pages.take(second, &answer(7, &[], false)).is_err(), "the third row is missing");
    }

    #[test]
    fn random_pages_begin_anywhere() {
        let mut pages = pages(Choice::Random);
        let starts: std::collections::BTreeSet<Bytes> = (0..50).map(|_| pages.request().key).collect();
        assert!(starts.len() > 20, "{} different starts", starts.len());
    }
}
