//! `kernels/integers`: limbs from residues, compared with coefficients that are carried one by one.

use capstan::{
    device::{DeviceLease, DevicePtr, Kernel},
    ntt::StridedRows,
    ntt31::{DeviceResidues, LimbKernels, LimbRows, ResidueShape},
};
use rand::{Rng, rngs::StdRng};

use crate::{
    elements::rng,
    gpu::{KernelRig, each_seed},
};

const PRIMES: [u128; 3] = [469_762_049, 1_811_939_329, 2_013_265_921];
/// Limbs of a tile, of which a block computes one for each part.
const TILE: u32 = 4 * 504;
const ONES: u128 = u32::MAX as u128;

/// The limbs of the sum of c[i] 2^(32 i).
fn limbs(coefficients: &[u128], count: usize) -> Vec<u32> {
    let mut carry = 0;
    let limb = |coefficient: &u128| {
        let sum = carry + coefficient;
        carry = sum >> 32;
        sum as u32
    };
    coefficients[..count].iter().map(limb).collect()
}

/// Rows for a kernel to set, with words around them that it must not touch.
pub(crate) struct OutputRows<'a> {
    rig: &'a KernelRig,
    memory: DeviceLease,
    rows: usize,
    length: usize,
    stride: usize,
}

impl<'a> OutputRows<'a> {
    const UNUSED: u32 = 0x5a5a_5a5a;
    const GUARD: usize = 64;

    pub fn new(rig: &'a KernelRig, rows: usize, length: usize) -> Self {
        let stride = length.next_multiple_of(4) + 4 * (length % 2);
        let memory = rig.upload(&vec![Self::UNUSED; rows * stride + Self::GUARD]);
        Self { rig, memory, rows, length, stride }
    }

    pub fn rows(&self) -> LimbRows<'_> {
        LimbRows {
            limbs: StridedRows { vector: self.memory.all(), stride: self.stride },
            rows: self.rows as u32,
            length: self.length as u32,
        }
    }

    pub fn check(&self, expected: &[Vec<u32>], what: &str) {
        let found = self.rig.download::<u32>(&self.memory);
        let (rows, guard) = found.split_at(self.rows * self.stride);
        for (row, (found, expected)) in rows.chunks(self.stride.max(1)).zip(expected).enumerate() {
            let wrong = (0..self.length).find(|at| found[*at] != expected[*at]);
            assert_eq!(wrong, None, "{what}, row {row} of {}, {} limbs", self.rows, self.length);
            let others = &found[self.length..];
            assert!(others.iter().all(|word| *word == Self::UNUSED), "{what}: after row {row}");
        }
        assert!(guard.iter().all(|word| *word == Self::UNUSED), "{what}: after the last row");
    }
}

struct Case<'a> {
    rig: &'a KernelRig,
    kernels: &'a LimbKernels,
    parts: u32,
    /// Coefficients of a part.
    length: u32,
}

