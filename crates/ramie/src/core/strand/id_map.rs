//! Maps and sets of strands by their ids, for dumps of a million strands.
//!
//! std's hasher takes as long as the rest of an insertion. It protects against keys that an
//! attacker chooses, and ids are chosen by this process.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

use super::FiberId;

pub(crate) type IdMap<T> = HashMap<FiberId, T, BuildHasherDefault<IdHasher>>;
pub(crate) type IdSet = HashSet<FiberId, BuildHasherDefault<IdHasher>>;

/// Keeps the low bits, by which a map finds the place: the indices of headers, one after another in
/// memory, stay so in the map. The upper bits, which tell ids at one place apart, are mixed.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

/// 2^64 divided by the golden ratio: Knuth, The Art of Computer Programming, volume 3, 6.4.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const UPPER: u64 = 0xfe << 56;

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte) ^ self.0 << 8));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(FACTOR) & UPPER | id & !UPPER;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_again_and_told_apart() {
        let ids = || (1..4).flat_map(|generation| (0..1000).map(move |i| (i, generation)));
        let mut map = IdMap::default();
        map.extend(ids().map(|(index, generation)| (FiberId::new(index, generation), index)));
        assert_eq!(map.len(), 3000);
        for (index, generation) in ids() {
            assert_eq!(map.get(&FiberId::new(index, generation)), Some(&index));
            assert!(!map.contains_key(&FiberId::new(index + 1000, generation)));
        }
    }
}
