//! Watches: what each was told, and what it had to be told.
//!
//! A stream carries several watches; here they are taken apart. Create requests are answered in their order, and a
//! progress answer to the whole stream counts for every watch that had been answered before.

pub(crate) mod atomic;
pub(crate) mod bookmarkable;
pub(crate) mod complete;
pub(crate) mod created;
pub(crate) mod ordered;
pub(crate) mod prev_kv;
pub(crate) mod progress;
pub(crate) mod resumable;
pub(crate) mod unique;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::checkers::{Case, Violation, compaction, describe};
use crate::history::{History, Stamp, Stream};
use crate::model::{Model, range};
use crate::op::{Event, WatchCreate, WatchMessage, WatchRequest};

/// One watch on one stream.
pub(crate) struct Watch<'a> {
    /// Its stream's place in the history and its create request's place among the stream's requests; `None` for
    /// the witness's.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) create: &'a WatchCreate,
    /// When it was asked for.
    pub(crate) asked: Stamp,
    /// The answer to the create request.
    pub(crate) created: Option<(Stamp, &'a WatchMessage)>,
    /// Ids in use on the stream when it was answered.
    pub(crate) in_use: Vec<i64>,
    /// Ids whose watches a compaction had ended by then; whether they are free is left open.
    pub(crate) half_free: Vec<i64>,
    /// Events and progress, in order.
    pub(crate) messages: Vec<(Stamp, &'a WatchMessage)>,
    /// The message that ended it.
    pub(crate) canceled: Option<(Stamp, &'a WatchMessage)>,
    /// When the client asked for its end.
    pub(crate) leaving: Option<Stamp>,
    /// Whether everything up to the history's final revision was due on its stream.
    pub(crate) drained: bool,
}

/// A message that belongs to no watch.
pub(crate) struct Stray<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) message: &'a WatchMessage,
}

/// Takes the streams of `history` apart.
pub(crate) fn take_apart(history: &History) -> (Vec<Watch<'_>>, Vec<Stray<'_>>) {
    let (mut watches, mut strays) = (Vec::new(), Vec::new());
    for (number, stream) in history.streams.iter().enumerate() {
        take_stream_apart(stream, Some(number), &mut watches, &mut strays);
    }
    for stream in &history.witness {
        take_stream_apart(stream, None, &mut watches, &mut strays);
    }
    (watches, strays)
}

fn take_stream_apart<'a>(
    stream: &'a Stream,
    number: Option<usize>,
    watches: &mut Vec<Watch<'a>>,
    strays: &mut Vec<Stray<'a>>,
) {
    let first = watches.len();
    let mut creating = VecDeque::new();
    for (request, (asked, sent)) in stream.requests.iter().enumerate() {
        let WatchRequest::Create(create) = sent else { continue };
        creating.push_back(watches.len());
        watches.push(Watch {
            place: number.map(|number| (number, request)),
            create,
            asked: *asked,
            created: None,
            in_use: Vec::new(),
            half_free: Vec::new(),
            messages: Vec::new(),
            canceled: None,
            leaving: None,
            drained: stream.drained,
        });
    }
    let mut ids: BTreeMap<i64, usize> = BTreeMap::new();
    let mut half_free = Vec::new();
    for (stamp, message) in &stream.messages {
        let (stamp, id) = (*stamp, message.watch_id);
        if message.created {
            let Some(at) = creating.pop_front() else {
                strays.push(Stray { stamp, message });
                continue;
            };
            let watch = &mut watches[at];
            watch.created = Some((stamp, message));
            watch.in_use = ids.keys().copied().collect();
            watch.half_free.clone_from(&half_free);
            if !message.canceled {
                ids.insert(id, at);
            }
        } else if message.canceled {
            match ids.remove(&id) {
                Some(at) => watches[at].canceled = Some((stamp, message)),
                // etcd ends a watch once more if the client asks for it after a compaction has ended it.
                None if half_free.contains(&id) && asked_to_end(stream, id, stamp) => {}
                None => strays.push(Stray { stamp, message }),
            }
            if message.compact_revision > 0 {
                half_free.push(id);
            }
        } else if id == -1 && message.events.is_empty() {
            for at in ids.values() {
                watches[*at].messages.push((stamp, message));
            }
        } else if let Some(at) = ids.get(&id) {
            watches[*at].messages.push((stamp, message));
        } else {
            strays.push(Stray { stamp, message });
        }
    }
    for (asked, sent) in &stream.requests {
        let WatchRequest::Cancel { watch_id } = sent else { continue };
        let meant = watches[first..].iter_mut().filter(|watch| watch.id() == Some(*watch_id));
        for watch in meant.filter(|watch| watch.created.is_some_and(|(at, _)| at < *asked)) {
            watch.leaving.get_or_insert(*asked);
        }
    }
}