impl Case<'_> {
    fn coefficient_count(&self) -> usize {
        (self.parts * self.length) as usize
    }

    /// The residues of the coefficients of each row for all primes, modulo x^u - 1 and x^(2u) + 1.
    fn residues(&self, rows: &[Vec<u128>], stride: usize) -> [Vec<u32>; 2] {
        let (parts, length) = (self.parts as usize, self.length as usize);
        let unused = 0xabab_abab;
        let words = rows.len() * length;
        let mut cyclic = vec![unused; 2 * stride + words];
        let mut negacyclic = vec![unused; 2 * stride + words * (parts - 1)];
        for (number, prime) in PRIMES.into_iter().enumerate() {
            for (row, coefficients) in rows.iter().enumerate() {
                let of_part = |part, at| match part < parts {
                    true => coefficients[part * length + at] % prime,
                    false => 0,
                };
                for at in 0..length {
                    let [first, second, third] = [0, 1, 2].map(|part| of_part(part, at));
                    let of_prime = number * stride;
                    cyclic[of_prime + row * length + at] =
                        ((first + second + third) % prime) as u32;
                    if parts == 3 {
                        let low = of_prime + 2 * row * length + at;
                        negacyclic[low] = ((first + prime - third) % prime) as u32;
                        negacyclic[low + length] = second as u32;
                    }
                }
            }
        }
        [cyclic, negacyclic]
    }

    /// Coefficients are below 2^90, or 2^89 if the product has several parts. Rows after the first
    /// have them in another order.
    fn check(&self, what: &str, coefficients: &[u128], limb_count: usize) {
        let &Self { rig, kernels, parts, length } = self;
        let rows: Vec<_> = (0..1 + limb_count % 3)
            .map(|row| {
                let mut coefficients = coefficients.to_vec();
                coefficients.rotate_left(row);
                coefficients
            })
            .collect();
        let words = rows.len() * (length.max(length * (parts - 1)) as usize);
        let stride = words + 4 * (limb_count % 5);
        let [cyclic, negacyclic] = self.residues(&rows, stride);
        let (cyclic, negacyclic) = (rig.upload(&cyclic), rig.upload(&negacyclic));
        let count = rows.len() as u32;
        let shape = ResidueShape { rows: count, parts, length, stride: stride as u64 };
        let out = OutputRows::new(rig, rows.len(), limb_count);
        let residues = DeviceResidues {
            shape,
            cyclic: cyclic.all(),
            negacyclic: (parts > 1).then(|| negacyclic.all()),
        };
        let scratch = shape.carry_scratch(|bytes| rig.gpu().arena().lease(rig.stream(), bytes));
        residues.launch_limbs(kernels, rig.stream(), &scratch.unwrap(), out.rows()).unwrap();
        let expected: Vec<_> = rows.iter().map(|row| limbs(row, limb_count)).collect();
        out.check(&expected, &format!("{what}: {parts} parts of {length}"));
    }

    /// Below 2^`bits`.
    fn random(rng: &mut StdRng, bits: u32) -> u128 {
        rng.random::<u128>() >> (128 - bits)
    }

    /// Random and extreme coefficients.
    fn check_coefficients(&self, limb_count: usize, rng: &mut StdRng) {
        let count = self.coefficient_count();
        let bits = if self.parts == 1 { 90 } else { 89 };
        let random: Vec<_> = (0..count).map(|_| Self::random(rng, bits)).collect();
        self.check("random coefficients", &random, limb_count);
        self.check("largest coefficients", &vec![(1 << bits) - 1; count], limb_count);
        let factor = count as u128 / 2;
        let of_ones = |at: usize| ONES * ONES * (at as u128 + 1).min(2 * factor - 1 - at as u128);
        let mut squares: Vec<_> = (0..2 * factor as usize - 1).map(of_ones).collect();
        squares.resize(count, 0);
        self.check("all ones times all ones", &squares, limb_count);
    }

    /// Carries of one, through as many limbs as possible.
    fn check_carries(&self, limb_count: usize, rng: &mut StdRng) {
        let count = self.coefficient_count();
        let mut ones = vec![ONES; count];
        self.check("all limbs ones", &ones, limb_count);
        for first in [1_u128 << 32, 1 << 84] {
            ones[0] = first;
            self.check("a carry through all limbs", &ones, limb_count);
        }
        // Runs of ones that start and end near the limits of tiles, warps and quads.
        for step in [TILE as usize, 128] {
            let mut runs = vec![ONES; count];
            for limit in (0..=count).step_by(step) {
                let at = (limit + rng.random_range(0..9)).saturating_sub(4);
                if let Some(coefficient) = runs.get_mut(at) {
                    let wide = Self::random(rng, 80);
                    *coefficient = [1 << 32, 0, wide][rng.random_range(0..3)];
                }
            }
            self.check("runs of ones", &runs, limb_count);
        }
        let rare = |rng: &mut StdRng| match rng.random_range(0..400) {
            0 => Self::random(rng, 89),
            1 => 1 << 32,
            2 => 0,
            _ => ONES,
        };
        let rare: Vec<_> = (0..count).map(|_| rare(rng)).collect();
        self.check("rare breaks of ones", &rare, limb_count);
    }
}

/// Coefficients of a part, on both sides of the limits of quads, warps and tiles.
const LENGTHS: [u32; 9] = [4, 8, 36, 128, 1024, TILE - 4, TILE, TILE + 4, 2 * TILE + 4];

