//! The same requests to Keelson and to etcd, every answer compared.
//!
//! * `story`: the requests, by chance from a seed.
//! * `step`: one request and what came of it, as plain data.
//! * `peer`, `watches`: one server, asked step by step.
//! * `etcd`: a real etcd beside the test.
//! * `recording`: what etcd answered, kept in files.
//!
//! `cargo test` plays the recordings against a Keelson of its own: it needs no etcd. `scripts/differential.sh` runs
//! the rest, with as many seeds as wanted, and makes the recordings.

mod etcd;
mod peer;
mod recording;
mod step;
mod story;
mod watches;

#[path = "../common/mod.rs"]
mod common;

use std::net::SocketAddr;
use std::ops::Range;

use common::{Running, served, soon};
use etcd::Etcd;
use peer::Peer;
use step::{Outcome, Step};
use story::Story;

/// Steps that are shown before one that differs.
const SHOWN: usize = 4;

/// Characters of an outcome that are shown.
const SHOWN_CHARACTERS: usize = 3000;

/// A step whose outcomes differ.
struct Difference {
    at: usize,
    text: String,
}

/// Compares the outcomes of one step.
fn difference(
    at: usize,
    done: &[(Step, Outcome)],
    step: &Step,
    etcd: &Outcome,
    keelson: &Outcome,
) -> Option<Difference> {
    if etcd == keelson {
        return None;
    }
    let mut text = String::new();
    for (step, outcome) in done.iter().rev().take(SHOWN).rev() {
        text += &format!(
            "  before: {}\n      {}\n",
            shortened(format!("{step:?}")),
            shortened(step.show(outcome))
        );
    }
    text += &format!("  step {at}: {}\n", shortened(format!("{step:?}")));
    text += &format!(
        "    etcd:    {}\n    keelson: {}\n",
        shortened(step.show(etcd)),
        shortened(step.show(keelson))
    );
    Some(Difference { at, text })
}

fn shortened(text: String) -> String {
    if text.len() < SHOWN_CHARACTERS { text } else { text.chars().take(SHOWN_CHARACTERS).collect() }
}

#[test]
fn keelson_answers_as_etcd_did() {
    for (name, steps) in recording::all() {
        served(async |running| {
            let mut keelson = Peer::connect(running.client).await;
            let mut done = Vec::new();
            for (at, (step, etcd)) in steps.into_iter().enumerate() {
                let outcome = soon(keelson.take(&step)).await;
                if let Some(difference) = difference(at, &done, &step, &etcd, &outcome) {
                    panic!("recording {name}\n{}", difference.text);
                }
                done.push((step, etcd));
            }
        });
    }
}

/// A number or a range of numbers from the environment.
fn seeds() -> Range<u64> {
    let text = std::env::var("SEEDS").unwrap_or_else(|_| "1..4".to_owned());
    let (first, end) = text.split_once("..").expect("SEEDS is FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

fn steps() -> usize {
    std::env::var("STEPS").map_or(2000, |text| text.parse().expect("STEPS is a number"))
}

/// Tells the story of `seed` to both; gives what was done and the first difference.
async fn compare(
    seed: u64,
    etcd: SocketAddr,
    keelson: SocketAddr,
) -> (Vec<(Step, Outcome)>, Option<Difference>) {
    let mut etcd = Peer::connect(etcd).await;
    let mut keelson = Peer::connect(keelson).await;
    let mut story = Story::new(seed);
    let mut done: Vec<(Step, Outcome)> = Vec::new();
    let mut last = None;
    for at in 0.. {
        let step = if at < steps() {
            story.next_step()
        } else {
            match last.get_or_insert_with(|| story.last_steps().into_iter()).next() {
                Some(step) => step,
                None => return (done, None),
            }
        };
        let (theirs, ours) = tokio::join!(soon(etcd.take(&step)), soon(keelson.take(&step)));
        story.learn(&step, &theirs);
        if let Some(difference) = difference(at, &done, &step, &theirs, &ours) {
            return (done, Some(difference));
        }
        done.push((step, theirs));
    }
    unreachable!("the loop ends with the story")
}

#[test]
#[ignore = "needs etcd: scripts/differential.sh"]
fn keelson_answers_as_etcd_does() {
    let program = etcd::program().expect("ETCD names the program");
    let (mut requests, mut transactions, mut compactions, mut differences) = (0, 0, 0, 0);
    for seed in seeds() {
        let etcd = Etcd::start(&program);
        served(async |running: &mut Running| {
            let (done, difference) = compare(seed, etcd.address, running.client).await;
            requests += done.len();
            transactions += done.iter().filter(|(step, _)| matches!(step, Step::Txn(_))).count();
            compactions += done.iter().filter(|(step, _)| matches!(step, Step::Compact(_))).count();
            if let Some(difference) = difference {
                differences += 1;
                println!("seed {seed} differs at step {}\n{}", difference.at, difference.text);
            }
        });
    }
    println!(
        "{requests} requests, {transactions} transactions, {compactions} compactions, {differences} differences"
    );
    assert_eq!(differences, 0);
}

#[test]
#[ignore = "makes the recordings anew; needs etcd: scripts/differential.sh --record"]
fn etcd_is_recorded() {
    let program = etcd::program().expect("ETCD names the program");
    for seed in seeds() {
        let etcd = Etcd::start(&program);
        served(async |running: &mut Running| {
            let (done, difference) = compare(seed, etcd.address, running.client).await;
            if let Some(difference) = difference {
                panic!("seed {seed}: only what agrees is recorded\n{}", difference.text);
            }
            recording::write(&format!("story-{seed}"), &done);
        });
    }
}
