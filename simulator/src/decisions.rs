//! Everything that could have gone otherwise: named, taken here, logged.
//!
//! A decision has a name (`next`, `restore order`, …) and a number within that name, so that removing
//! one leaves the others where they were. A run is repeated by its seed, or by a list of overrides.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::Vector;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// One decision as it was taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// What was decided, for example `next`.
    pub name: Arc<str>,
    /// How many decisions of this name came before.
    pub number: u32,
    /// How many options there were.
    pub options: u32,
    /// The index of the option taken.
    pub chosen: u32,
}

/// Takes and records decisions. Cloning forks: both copies decide alike from here on.
#[derive(Clone, Debug)]
pub struct Decisions {
    seed: u64,
    streams: BTreeMap<Arc<str>, (ChaCha8Rng, u32)>,
    overrides: BTreeMap<(Arc<str>, u32), u32>,
    log: Vector<Decision>,
}

impl Decisions {
    /// Decisions drawn from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, streams: BTreeMap::new(), overrides: BTreeMap::new(), log: Vector::new() }
    }

    /// Takes option `chosen` at decision `number` of `name`, whatever the seed says.
    pub fn override_with(&mut self, name: &str, number: u32, chosen: u32) {
        self.overrides.insert((name.into(), number), chosen);
    }

    /// Chooses among `options`; with fewer than two there is nothing to decide and nothing is logged.
    pub fn choose(&mut self, name: &str, options: usize) -> usize {
        if options < 2 {
            return 0;
        }
        let (name, number, drawn) = self.draw(name);
        let options = u32::try_from(options).unwrap_or(u32::MAX);
        let drawn = u32::try_from(drawn % u64::from(options)).unwrap_or_default();
        let chosen =
            self.overrides.get(&(Arc::clone(&name), number)).map_or(drawn, |chosen| *chosen.min(&(options - 1)));
        self.log.push_back(Decision { name, number, options, chosen });
        chosen as usize
    }

    /// A permutation of `0..length`, as `length - 1` decisions.
    pub fn permute(&mut self, name: &str, length: usize) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..length).collect();
        let mut order = Vec::with_capacity(length);
        while !rest.is_empty() {
            order.push(rest.remove(self.choose(name, rest.len())));
        }
        order
    }

    /// Every decision so far, in order.
    #[must_use]
    pub fn log(&self) -> &Vector<Decision> {
        &self.log
    }

    fn draw(&mut self, name: &str) -> (Arc<str>, u32, u64) {
        let name: Arc<str> = match self.streams.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => name.into(),
        };
        let seed = self.seed;
        let (stream, number) = self.streams.entry(Arc::clone(&name)).or_insert_with(|| (stream_of(seed, &name), 0));
        let this = *number;
        *number += 1;
        (name, this, stream.next_u64())
    }
}

fn stream_of(seed: u64, name: &str) -> ChaCha8Rng {
    // FNV-1a: the name only has to select a stream, the generator does the mixing.
    let selector = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mut stream = ChaCha8Rng::seed_from_u64(seed);
    stream.set_stream(selector);
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_decision_of_one_name_does_not_move_another() {
        let (mut with, mut without) = (Decisions::new(7), Decisions::new(7));
        with.choose("restore order", 5);
        let next = |decisions: &mut Decisions| (0..20).map(|_| decisions.choose("next", 9)).collect::<Vec<_>>();
        assert_eq!(next(&mut with), next(&mut without));
    }

    #[test]
    fn an_override_changes_one_decision_and_leaves_the_rest() {
        let (mut plain, mut changed) = (Decisions::new(7), Decisions::new(7));
        let other = (plain.clone().choose("next", 3) + 1) % 3;
        changed.override_with("next", 0, u32::try_from(other).unwrap());
        assert_ne!(plain.choose("next", 3), changed.choose("next", 3));
        let rest = |decisions: &mut Decisions| (0..20).map(|_| decisions.choose("next", 3)).collect::<Vec<_>>();
        assert_eq!(rest(&mut plain), rest(&mut changed));
    }

    #[test]
    fn a_permutation_has_every_element_once() {
        let mut order = Decisions::new(1).permute("restore order", 8);
        order.sort_unstable();
        assert_eq!(order, (0..8).collect::<Vec<_>>());
    }
}