fn each_case(test: impl Fn(&Case<'_>, usize, &mut StdRng)) {
    each_seed(|rig| {
        let kernels = LimbKernels::load(rig.gpu()).unwrap();
        let cases = [1, 3].into_iter().flat_map(|parts| LENGTHS.map(|length| (parts, length)));
        for (number, (parts, length)) in cases.enumerate() {
            if !rig.runs_case(number) {
                continue;
            }
            let case = Case { rig, kernels: &kernels, parts, length };
            let count = case.coefficient_count();
            for dropped in [0, 1 + number % 3, count / 4] {
                test(&case, count - dropped, &mut rng());
            }
        }
    });
}

#[test]
fn limbs_of_random_and_extreme_coefficients_are_those_of_their_sum() {
    each_case(|case, limb_count, rng| case.check_coefficients(limb_count, rng));
}

#[test]
fn carries_go_through_quads_warps_tiles_and_parts() {
    each_case(|case, limb_count, rng| case.check_carries(limb_count, rng));
}

#[test]
fn long_products_have_the_limbs_of_their_sum() {
    each_seed(|rig| {
        let kernels = LimbKernels::load(rig.gpu()).unwrap();
        for parts in [1, 3] {
            // More tiles than a warp of the scan has bits in a word.
            let length = 72 * 1024 / parts;
            let case = Case { rig, kernels: &kernels, parts, length };
            let count = case.coefficient_count();
            case.check_coefficients(count - 3, &mut rng());
            case.check_carries(count, &mut rng());
        }
    });
}

#[test]
fn tiles_get_the_carries_of_an_addition() {
    const GENERATES: u8 = 1;
    const PASSES: u8 = 2;
    each_seed(|rig| {
        type CarriesKernel = Kernel<(DevicePtr<u8>, u32, DevicePtr<u32>)>;
        let kernel = |threads| -> CarriesKernel {
            rig.kernel("integers/limbs", "integers_carries", threads)
        };
        let (by_warp, by_block) = (kernel(32), kernel(1024));
        let mut rng = rng();
        // A round of the block has 32768 tiles.
        for (number, tiles) in [1, 31, 33, 1025, 32768, 32769, 70001].into_iter().enumerate() {
            // How many of 1000 tiles generate, and how many neither generate nor pass.
            for (mode, (generate, stop)) in
                [(333, 333), (2, 2), (0, 0), (1000, 0), (0, 1), (0, 1000)].into_iter().enumerate()
            {
                if !rig.runs_case(number + mode) {
                    continue;
                }
                let flag = |_| match rng.random_range(0..1000) {
                    random if random < generate => GENERATES,
                    random if random < generate + stop => 0,
                    _ => PASSES,
                };
                let rows = 1 + mode as u32 % 3;
                let mut flags: Vec<u8> = (0..rows * tiles).map(flag).collect();
                flags[0] = if number % 2 == 0 { GENERATES } else { flags[0] };
                let words = (tiles as usize).div_ceil(32);
                let given = rig.upload(&flags);
                let carries = rig.lease::<u32>(rows as usize * words);
                let kernel = if number % 2 == 0 { &by_warp } else { &by_block };
                rig.launch(kernel, rows, (given.all(), tiles, carries.all()));
                let found = rig.download::<u32>(&carries);
                let of_rows = flags.chunks(tiles as usize).zip(found.chunks(words));
                for (row, (flags, found)) in of_rows.enumerate() {
                    let mut carry = false;
                    for (tile, flag) in flags.iter().enumerate() {
                        let got = found[tile / 32] >> (tile % 32) & 1 == 1;
                        assert_eq!(got, carry, "row {row}, tile {tile} of {tiles}, mode {mode}");
                        carry = *flag == GENERATES || (carry && *flag == PASSES);
                    }
                }
            }
        }
    });
}

#[test]
fn memory_that_does_not_match_the_product_is_refused() {
    each_seed(|rig| {
        let kernels = LimbKernels::load(rig.gpu()).unwrap();
        let memory = rig.lease::<u32>(256);
        let possible = ResidueShape { rows: 1, parts: 3, length: 8, stride: 16 };
        let launch = |shape: ResidueShape, words: usize, has_negacyclic: bool, limbs: usize| {
            let words = memory.all().slice(0, words).unwrap();
            let negacyclic = has_negacyclic.then_some(words);
            let residues = DeviceResidues { shape, cyclic: words, negacyclic };
            let scratch =
                possible.carry_scratch(|bytes| rig.gpu().arena().lease(rig.stream(), bytes));
            let rows = StridedRows { vector: memory.all().slice(128, limbs).unwrap(), stride: 32 };
            let limbs = LimbRows { limbs: rows, rows: 1, length: limbs as u32 };
            residues.launch_limbs(&kernels, rig.stream(), &scratch.unwrap(), limbs)
        };
        let shape = |parts, length, stride| ResidueShape { rows: 1, parts, length, stride };
        // The residues of the last prime modulo x^16 + 1 end at word 48.
        assert!(launch(possible, 48, true, 24).is_ok());
        assert!(launch(possible, 48, true, 0).is_ok());
        assert!(launch(possible, 47, true, 24).is_err(), "too few residues");
        assert!(launch(possible, 48, false, 24).is_err(), "no residues modulo x^16 + 1");
        assert!(launch(possible, 48, true, 25).is_err(), "more limbs than coefficients");
        for (parts, length, stride) in [
            (0, 8, 16),
            (2, 8, 16),
            (4, 8, 32),
            (3, 0, 16),
            (3, 6, 16),
            (3, 8, 12),
            (3, 8, 18),
            (1, 8, 4),
        ] {
            let refused = launch(shape(parts, length, stride), 128, true, 1);
            assert!(refused.is_err(), "{parts} parts of {length}, stride {stride}");
        }
    });
}
