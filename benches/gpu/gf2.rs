//! Elimination over GF(2): rows of the shapes of published matrices, and the rank of a square
//! matrix. Every result is compared with the host's.

use std::time::{Duration, Instant};

use capstan::{
    device::{DeviceFault, DeviceLease},
    gf2::{BitMatrix, Reduction, reduce},
    gf2_elimination::{
        DeviceBits, DeviceBitsShape, DeviceRow, EliminationKernels, EliminationLaunch,
        GpuElimination, GpuEliminationScratch, ReducedRows, RowUpdate,
    },
};
use rayon::prelude::*;

use crate::{
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

/// Columns, pivots and rows of a reduction.
struct ReductionShape {
    /// Differs among shapes with the same log2 of the number of columns.
    mode: &'static str,
    columns: usize,
    pivots: usize,
    rows: usize,
}

const fn reduction(columns: usize, pivots: usize, rows: usize) -> ReductionShape {
    ReductionShape { mode: "device", columns, pivots, rows }
}

const REDUCTIONS: [ReductionShape; 4] = [
    reduction(8399, 6375, 4535),
    reduction(23045, 18748, 14325),
    ReductionShape { mode: "device_37960_columns", ..reduction(37960, 29304, 14921) },
    reduction(43577, 39477, 54274),
];
const QUICK: [ReductionShape; 1] = [reduction(700, 500, 300)];
const RANK_COLUMNS: usize = 65536;

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let best = EliminationKernels::load(&rig.gpu).expect("kernels");
    let tables = EliminationKernels::load_with(&rig.gpu, RowUpdate::Tables).expect("kernels");
    let shapes: &[ReductionShape] = if rig.quick { &QUICK } else { &REDUCTIONS };
    for shape in shapes {
        let pivots = random_pivots(shape);
        let rows = random_rows(2, shape.columns, &vec![0; shape.rows]);
        let begun = Instant::now();
        let expected = reduce(&pivots, rows.clone(), &|_| true).expect("distinct pivots");
        let on_host = begun.elapsed();
        let check = |reduced: &BitMatrix, leading: &[u32]| compare(reduced, leading, &expected);
        let case = BenchElimination { rig, pivots: &pivots, rows: &rows, on_host };
        record.record_time(&case.measure("gf2_reduce", shape.mode, &best, check));
        record.print_time(&case.measure("gf2_reduce", "tables", &tables, check));
    }
    let columns = rig.size(RANK_COLUMNS, 600);
    let rows = random_rows(3, columns, &vec![0; columns]);
    let begun = Instant::now();
    let none = BitMatrix::zeros(0, columns as u64).expect("small");
    let expected = reduce(&none, rows.clone(), &|_| true).expect("no pivots");
    let on_host = begun.elapsed();
    let case = BenchElimination { rig, pivots: &none, rows: &rows, on_host };
    let check = |reduced: &BitMatrix, leading: &[u32]| compare(reduced, leading, &expected);
    record.record_time(&case.measure("gf2_rank", "device", &best, check));
}

fn compare(reduced: &BitMatrix, leading: &[u32], expected: &Reduction) {
    assert!(*reduced == expected.rows, "the reduced rows are wrong");
    let promoted = leading.iter().map(|leading| *leading != 0);
    assert!(promoted.eq(expected.promoted.iter().copied()), "the promoted rows are wrong");
}

/// An elimination to measure, and how long it takes on the host.
struct BenchElimination<'a> {
    rig: &'a BenchRig,
    pivots: &'a BitMatrix,
    rows: &'a BitMatrix,
    on_host: Duration,
}

