//! A split-block bloom filter: does a table hold any version of this key?
//!
//! A key sets one bit in each of the eight words of one 32-byte block, so a question costs one cache line.
//! About ten bits a key give one false yes in a hundred. There is no false no.
//!
//! LAYOUT: blocks of eight words u32, little-endian; their number is a power of two.
//!
//! A writer starts with room for as many keys as could come and [`Builder::finish`] folds the filter to
//! the size that the keys that came deserve: with a power of two of blocks, block `i` of the half-sized
//! filter is blocks `2i` and `2i + 1` or-ed together.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fields::Reason;
use crate::types::Space;

/// Odd numbers that spread one 32-bit hash over eight words (those of Apache Parquet).
const SALT: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
const BLOCK_BYTES: usize = 32;
const BITS_PER_KEY: u64 = 10;
/// Blocks of the largest filter: 128 MiB, good for 100 million keys; beyond that false yeses grow.
const BLOCKS_MAX: u64 = 1 << 22;

/// Hash of a key, the same for the writer and for the question.
pub(crate) fn hash(space: Space, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, space as u64)
}

/// Which keys a table holds, approximately.
#[derive(Debug)]
pub(crate) struct Filter {
    /// Invariant: a power of two of them.
    blocks: Vec<[u32; 8]>,
}

/// A filter being filled.
#[derive(Debug)]
pub(crate) struct Builder {
    filter: Filter,
    keys: u64,
}

impl Builder {
    /// A builder with room for `keys_max` keys.
    pub(crate) fn new(keys_max: u64) -> Self {
        let blocks = blocks_for(keys_max);
        let filter = Filter { blocks: vec![[0; 8]; usize::try_from(blocks).expect("bounded")] };
        Builder { filter, keys: 0 }
    }

    /// Adds a key by its hash; each key once.
    pub(crate) fn insert(&mut self, hash: u64) {
        let index = self.filter.block_of(hash);
        for (word, mask) in self.filter.blocks[index].iter_mut().zip(masks(hash)) {
            *word |= mask;
        }
        self.keys += 1;
    }

    /// The filter's bytes, folded to the size that the inserted keys need.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut blocks = self.filter.blocks;
        let wanted = blocks_for(self.keys);
        while blocks.len() as u64 > wanted {
            blocks = blocks
                .chunks_exact(2)
                .map(|pair| std::array::from_fn(|word| pair[0][word] | pair[1][word]))
                .collect();
        }
        blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl Filter {
    /// Reads a filter.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Reason> {
        let blocks: Vec<[u32; 8]> = bytes
            .chunks_exact(BLOCK_BYTES)
            .map(|block| {
                std::array::from_fn(|word| {
                    u32::from_le_bytes(block[word * 4..word * 4 + 4].try_into().expect("4 bytes"))
                })
            })
            .collect();
        if !blocks.len().is_power_of_two() || blocks.len() * BLOCK_BYTES != bytes.len() {
            return Err("filter of a wrong size");
        }
        Ok(Filter { blocks })
    }

    /// Whether the key with this hash may be there.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let block = &self.blocks[self.block_of(hash)];
        block.iter().zip(masks(hash)).all(|(word, mask)| word & mask != 0)
    }

    fn block_of(&self, hash: u64) -> usize {
        let index = ((hash >> 32) * self.blocks.len() as u64) >> 32;
        usize::try_from(index).expect("below the number of blocks")
    }
}

fn blocks_for(keys: u64) -> u64 {
    keys.saturating_mul(BITS_PER_KEY)
        .div_ceil(8 * BLOCK_BYTES as u64)
        .clamp(1, BLOCKS_MAX)
        .next_power_of_two()
}

fn masks(hash: u64) -> impl Iterator<Item = u32> {
    let low = hash as u32;
    SALT.into_iter().map(move |salt| 1 << (low.wrapping_mul(salt) >> 27))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_false_no_and_few_false_yeses() {
        for (keys, room, why) in
            [(1u32, 1u64, "one key"), (1000, 1000, "as expected"), (1000, 1_000_000, "folded ten times")]
        {
            let mut builder = Builder::new(room);
            for key in 0..keys {
                builder.insert(hash(Space::Kv, &key.to_le_bytes()));
            }
            let bytes = builder.finish();
            assert!(bytes.len() as u64 <= 4 * (u64::from(keys) * BITS_PER_KEY / 8 + 32), "{why}");
            let filter = Filter::decode(&bytes).unwrap();
            for key in 0..keys {
                assert!(filter.may_contain(hash(Space::Kv, &key.to_le_bytes())), "{why}: {key}");
            }
            let wrong = (keys..keys + 10_000)
                .filter(|key| filter.may_contain(hash(Space::Kv, &key.to_le_bytes())))
                .count();
            assert!(wrong < 400, "{why}: {wrong} of 10000");
        }
    }

    #[test]
    fn spaces_differ_and_wrong_sizes_are_refused() {
        assert_ne!(hash(Space::Kv, b"a"), hash(Space::Lease, b"a"));
        for len in [0, 31, 33, 96] {
            assert!(Filter::decode(&vec![0; len]).is_err(), "{len} bytes");
        }
    }
}
