//! Makes inputs for a target, and keeps those that reach new code.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{coverage::Coverage, heap, mutate::mutate};

/// A decoder.
pub struct Target {
    pub name: &'static str,
    /// Valid inputs.
    pub seeds: Vec<Vec<u8>>,
    /// Words of a text format.
    pub words: &'static [&'static str],
    /// Decodes an input, and panics if something does not hold for it.
    pub check: fn(&[u8]),
    /// Inputs, unless the environment sets another number.
    pub cases: u64,
    /// Bytes that the check may hold for each byte of the input, and in any case.
    pub memory: MemoryBound,
}

pub struct MemoryBound {
    pub per_byte: usize,
    pub always: usize,
}

/// The smallest multiple and the base that suffice for most decoders and their checks.
pub const SMALL: MemoryBound = MemoryBound { per_byte: 64, always: 64 << 10 };

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

impl Target {
    /// Checks the seeds, and inputs made from them.
    pub fn run(self) {
        let seed = number("CAPSTAN_FUZZ_SEED").unwrap_or(1);
        let time = number("CAPSTAN_FUZZ_SECONDS").map(Duration::from_secs);
        let cases = number("CAPSTAN_FUZZ_CASES").unwrap_or(self.cases);
        let mut hasher = DefaultHasher::new();
        (seed, self.name).hash(&mut hasher);
        let mut random = StdRng::seed_from_u64(hasher.finish());
        let (mut corpus, mut coverage) = (self.seeds.clone(), Coverage::default());
        corpus.extend(saved(self.name));
        assert!(!corpus.is_empty(), "{}: no valid input", self.name);
        for input in &corpus {
            self.check_one(input, seed, &mut coverage);
        }
        let (begun, mut done) = (Instant::now(), 0_u64);
        while time.map_or(done < cases, |time| begun.elapsed() < time) {
            let mut input = corpus.choose(&mut random).expect("not empty").clone();
            let other = corpus.choose(&mut random).expect("not empty");
            mutate(&mut input, other, self.words, &mut random);
            // Unguided, a chain of changes still leaves the neighbourhood of the seeds.
            let is_new = self.check_one(&input, seed, &mut coverage);
            if is_new || !Coverage::IS_GUIDED && random.random_ratio(1, 64) {
                if Coverage::IS_GUIDED {
                    save(self.name, &input);
                }
                corpus.push(input);
            }
            done += 1;
        }
        let (kept, reached) = (corpus.len(), coverage.reached());
        println!("{}: seed {seed}, {done} inputs, {kept} kept, {reached} counters", self.name);
    }

    /// Returns whether the input reached new code.
    fn check_one(&self, input: &[u8], seed: u64, coverage: &mut Coverage) -> bool {
        coverage.begin();
        let MemoryBound { per_byte, always } = self.memory;
        let (max, mut held) = (per_byte * input.len() + always, 0);
        let checked = catch_unwind(AssertUnwindSafe(|| {
            held = heap::peak_of(|| (self.check)(input));
        }));
        let is_new = coverage.is_new();
        if let Err(panic) = checked {
            eprintln!("{}: seed {seed}, input {}", self.name, hex::encode(input));
            resume_unwind(panic);
        }
        let (name, len) = (self.name, input.len());
        assert!(
            held <= max,
            "{name}: seed {seed}, {held} bytes held for an input of {len}: {}",
            hex::encode(input)
        );
        is_new
    }
}

/// The inputs that runs guided by coverage have kept, in a folder that git ignores.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz").join(name)
}

fn saved(name: &str) -> Vec<Vec<u8>> {
    if !Coverage::IS_GUIDED {
        return Vec::new();
    }
    let files = fs::read_dir(folder(name)).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read(file.path()).ok()).collect()
}

fn save(name: &str, input: &[u8]) {
    let folder = folder(name);
    fs::create_dir_all(&folder).expect("a folder");
    let name = blake3::hash(input).to_hex();
    fs::write(folder.join(&name.as_str()[..16]), input).expect("a file");
}