impl BenchElimination<'_> {
    /// Times of eliminations of matrices in device memory, the last of which is checked.
    fn measure<'n>(
        &self,
        op: &'n str,
        mode: &'n str,
        kernels: &EliminationKernels,
        check: impl Fn(&BitMatrix, &[u32]),
    ) -> TimeFigure<'n> {
        let (rig, rows) = (self.rig, self.rows);
        let [pivots, packed] = [self.pivots, rows].map(|matrix| rig.upload_new(matrix.words()));
        let lines = |matrix: &BitMatrix| rig.lease::<DeviceRow>(shape(matrix).lines().max(1));
        let (given_lines, row_lines) = (lines(self.pivots), lines(rows));
        let stream = &rig.stream;
        let once = || {
            let (layout, unused) = (&kernels.layout, rig.lease::<u32>(1));
            let given = bits(self.pivots, &given_lines);
            layout.copy_to_strips(stream, pivots.all(), given, unused.all())?;
            layout.copy_to_strips(stream, packed.all(), bits(rows, &row_lines), unused.all())?;
            let leading = rig.lease::<u32>(rows.rows());
            let lease = |bytes| rig.gpu.arena().lease(stream, bytes);
            let scratch = GpuEliminationScratch::lease(shape(rows), lease)?;
            let elimination = GpuElimination {
                first_panel: 0,
                given,
                rows: bits(rows, &row_lines),
                leading: leading.all(),
                reduced: ReducedRows::Remaining,
            };
            let begun = stream.record_timed()?;
            let with = EliminationLaunch { kernels, stream, scratch: &scratch };
            elimination.find_given(with)?;
            elimination.launch_panels(with, 0..shape(rows).strips())?;
            let ended = stream.record_timed()?;
            ended.synchronize()?;
            Ok::<_, DeviceFault>((ended.elapsed_since(&begun)?, leading))
        };
        let mut leading = once().expect("the device works").1;
        let times = (0..rig.repeats).map(|_| {
            let (time, of_rows) = once().expect("the device works");
            leading = of_rows;
            time
        });
        let times = times.collect();
        let out = rig.lease::<u64>(rows.words().len());
        let layout = &kernels.layout;
        let reduced = layout.copy_from_strips(stream, bits(rows, &row_lines), None, out.all());
        reduced.expect("the device works");
        let (row_count, columns) = (rows.rows() as u64, rows.columns() as u64);
        let reduced = BitMatrix::from_words(row_count, columns, rig.get(out.all()));
        check(&reduced.expect("rows of the same shape"), &rig.get(leading.all()));
        let how = format!(
            "{} columns, {} pivots, {} rows; {:.2} s on the host",
            rows.columns(),
            self.pivots.rows(),
            rows.rows(),
            self.on_host.as_secs_f64()
        );
        TimeFigure { op, mode, lg_n: rows.columns().ilog2(), batch: 1, times, how }
    }
}

fn shape(matrix: &BitMatrix) -> DeviceBitsShape {
    DeviceBitsShape { rows: matrix.rows() as u32, columns: matrix.columns() as u32 }
}

fn bits<'l>(matrix: &BitMatrix, lines: &'l DeviceLease) -> DeviceBits<'l> {
    DeviceBits { shape: shape(matrix), lines: lines.all() }
}

/// Rows of random bits, zero before a column of each.
fn random_rows(seed: u64, columns: usize, first: &[usize]) -> BitMatrix {
    let row_words = columns.div_ceil(64);
    let row = |(row, first): (usize, &usize)| {
        let mut random = Random((seed << 56) + row as u64);
        let word = |at: usize| {
            let used = |bits: usize| if bits < 64 { (1 << bits) - 1 } else { u64::MAX };
            let skipped = used(first.saturating_sub(64 * at));
            random.next() & used(columns - 64 * at) & if skipped == u64::MAX { 0 } else { !skipped }
        };
        (0..row_words).map(word).collect::<Vec<_>>()
    };
    let words = first.par_iter().enumerate().flat_map_iter(row).collect();
    BitMatrix::from_words(first.len() as u64, columns as u64, words).expect("a small matrix")
}

/// Pivots that lead in random columns.
fn random_pivots(shape: &ReductionShape) -> BitMatrix {
    let mut random = Random(1);
    let mut leading: Vec<usize> = (0..shape.columns).collect();
    for at in (1..shape.columns).rev() {
        leading.swap(at, random.below(at + 1));
    }
    leading.truncate(shape.pivots);
    let mut pivots = random_rows(1, shape.columns, &leading);
    for (row, column) in leading.into_iter().enumerate() {
        pivots.set(row, column);
    }
    pivots
}