/// Whether the end of watch `id` had been asked for on `stream` before the moment `at`.
fn asked_to_end(stream: &Stream, id: i64, at: Stamp) -> bool {
    let mut sent = stream.requests.iter();
    sent.any(|(asked, sent)| *asked < at && *sent == WatchRequest::Cancel { watch_id: id })
}

impl<'a> Watch<'a> {
    /// Its id, if it came to be.
    pub(crate) fn id(&self) -> Option<i64> {
        let (_, message) = self.created.as_ref()?;
        (!message.canceled).then_some(message.watch_id)
    }

    /// The first key: without a key it is the smallest.
    pub(crate) fn first_key(&self) -> Bytes {
        if self.create.key.is_empty() { Bytes::from_static(b"\0") } else { self.create.key.clone() }
    }

    /// Every event told, with the moment it came.
    pub(crate) fn told(&self) -> impl Iterator<Item = (Stamp, &'a Event)> {
        self.messages.iter().flat_map(|(stamp, message)| message.events.iter().map(|event| (*stamp, event)))
    }

    /// The last revision told; 0 if there was none.
    pub(crate) fn last_told(&self) -> i64 {
        self.told().last().map_or(0, |(_, event)| event.kv.mod_revision)
    }

    /// Progress answers, with the moment each came.
    pub(crate) fn progress(&self) -> impl Iterator<Item = (Stamp, i64)> {
        let quiet = self.messages.iter().filter(|(_, message)| message.events.is_empty());
        quiet.map(|(stamp, message)| (*stamp, message.revision))
    }

    /// Whether the last message with events was a fragment, so that more of its last revision is due.
    pub(crate) fn is_cut(&self) -> bool {
        let last = self.messages.iter().rev().find(|(_, message)| !message.events.is_empty());
        last.is_some_and(|(_, message)| message.fragment)
    }

    /// Events of the model that it has to be told, from `first` on.
    pub(crate) fn due<'m>(&self, model: &'m Model, first: i64) -> impl Iterator<Item = &'m Event> {
        let (key, end) = (self.first_key(), self.create.range_end.clone());
        let (no_put, no_delete) = (self.create.no_put, self.create.no_delete);
        model.events_from(first).flat_map(|(_, events)| events).filter(move |event| {
            let wanted = if event.deleted { !no_delete } else { !no_put };
            wanted && range::contains(&key, &end, &event.kv.key)
        })
    }

    /// A violation on it, with the messages around the moment `at`.
    pub(crate) fn violation(
        &self,
        case: &Case<'_>,
        guarantee: &'static str,
        message: String,
        revision: Option<i64>,
        at: u64,
    ) -> Violation {
        let mut window = vec![format!(
            "[{}] {:?}, answered {:?}",
            self.asked.order,
            self.create,
            self.created.map(|(_, message)| message)
        )];
        let place = self.messages.partition_point(|(stamp, _)| stamp.order < at);
        let near = &self.messages[place.saturating_sub(3)..self.messages.len().min(place + 3)];
        window.extend(near.iter().map(|(stamp, message)| describe::message(stamp, message)));
        if let Some((stamp, message)) = &self.canceled {
            window.push(describe::message(stamp, message));
        }
        case.violation(guarantee, message, revision, window)
    }
}

/// Every guarantee of a watch.
pub(crate) fn check(case: &Case<'_>, model: &Model) -> Vec<Violation> {
    let (watches, strays) = take_apart(case.history);
    let mut violations = created::strays(case, &strays);
    for watch in &watches {
        violations.extend(compaction::watched(case, watch));
        violations.extend(created::created(case, watch));
        violations.extend(created::ended(case, watch));
        violations.extend(ordered::ordered(case, watch));
        violations.extend(unique::unique(case, watch));
        violations.extend(atomic::atomic(case, watch));
        violations.extend(complete::complete(case, model, watch));
        violations.extend(prev_kv::prev_kv(case, model, watch));
        violations.extend(progress::progress(case, watch));
    }
    violations.extend(resumable::resumable(case, model, &watches));
    violations.extend(bookmarkable::bookmarkable(case, model, &watches));
    violations
}
