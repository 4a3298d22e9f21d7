//! Numbers in an order without a pattern that caches could learn, the same in each run.

/// Numbers below `count`, in an order that is the same each time and looks like none.
pub(crate) struct Shuffled {
    count: u64,
    at: u64,
}

impl Shuffled {
    /// Of the numbers below `count`, each once in every `count` steps if 2,654,435,761 does not divide it.
    pub(crate) fn below(count: u64) -> Self {
        Shuffled { count, at: 0 }
    }

    /// The next one.
    pub(crate) fn step(&mut self) -> u64 {
        self.at = (self.at + 2_654_435_761) % self.count;
        self.at
    }
}
