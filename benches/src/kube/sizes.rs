//! How large values are: by kind, as measured on real clusters.

use rand::Rng;
use rand::rngs::StdRng;

use crate::watch::stamp::STAMP_BYTES;

/// No object is larger; etcd refuses requests above 1.5 MiB.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;
/// How many standard deviations the 99th percentile is above the median.
const P99_DEVIATIONS: f64 = 2.326;

/// A distribution of sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Size {
    /// Always the same.
    Fixed(usize),
    /// Evenly between two.
    Even(usize, usize),
    /// Lognormal, by median and 99th percentile.
    Lognormal {
        /// Half are below.
        p50: f64,
        /// 99 of 100 are below.
        p99: f64,
    },
}

impl Size {
    /// A size; never too small for a stamp, never above [`VALUE_BYTES_MAX`].
    pub(crate) fn draw(self, random: &mut StdRng) -> usize {
        let bytes = match self {
            Size::Fixed(bytes) => bytes,
            Size::Even(from, to) => random.random_range(from..=to),
            Size::Lognormal { p50, p99 } => {
                let sigma = (p99 / p50).ln() / P99_DEVIATIONS;
                (p50 * (sigma * normal(random)).exp()) as usize
            }
        };
        bytes.clamp(STAMP_BYTES, VALUE_BYTES_MAX)
    }
}

/// A standard normal number, by Box and Muller.
fn normal(random: &mut StdRng) -> f64 {
    let (radius, angle): (f64, f64) = (random.random_range(f64::MIN_POSITIVE..1.0), random.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// The time to the next arrival of a Poisson process, in seconds.
pub(crate) fn exponential(random: &mut StdRng, rate: f64) -> f64 {
    -random.random_range(f64::MIN_POSITIVE..1.0).ln() / rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::payload::slot_random;

    #[test]
    fn sizes_have_their_median_and_tail() {
        let mut random = slot_random(1, 0);
        for (size, p50, p99, why) in [
            (Size::Fixed(500), 500.0, 500.0, "leases"),
            (Size::Even(600, 900), 750.0, 897.0, "events"),
            (Size::Lognormal { p50: 3000.0, p99: 10_000.0 }, 3000.0, 10_000.0, "pods"),
        ] {
            let mut drawn: Vec<usize> = (0..20_000).map(|_| size.draw(&mut random)).collect();
            drawn.sort_unstable();
            for (at, want) in [(0.5, p50), (0.99, p99)] {
                let got = drawn[(drawn.len() as f64 * at) as usize] as f64;
                assert!((got / want - 1.0).abs() < 0.06, "{why}: {got}, {want} expected at {at}");
            }
        }
    }

    #[test]
    fn arrivals_come_at_their_rate() {
        let mut random = slot_random(1, 0);
        let seconds: f64 = (0..10_000).map(|_| exponential(&mut random, 50.0)).sum();
        assert!((190.0..210.0).contains(&seconds), "10,000 arrivals at 50/s in {seconds} s");
    }
}
