//! Points for the bench: a block of distinct ones, which tables repeat.

use ark_bls12_381::{Fq, Fq2, G1Affine, G2Affine, g1, g2};
use ark_ec::{AffineRepr, CurveGroup, PrimeGroup, short_weierstrass::Projective};
use ark_ff::{BigInt, BigInteger, PrimeField, Zero};
use bytemuck::Pod;
use capstan::device::{DeviceLease, DeviceSlice};
use rayon::prelude::*;

use crate::rig::BenchRig;

/// A group whose points the device holds as x and y, in 64-bit words of the Montgomery form.
pub trait BenchGroup: CurveGroup + PrimeGroup<ScalarField = ark_bls12_381::Fr> {
    /// The words of a point.
    type Words: Pod + Send + Sync;
    /// `g1` or `g2`.
    const NAME: &'static str;
    const COORDINATE_BYTES: usize;

    /// The words of a point; both coordinates are 0 for infinity.
    fn words(point: &Self::Affine) -> Self::Words;
    /// Reads affine coordinates, which may exceed their canonical form by a few times the modulus.
    fn from_affine_words(words: &[u64]) -> Self::Affine;
    /// Reads XYZZ coordinates: x = X / ZZ and y = Y / ZZZ.
    fn from_xyzz_words(words: &[u64]) -> Self::Affine;
}

fn fq(words: &[u64]) -> Fq {
    let mut value = BigInt::<6>(words[..6].try_into().expect("six words"));
    while value >= Fq::MODULUS {
        value.sub_with_borrow(&Fq::MODULUS);
    }
    Fq::new_unchecked(value)
}

fn fq2(words: &[u64]) -> Fq2 {
    Fq2::new(fq(&words[..6]), fq(&words[6..]))
}

macro_rules! group {
    ($projective:ty, $affine:ty, $name:literal, $words:literal, $read:ident, $limbs:expr) => {
        impl BenchGroup for $projective {
            type Words = [u64; 2 * $words];
            const NAME: &'static str = $name;
            const COORDINATE_BYTES: usize = 8 * $words;

            fn words(point: &$affine) -> Self::Words {
                let mut words = [0; 2 * $words];
                if let Some((x, y)) = point.xy() {
                    let limbs = $limbs(&x).into_iter().chain($limbs(&y)).flatten();
                    words.iter_mut().zip(limbs).for_each(|(word, limb)| *word = limb);
                }
                words
            }

            fn from_affine_words(words: &[u64]) -> $affine {
                let (x, y) = ($read(words), $read(&words[$words..]));
                if x.is_zero() && y.is_zero() {
                    return <$affine>::identity();
                }
                <$affine>::new_unchecked(x, y)
            }

            fn from_xyzz_words(words: &[u64]) -> $affine {
                let part = |i: usize| $read(&words[i * $words..]);
                if part(2).is_zero() {
                    return <$affine>::identity();
                }
                <$affine>::new_unchecked(part(0) / part(2), part(1) / part(3))
            }
        }
    };
}

group!(Projective<g1::Config>, G1Affine, "g1", 6, fq, |a: &Fq| [a.0.0]);
group!(Projective<g2::Config>, G2Affine, "g2", 12, fq2, |a: &Fq2| [a.c0.0.0, a.c1.0.0]);

/// Distinct points, and the same in the device's representation.
pub struct KnownPoints<G: BenchGroup> {
    pub affine: Vec<G::Affine>,
    words: Vec<G::Words>,
}

impl<G: BenchGroup> KnownPoints<G> {
    /// The first `count` of the multiples 1, 1 + k, 1 + 2k, ... of the generator, for a large k.
    pub fn new(count: usize) -> Self {
        let step = Self::step();
        let grain = count.div_ceil(256);
        let part = |first: usize| {
            let start = G::generator() + step * G::ScalarField::from(first as u64);
            let sums = std::iter::successors(Some(start), |sum| Some(*sum + step));
            G::normalize_batch(&sums.take(grain.min(count - first)).collect::<Vec<_>>())
        };
        let starts: Vec<_> = (0..count).step_by(grain).collect();
        let affine: Vec<_> = starts.into_par_iter().flat_map_iter(part).collect();
        let words = affine.par_iter().map(G::words).collect();
        Self { affine, words }
    }

    /// The discrete logarithm of [`KnownPoints::at`], unless that is infinity.
    pub fn logarithm(&self, index: usize) -> G::ScalarField {
        let steps = (index % self.affine.len()) as u64;
        G::ScalarField::from(1) + G::ScalarField::from(u64::MAX) * G::ScalarField::from(steps)
    }

    /// Replaces all points by infinity whose index is not a multiple of `step`.
    pub fn with_infinities(mut self, step: usize) -> Self {
        for (i, affine) in self.affine.iter_mut().enumerate().filter(|(i, _)| i % step != 0) {
            *affine = G::Affine::zero();
            self.words[i] = G::words(affine);
        }
        self
    }

    /// k times the generator.
    pub fn step() -> G {
        G::generator() * G::ScalarField::from(u64::MAX)
    }

    /// The point at `index` of a table that repeats the block.
    pub fn at(&self, index: usize) -> G::Affine {
        self.affine[index % self.affine.len()]
    }

    /// A table of `count` points that repeats the block, starting with its point `first`.
    pub fn table(&self, rig: &BenchRig, count: usize, first: usize) -> DeviceLease {
        repeat(rig, &self.words, count, first)
    }

    /// Fills `table` with repetitions of the block.
    pub fn fill(&self, rig: &BenchRig, table: DeviceSlice<'_, u8>) {
        fill(rig, &self.words, table.cast().expect("points"), 0);
    }
}

/// `count` elements on the device that repeat `block`, starting with its element `first`.
fn repeat<T: Pod>(rig: &BenchRig, block: &[T], count: usize, first: usize) -> DeviceLease {
    let table = rig.lease::<T>(count);
    fill(rig, block, table.all(), first);
    table
}

fn fill<T: Pod>(rig: &BenchRig, block: &[T], table: DeviceSlice<'_, T>, first: usize) {
    let (count, mut done) = (table.len(), 0);
    while done < count {
        let from = (first + done) % block.len();
        let take = (block.len() - from).min(count - done);
        rig.put(table.slice(done, take).expect("inside"), &block[from..from + take]);
        done += take;
    }
}
