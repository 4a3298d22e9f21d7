//! Keys and values of a load: keys are numbers at the end of a prefix, values are slices of one random buffer.

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::client::Failure;

/// Bytes of the buffer that values are cut from; small enough to stay in a core's cache.
const POOL_BYTES: usize = 1 << 20;

/// The keys of a load: `prefix` followed by the index, zero-padded to `size` bytes.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
    digits: usize,
    /// How many keys there are.
    pub(crate) count: u64,
}

impl Keys {
    /// The keys `0..count` of `size` bytes each.
    ///
    /// # Errors
    /// [`Failure::Usage`] if `size` has no room for prefix and index, or there is no key.
    pub(crate) fn new(prefix: &str, size: usize, count: u64) -> Result<Self, Failure> {
        let Some(last) = count.checked_sub(1) else {
            return Err(Failure::Usage("--keys must be at least 1".to_owned()));
        };
        let needed = last.to_string().len();
        match size.checked_sub(prefix.len()) {
            Some(digits) if digits >= needed => Ok(Keys { prefix: prefix.to_owned(), digits, count }),
            _ => Err(Failure::Usage(format!(
                "--key-size {size} has no room for the prefix `{prefix}` and {needed} digits"
            ))),
        }
    }

    /// The key of `index`.
    pub(crate) fn key(&self, index: u64) -> Bytes {
        let mut key = Vec::with_capacity(self.prefix.len() + self.digits);
        key.extend_from_slice(self.prefix.as_bytes());
        key.resize(self.prefix.len() + self.digits, b'0');
        let mut rest = index;
        for digit in key[self.prefix.len()..].iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        key.into()
    }
}

/// Random, incompressible values that cost nothing to take.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pool: Bytes,
    size: usize,
}

impl Values {
    /// Values of `size` bytes.
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        let mut pool = vec![0; POOL_BYTES + size];
        StdRng::seed_from_u64(seed).fill_bytes(&mut pool);
        Values { pool: pool.into(), size }
    }

    /// A value; there are a million different ones.
    pub(crate) fn pick(&self, random: &mut StdRng) -> Bytes {
        self.pick_sized(random, self.size)
    }

    /// A value of `size` bytes, which is at most that of the others.
    pub(crate) fn pick_sized(&self, random: &mut StdRng, size: usize) -> Bytes {
        let from = random.random_range(0..=self.pool.len() - size);
        self.pool.slice(from..from + size)
    }
}

/// The random numbers of one slot: independent of the other slots', the same for the same seed.
pub(crate) fn slot_random(seed: u64, slot: usize) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(slot as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_size_and_order() {
        let keys = Keys::new("/load/", 12, 1000).expect("there is room");
        assert_eq!(&keys.key(0)[..], b"/load/000000");
        assert_eq!(&keys.key(999)[..], b"/load/000999");
        assert!(keys.key(9) < keys.key(10));
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        for (size, count, fits, why) in [
            (9, 1000, true, "three digits for 0..=999"),
            (8, 1000, false, "two digits are too few"),
            (5, 1, false, "shorter than the prefix"),
            (60, 0, false, "no key"),
        ] {
            assert_eq!(Keys::new("/load/", size, count).is_ok(), fits, "{why}");
        }
    }

    #[test]
    fn values_differ_and_repeat_with_the_seed() {
        let pick = |seed| Values::new(1024, seed).pick(&mut slot_random(seed, 0));
        assert_eq!(pick(1).len(), 1024);
        assert_eq!(pick(1), pick(1));
        assert_ne!(pick(1), pick(2));
        assert_ne!(
            slot_random(1, 0).next_u64(),
            slot_random(1, 1).next_u64(),
            "slots draw their own numbers"
        );
    }
}
