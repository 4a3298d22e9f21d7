//! The loads that the driver runs: puts, updates, reads, lists, counts, filling.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::measure;
use crate::cli::{FillArgs, GetArgs, ListArgs, LoadArgs, MixedArgs, PageArgs, StreamArgs, check_slots};
use crate::client::Failure;
use crate::client::wire::{self, Framer, frame, path, prefix_end};
use crate::load::driver;
use crate::load::mixture::{self, Mixture};
use crate::load::pages::{Pages, Read};
use crate::load::payload::{Keys, Values, slot_random};
use crate::load::work::{Count, Fill, Get, KnownRevisions, List, Put, Update};

fn keys(args: &LoadArgs) -> Result<Keys, Failure> {
    Keys::new(&args.prefix, args.key_size, args.keys)
}

pub(super) async fn put(args: &LoadArgs) -> Result<bool, Failure> {
    let (keys, values) = (keys(args)?, Values::new(args.value_size, args.seed));
    let make = |slot| Put {
        keys: keys.clone(),
        values: values.clone(),
        random: slot_random(args.seed, slot),
        framer: Framer::default(),
    };
    measure("put", args, &args.plan(None), make, BTreeMap::new).await
}

pub(super) async fn txn_update(args: &LoadArgs) -> Result<bool, Failure> {
    check_slots(args)?;
    let (keys, values) = (keys(args)?, Values::new(args.value_size, args.seed));
    let known = Rc::new(KnownRevisions::new(args.keys));
    let plan = args.plan(None);
    let slots = plan.slots() as u64;
    let make = |slot: usize| Update {
        keys: keys.clone(),
        values: values.clone(),
        random: slot_random(args.seed, slot),
        known: Rc::clone(&known),
        slot: slot as u64,
        slots,
        framer: Framer::default(),
    };
    let extra = || BTreeMap::from([("compares_failed", known.compares_failed.get() as i64)]);
    measure("txn-update", args, &plan, make, extra).await
}

pub(super) async fn get(args: &GetArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let keys = keys(load)?;
    let serializable = args.serializable;
    let make = |slot| Get {
        keys: keys.clone(),
        random: slot_random(load.seed, slot),
        serializable,
        framer: Framer::default(),
    };
    measure("get", load, &load.plan(None), make, BTreeMap::new).await
}

pub(super) async fn list(args: &ListArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let keys = keys(load)?;
    let request = wire::RangeRequest {
        limit: args.limit,
        keys_only: args.keys_only,
        count_only: args.count_only,
        serializable: args.serializable,
        ..all_keys(load)
    };
    let method = if args.stream { path::RANGE_STREAM } else { path::RANGE };
    let make = |slot| {
        let random_start = args.random_start.then(|| (keys.clone(), slot_random(load.seed, slot)));
        List::new(request.clone(), method, random_start)
    };
    measure("list", load, &load.plan(Some(1)), make, BTreeMap::new).await
}

pub(super) async fn count(args: &LoadArgs) -> Result<bool, Failure> {
    let request = wire::RangeRequest { count_only: true, ..all_keys(args) };
    let last = Rc::new(Cell::new(0));
    let make = |_| Count { framed: frame(&request), last: Rc::clone(&last) };
    measure("count", args, &args.plan(Some(1)), make, || BTreeMap::from([("count", last.get())])).await
}

pub(super) async fn page(args: &PageArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let keys = keys(load)?;
    let first = wire::RangeRequest {
        limit: i64::from(args.limit),
        keys_only: args.keys_only,
        serializable: args.serializable,
        ..all_keys(load)
    };
    let read = Rc::new(Read::default());
    let make = |slot| {
        let random = slot_random(load.seed, slot);
        Pages::new(first.clone(), args.pages, keys.clone(), random, Rc::clone(&read))
    };
    let extra = || {
        BTreeMap::from([
            ("count", read.count.get()),
            ("rows", read.rows.get().cast_signed()),
            ("rows_of_walk", read.rows_of_walk.get().cast_signed()),
            ("walks", read.walks.get().cast_signed()),
        ])
    };
    measure("page", load, &load.plan(None), make, extra).await
}

