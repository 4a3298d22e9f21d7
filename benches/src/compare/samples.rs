//! What the rounds gave: samples by case, server and figure; medians, spreads and ratios of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::Better;
use super::machine::Machine;

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    /// etcd.
    Etcd,
    /// Keelson.
    Keelson,
}

impl Side {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::Etcd => "etcd",
            Side::Keelson => "keelson",
        }
    }
}

/// One run of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The case and the size of its store.
    pub(crate) case: String,
    /// Whose.
    pub(crate) side: Side,
    /// The round, from 1.
    pub(crate) round: u32,
    /// Figures by name. Empty if it failed.
    pub(crate) figures: BTreeMap<String, f64>,
    /// Why it failed.
    pub(crate) failure: Option<String>,
    /// Cores that other processes kept busy.
    pub(crate) others_cores: Option<f64>,
}

/// A whole comparison, as it is kept in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Where.
    pub(crate) machine: Machine,
    /// What `--version` says, by side.
    pub(crate) versions: BTreeMap<Side, String>,
    /// Rounds.
    pub(crate) rounds: u32,
    /// Seconds of one load.
    pub(crate) seconds: f64,
    /// The stores' sizes, in keys.
    pub(crate) sizes: Vec<u64>,
    /// The load average after each round.
    pub(crate) loads: Vec<f64>,
    /// All samples.
    pub(crate) samples: Vec<Sample>,
}

/// Median, least and greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// The median.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The greatest.
    pub(crate) max: f64,
}

impl Spread {
    /// Of some numbers; `None` of none.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let (min, max) = (*numbers.first()?, *numbers.last()?);
        let middle = numbers.len() / 2;
        let median = if numbers.len() % 2 == 1 {
            numbers[middle]
        } else {
            (numbers[middle - 1] + numbers[middle]) / 2.0
        };
        Some(Spread { median, min, max })
    }
}

impl Comparison {
    fn of<'a>(&'a self, case: &'a str, side: Side) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| sample.case == case && sample.side == side)
    }

    /// A figure of one side over the rounds.
    pub(crate) fn figure(&self, case: &str, side: Side, figure: &str) -> Option<Spread> {
        Spread::of(self.of(case, side).filter_map(|sample| sample.figures.get(figure).copied()))
    }

    /// How many times better Keelson is, by round: above 1 is better whichever way the figure goes.
    pub(crate) fn ratio(&self, case: &str, figure: &str, better: Better) -> Option<Spread> {
        let by_round = |side| -> BTreeMap<u32, f64> {
            self.of(case, side)
                .filter_map(|sample| Some((sample.round, *sample.figures.get(figure)?)))
                .collect()
        };
        let (etcd, keelson) = (by_round(Side::Etcd), by_round(Side::Keelson));
        let ratio = |(round, keelson): (&u32, &f64)| {
            let etcd = etcd.get(round)?;
            let ratio = match better {
                Better::Less => etcd / keelson,
                Better::More => keelson / etcd,
                Better::Neither => return None,
            };
            ratio.is_finite().then_some(ratio)
        };
        Spread::of(keelson.iter().filter_map(ratio))
    }

    /// The cores that others kept busy during a case, on both sides.
    pub(crate) fn others(&self, case: &str) -> Option<Spread> {
        let samples = self.samples.iter().filter(|sample| sample.case == case);
        Spread::of(samples.filter_map(|sample| sample.others_cores))
    }

    /// Samples that failed.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&Sample, &str)> {
        self.samples.iter().filter_map(|sample| Some((sample, sample.failure.as_deref()?)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A comparison of one case `c` with a figure `f`: values of etcd and of Keelson by round.
    pub(crate) fn comparison(etcd: &[f64], keelson: &[f64]) -> Comparison {
        let sample = |side, (at, value): (usize, &f64)| Sample {
            case: "c".to_owned(),
            side,
            round: at as u32 + 1,
            figures: BTreeMap::from([("f".to_owned(), *value)]),
            failure: None,
            others_cores: Some(0.25),
        };
        let etcd = etcd.iter().enumerate().map(|value| sample(Side::Etcd, value));
        let keelson = keelson.iter().enumerate().map(|value| sample(Side::Keelson, value));
        Comparison {
            machine: Machine::this(),
            versions: BTreeMap::from([
                (Side::Etcd, "etcd".to_owned()),
                (Side::Keelson, "Keelson".to_owned()),
            ]),
            rounds: 3,
            seconds: 1.0,
            sizes: Vec::new(),
            loads: vec![0.5],
            samples: etcd.chain(keelson).collect(),
        }
    }

    #[test]
    fn medians() {
        for (numbers, median, why) in [
            (vec![3.0, 1.0, 2.0], Some(2.0), "odd"),
            (vec![4.0, 1.0, 2.0, 3.0], Some(2.5), "even"),
            (vec![], None, "none"),
        ] {
            assert_eq!(Spread::of(numbers).map(|spread| spread.median), median, "{why}");
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine halves its speed in the second round: medians alone would mix the two.
        let comparison = comparison(&[10.0, 20.0, 12.0], &[5.0, 10.0, 4.0]);
        let ratio = comparison.ratio("c", "f", Better::Less).expect("three rounds");
        assert_eq!((ratio.median, ratio.min, ratio.max), (2.0, 2.0, 3.0));
        let more = comparison.ratio("c", "f", Better::More).expect("three rounds");
        assert_eq!((more.median, more.max), (0.5, 0.5));
        assert_eq!(comparison.ratio("c", "f", Better::Neither), None);
    }

    #[test]
    fn a_round_with_one_side_has_no_ratio() {
        let ratio = comparison(&[10.0], &[5.0, 1.0]).ratio("c", "f", Better::Less).expect("one round");
        assert_eq!((ratio.min, ratio.max), (2.0, 2.0));
    }
}
