//! A mixture: each call is drawn from several kinds by weight.

use std::rc::Rc;
use std::str::FromStr;
use std::time::Instant;

use rand::Rng;
use rand::rngs::StdRng;

use super::work::{Count, Get, KnownRevisions, List, Put, Update, Work};
use crate::client::{Connection, Failure};

/// A kind of call in a mixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// A linearizable read of a random key.
    Get,
    /// A serializable read of a random key.
    Stale,
    /// A put to a random key.
    Put,
    /// kube-apiserver's update of a random key.
    Update,
    /// A page from a random key on.
    Page,
    /// All keys by RangeStream.
    List,
    /// A count of all keys.
    Count,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Get => "get",
            Kind::Stale => "stale",
            Kind::Put => "put",
            Kind::Update => "update",
            Kind::Page => "page",
            Kind::List => "list",
            Kind::Count => "count",
        }
    }
}

/// Kinds and their weights, as `get=60,put=30`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weights(Vec<(Kind, u32)>);

impl FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |part: &str| {
            let (name, weight) = part.split_once('=').ok_or(format!("`{part}` is not KIND=WEIGHT"))?;
            let kind = <Kind as clap::ValueEnum>::from_str(name, false)
                .map_err(|_| format!("`{name}` is none of get, stale, put, update, page, list, count"))?;
            let weight = weight.parse().map_err(|_| format!("`{weight}` is no whole number"))?;
            Ok::<_, String>((kind, weight))
        };
        let weights: Vec<_> = text.split(',').map(part).collect::<Result<_, _>>()?;
        if weights.iter().all(|(_, weight)| *weight == 0) {
            return Err("one weight must be above 0".to_owned());
        }
        Ok(Weights(weights))
    }
}

impl Weights {
    fn draw(&self, random: &mut StdRng) -> Kind {
        let total: u64 = self.0.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut at = random.random_range(0..total);
        for (kind, weight) in &self.0 {
            match at.checked_sub(u64::from(*weight)) {
                None => return *kind,
                Some(rest) => at = rest,
            }
        }
        unreachable!("a number below the sum of the weights lies within one of them")
    }
}

/// A slot that draws each call.
pub(crate) struct Mixture {
    pub(crate) weights: Weights,
    pub(crate) random: StdRng,
    pub(crate) get: Get,
    pub(crate) stale: Get,
    pub(crate) put: Put,
    pub(crate) update: Update,
    pub(crate) page: List,
    pub(crate) list: List,
    pub(crate) count: Count,
    /// The kind drawn last.
    pub(crate) drawn: Kind,
}

impl Work for Mixture {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        self.drawn = self.weights.draw(&mut self.random);
        match self.drawn {
            Kind::Get => self.get.call(connection).await,
            Kind::Stale => self.stale.call(connection).await,
            Kind::Put => self.put.call(connection).await,
            Kind::Update => self.update.call(connection).await,
            Kind::Page => self.page.call(connection).await,
            Kind::List => self.list.call(connection).await,
            Kind::Count => self.count.call(connection).await,
        }
    }

    fn kind(&self, _: Instant) -> Option<&'static str> {
        Some(self.drawn.name())
    }
}

/// Compares that failed, in updates of keys that puts of the same mixture had changed.
pub(crate) fn compares_failed(known: &Rc<KnownRevisions>) -> i64 {
    known.compares_failed.get().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::payload::slot_random;

    #[test]
    fn weights_are_kept() {
        let weights: Weights = "get=3,stale=0,put=1".parse().expect("weights");
        let mut random = slot_random(1, 0);
        let puts = (0..4000).filter(|_| weights.draw(&mut random) == Kind::Put).count();
        assert!((900..1100).contains(&puts), "{puts} of 4000 at one in four");
    }

    #[test]
    fn wrong_weights_are_refused() {
        for (text, why) in [
            ("", "nothing"),
            ("get", "no weight"),
            ("got=1", "no kind"),
            ("get=-1", "below 0"),
            ("get=0,put=0", "never anything"),
        ] {
            assert!(text.parse::<Weights>().is_err(), "`{text}`: {why}");
        }
    }
}