pub(super) async fn range_stream(args: &StreamArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let request = wire::RangeRequest { serializable: args.serializable, ..all_keys(load) };
    let path = if args.unary { path::RANGE } else { path::RANGE_STREAM };
    let name = if args.unary { "range-unary" } else { "range-stream" };
    let make = |_| List::new(request.clone(), path, None);
    measure(name, load, &load.plan(None), make, BTreeMap::new).await
}

/// Operations a second of a mixture when --rate is not given.
const MIXED_RATE: f64 = 2000.0;
/// Rows of a page in a mixture.
const MIXED_PAGE_ROWS: i64 = 500;

pub(super) async fn mixed(args: &MixedArgs) -> Result<bool, Failure> {
    let load = LoadArgs { rate: Some(args.load.rate.unwrap_or(MIXED_RATE)), ..args.load.clone() };
    check_slots(&load)?;
    let (keys, values) = (keys(&load)?, Values::new(load.value_size, load.seed));
    let known = Rc::new(KnownRevisions::new(load.keys));
    let plan = load.plan(None);
    let slots = plan.slots() as u64;
    let (all, last) = (all_keys(&load), Rc::new(Cell::new(0)));
    // Every part of a slot draws its own numbers: from seeds that no other slot has.
    let random = |slot: usize, part: usize| slot_random(load.seed, slot + plan.slots() * part);
    let make = |slot: usize| {
        let get = |part, serializable| Get {
            keys: keys.clone(),
            random: random(slot, part),
            serializable,
            framer: Framer::default(),
        };
        let page = wire::RangeRequest { limit: MIXED_PAGE_ROWS, ..all.clone() };
        Mixture {
            weights: args.mix.clone(),
            random: random(slot, 0),
            get: get(1, false),
            stale: get(2, true),
            put: Put {
                keys: keys.clone(),
                values: values.clone(),
                random: random(slot, 3),
                framer: Framer::default(),
            },
            update: Update {
                keys: keys.clone(),
                values: values.clone(),
                random: random(slot, 4),
                known: Rc::clone(&known),
                slot: slot as u64,
                slots,
                framer: Framer::default(),
            },
            page: List::new(page, path::RANGE, Some((keys.clone(), random(slot, 5)))),
            list: List::new(all.clone(), path::RANGE_STREAM, None),
            count: Count {
                framed: frame(&wire::RangeRequest { count_only: true, ..all.clone() }),
                last: Rc::clone(&last),
            },
            drawn: mixture::Kind::Get,
        }
    };
    let extra = || BTreeMap::from([("compares_failed", mixture::compares_failed(&known))]);
    measure("mixed", &load, &plan, make, extra).await
}

/// A read of all keys with the load's prefix.
fn all_keys(args: &LoadArgs) -> wire::RangeRequest {
    let (key, range_end) = (args.prefix.clone().into(), prefix_end(args.prefix.as_bytes()));
    wire::RangeRequest { key, range_end, ..Default::default() }
}

pub(super) async fn fill(args: &FillArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let (keys, values) = (keys(load)?, Values::new(load.value_size, load.seed));
    let next = Rc::new(Cell::new(0));
    let make = |slot| Fill {
        keys: keys.clone(),
        values: values.clone(),
        random: slot_random(load.seed, slot),
        keys_per_txn: args.keys_per_txn,
        lease: 0,
        next: Rc::clone(&next),
    };
    let whole = load.keys.div_ceil(args.keys_per_txn);
    let plan = load.plan(Some(whole));
    if plan.limit != driver::Limit::Operations(whole) {
        return Err(Failure::Usage(
            "load writes every key once: give --keys, no --total or --seconds".to_owned(),
        ));
    }
    measure("load", load, &plan, make, || BTreeMap::from([("keys", next.get() as i64)])).await
}
