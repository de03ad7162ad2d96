//! The passes of `kernels/bench/ntt31_reductions.cu`, and their tables.

use capstan::{
    device::{BlockShape, DeviceFault, DeviceLease, DevicePtr, DeviceSlice, Kernel},
    field::{Arithmetic, Element31, Field31},
};

use super::reduction::{PARAMETER_WORDS, Reduction};
use crate::rig::BenchRig;

const MODULE: &str = "bench/ntt31_reductions";
/// log2 of a thread's words.
const LG_WORDS: u32 = 5;

type Words = DevicePtr<u32>;
type Parameters = [u32; PARAMETER_WORDS];
/// Parameters: in, out, twiddles, starts, steps, lg_block, prime.
type ColumnsKernel = Kernel<(Words, Words, Words, Words, DevicePtr<u64>, u32, Parameters)>;
/// Parameters: in, out, twiddles, rows, prime.
type RowsKernel = Kernel<(Words, Words, Words, u64, Parameters)>;

/// log2 of the radices of a transform, and of the columns of a tile.
#[derive(Clone, Copy)]
pub struct Cut {
    pub lg_columns_radix: u32,
    pub lg_lanes: u32,
    pub lg_rows_radix: u32,
}

impl Cut {
    /// Of transforms of 2^20 and 2^24.
    pub fn of(lg_n: u32) -> Self {
        match lg_n {
            20 => Self { lg_columns_radix: 8, lg_lanes: 5, lg_rows_radix: 12 },
            24 => Self { lg_columns_radix: 10, lg_lanes: 4, lg_rows_radix: 14 },
            _ => panic!("no kernels for 2^{lg_n}"),
        }
    }

    const fn lg_n(self) -> u32 {
        self.lg_columns_radix + self.lg_rows_radix
    }

    const fn lg_tile(self) -> u32 {
        self.lg_columns_radix + self.lg_lanes
    }
}

/// A transform with one reduction: kernels and tables.
pub struct MeasuredPasses {
    cut: Cut,
    parameters: Parameters,
    columns: ColumnsKernel,
    rows: RowsKernel,
    columns_twiddles: DeviceLease,
    starts: DeviceLease,
    steps: DeviceLease,
    rows_twiddles: DeviceLease,
}

impl MeasuredPasses {
    pub fn new(rig: &BenchRig, field: Field31, reduction: Reduction, cut: Cut) -> Self {
        let Cut { lg_columns_radix, lg_rows_radix, .. } = cut;
        let name = |kind: &str, lg_r| format!("reduction31_{}_{kind}_{lg_r}", reduction.name());
        let block = |lg_tile: u32| BlockShape {
            threads: 1 << (lg_tile - LG_WORDS),
            shared_bytes: 4 << lg_tile,
        };
        let tables = Tables { field, reduction };
        let columns_digits = digits(lg_columns_radix, true);
        let last = columns_digits[columns_digits.len() - 1];
        Self {
            cut,
            parameters: reduction.parameters(field),
            columns: rig
                .kernel(MODULE, &name("columns", lg_columns_radix), block(cut.lg_tile()))
                .with_pdl(),
            rows: rig.kernel(MODULE, &name("rows", lg_rows_radix), block(lg_rows_radix)).with_pdl(),
            columns_twiddles: rig.upload_new(&tables.twiddles(&columns_digits)),
            starts: rig.upload_new(&tables.starts(cut, lg_columns_radix - last)),
            steps: rig.upload_new(&tables.steps(cut, lg_columns_radix - last)),
            rows_twiddles: rig.upload_new(&tables.twiddles(&digits(lg_rows_radix, false))),
        }
    }

    /// Transforms in place.
    pub fn run(&self, rig: &BenchRig, words: DeviceSlice<'_, u32>) -> Result<(), DeviceFault> {
        let tiles = words.len() >> self.cut.lg_tile();
        let (twiddles, starts, steps) =
            (self.columns_twiddles.all(), self.starts.all(), self.steps.all());
        let arguments = (words, words, twiddles, starts, steps, self.cut.lg_n(), self.parameters);
        self.columns.launch(&rig.stream, tiles as u32, arguments)?;
        let rows = words.len() >> self.cut.lg_rows_radix;
        let arguments = (words, words, self.rows_twiddles.all(), rows as u64, self.parameters);
        self.rows.launch(&rig.stream, rows as u32, arguments)
    }
}

/// Stages of each digit of a pass.
fn digits(lg_r: u32, has_columns: bool) -> Vec<u32> {
    let count = lg_r.div_ceil(LG_WORDS);
    (0..count).map(|i| (lg_r + if has_columns { i } else { count - 1 - i }) / count).collect()
}

/// Builds the tables that `src/gpu/ntt31/tables.rs` describes in the form of one reduction.
#[derive(Clone, Copy)]
struct Tables {
    field: Field31,
    reduction: Reduction,
}

impl Tables {
    fn twiddles(self, digits: &[u32]) -> Vec<u32> {
        let mut table = Vec::new();
        let mut below: u32 = digits.iter().sum();
        for digit in &digits[..digits.len() - 1] {
            let root = self.root(below);
            below -= digit;
            for l in 0..1 << digit {
                let base = self.field.power(root, reversed(l, *digit));
                self.powers(base, 1 << below)
                    .for_each(|power| self.reduction.push_twiddle(self.field, power, &mut table));
            }
        }
        table
    }

    fn starts(self, cut: Cut, lg_threads: u32) -> Vec<u32> {
        let root = self.root(cut.lg_n());
        let of_thread = |thread| {
            let base = self.field.power(root, reversed(thread, lg_threads));
            self.powers(base, 1 << cut.lg_rows_radix)
        };
        let all = (0..1 << lg_threads).flat_map(of_thread);
        all.map(|power| self.reduction.power(self.field, power)).collect()
    }

    fn steps(self, cut: Cut, lg_threads: u32) -> Vec<u32> {
        let base = self.field.power(self.root(cut.lg_n()), 1 << lg_threads);
        let mut table = Vec::new();
        for step in self.powers(base, 1 << cut.lg_rows_radix) {
            for power in [step, self.field.multiply(step, step)] {
                self.reduction.push_twiddle(self.field, power, &mut table);
            }
        }
        table
    }

    fn root(self, lg_n: u32) -> Element31 {
        self.field.root_of_unity(lg_n).expect("within the two-adicity")
    }

    /// The first `count` powers.
    fn powers(self, base: Element31, count: usize) -> impl Iterator<Item = Element31> {
        let next = move |power: &Element31| Some(self.field.multiply(*power, base));
        std::iter::successors(Some(self.field.one()), next).take(count)
    }
}

/// The lowest `bits` bits of a number below 2^`bits`, in reverse order.
const fn reversed(number: u64, bits: u32) -> u64 {
    number.reverse_bits() >> (64 - bits)
}
