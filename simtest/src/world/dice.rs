//! Chance from a seed. Written out here, so that a seed means the same for ever.

/// A generator of numbers (splitmix64); the same seed draws the same numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A generator for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A generator whose numbers have nothing to do with this one's, and which does not change this one.
    #[must_use]
    pub fn apart(&self, purpose: u64) -> Dice {
        let mut mixed = Dice(self.0 ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Dice(mixed.draw())
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` up to and including `high`.
    ///
    /// # Panics
    /// If `high` is below `low`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "nothing to draw between {low} and {high}");
        low + self.draw() % (high - low).saturating_add(1).max(1)
    }

    /// True once in `times` draws on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.draw().is_multiple_of(times.max(1))
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.between(0, choices.len() as u64 - 1);
        choices[usize::try_from(at).expect("an index")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_for_ever() {
        let mut dice = Dice::new(7);
        assert_eq!((dice.draw(), dice.draw()), (7_191_089_600_892_374_487, 12_080_400_892_462_534_711));
        let apart = Dice::new(7).apart(1).draw();
        assert_ne!(apart, Dice::new(7).apart(2).draw());
        assert_ne!(apart, Dice::new(8).apart(1).draw());
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_them() {
        let mut dice = Dice::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| dice.between(3, 6)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!(dice.between(9, 9), 9);
        assert!((0..100).any(|_| dice.one_in(10)) && (0..100).any(|_| !dice.one_in(2)));
    }
}
