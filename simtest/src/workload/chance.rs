//! Choices that both profiles make: from a seeded generator, nothing else.

use bytes::Bytes;
use rand::Rng as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// The choices of one task of a run; `task` tells tasks of one seed apart.
pub(crate) fn generator(seed: u64, task: u64) -> StdRng {
    // Mixed, so that neighbouring seeds and tasks do not share streams.
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ task.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

/// An index below `len`, the small ones far more often.
pub(crate) fn skewed(random: &mut StdRng, len: usize) -> usize {
    let share: f64 = random.random::<f64>().powi(3);
    // Truncation is what is wanted.
    ((share * len as f64) as usize).min(len - 1)
}

/// One of `choices` by weight.
pub(crate) fn weighted<T: Copy>(random: &mut StdRng, choices: &[(u32, T)]) -> T {
    let sum: u32 = choices.iter().map(|(weight, _)| weight).sum();
    let mut left = random.random_range(0..sum);
    for (weight, choice) in choices {
        if left < *weight {
            return *choice;
        }
        left -= weight;
    }
    unreachable!("the weights sum up to more than {left}")
}

/// Whether something happens that does `times` in a thousand.
pub(crate) fn permille(random: &mut StdRng, times: u32) -> bool {
    random.random_ratio(times, 1000)
}

/// A value like no other: `number` and then filling, `len` bytes or a little more.
pub(crate) fn value(number: u64, len: usize) -> Bytes {
    let mut value = format!("{number:x}.").into_bytes();
    while value.len() < len {
        value.push(b'a' + (value.len() % 26) as u8);
    }
    Bytes::from(value)
}

/// The end of the interval of all keys that begin with `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return Bytes::from(end);
        }
    }
    Bytes::from_static(b"\0")
}
