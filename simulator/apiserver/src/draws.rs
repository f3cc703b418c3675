//! Chance, as named streams from one seed: a new draw in one stream does not move another.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// Named random streams. Cloning forks them: both copies draw the same from here on.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: u64,
    streams: BTreeMap<&'static str, ChaCha8Rng>,
}

/// What Kubernetes makes generated name suffixes of (`k8s.io/apimachinery/pkg/util/rand`).
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Draws {
    /// Streams for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, streams: BTreeMap::new() }
    }

    /// The next number of a stream.
    pub fn next(&mut self, stream: &'static str) -> u64 {
        let seed = self.seed;
        self.streams
            .entry(stream)
            .or_insert_with(|| {
                let mut hash = Sha256::new();
                hash.update(seed.to_le_bytes());
                hash.update(stream.as_bytes());
                ChaCha8Rng::from_seed(hash.finalize().into())
            })
            .next_u64()
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, stream: &'static str, bound: u64) -> u64 {
        assert!(bound > 0, "a draw needs something to draw from");
        // The bias of a plain remainder is below 2^-32 for every bound in use.
        self.next(stream) % bound
    }

    /// A version 4 uid.
    pub fn uid(&mut self) -> String {
        let bits = (u128::from(self.next("uid")) << 64) | u128::from(self.next("uid"));
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
    }

    /// A suffix for `generateName`: five letters.
    pub fn name_suffix(&mut self) -> String {
        (0..5)
            .map(|_| {
                let index = self.below("name", SUFFIX_LETTERS.len() as u64);
                char::from(SUFFIX_LETTERS[usize::try_from(index).unwrap_or_default()])
            })
            .collect()
    }
}
