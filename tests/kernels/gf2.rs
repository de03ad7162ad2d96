//! `kernels/gf2`: eliminations in device memory, compared with those of the host.

use capstan::{
    gf2::{BitMatrix, echelon, reduce},
    gf2_elimination::{
        DeviceBits, DeviceBitsShape, DeviceRow, EliminationKernels, EliminationLaunch,
        GpuElimination, GpuEliminationScratch, ReducedRows, RowUpdate, stored_row,
    },
};
use rand::{Rng, rngs::StdRng};

use crate::{
    elements::rng,
    gpu::{KernelRig, each_seed},
};

/// Rows of random bits, of which one in `sparsity` is 1, and that are zero before a column of each.
fn matrix(rng: &mut StdRng, columns: usize, first: &[usize], sparsity: u32) -> BitMatrix {
    let mut matrix = BitMatrix::zeros(first.len() as u64, columns as u64).unwrap();
    for (row, first) in first.iter().enumerate() {
        for column in *first..columns {
            if rng.random_range(0..sparsity) == 0 {
                matrix.set(row, column);
            }
        }
    }
    matrix
}

/// Pivots that lead in one of `every` columns, the last one first.
fn pivots(rng: &mut StdRng, columns: usize, every: usize, sparsity: u32) -> BitMatrix {
    let leading: Vec<usize> = (0..columns).filter(|column| column % every == 1).rev().collect();
    let mut pivots = matrix(rng, columns, &leading, sparsity);
    for (row, column) in leading.into_iter().enumerate() {
        pivots.set(row, column);
    }
    pivots
}

fn shape(matrix: &BitMatrix) -> DeviceBitsShape {
    DeviceBitsShape { rows: matrix.rows() as u32, columns: matrix.columns() as u32 }
}

/// Reduced rows, and their leading columns plus one.
fn eliminate(
    rig: &KernelRig,
    update: RowUpdate,
    given: &BitMatrix,
    rows: &BitMatrix,
    reduced: ReducedRows,
) -> (BitMatrix, Vec<u32>) {
    let kernels = EliminationKernels::load_with(rig.gpu(), update).unwrap();
    let upload = |matrix: &BitMatrix| {
        let packed = rig.upload(matrix.words());
        let lines = rig.lease::<DeviceRow>(shape(matrix).lines().max(1));
        let to = DeviceBits { shape: shape(matrix), lines: lines.all() };
        let unused = rig.lease::<u32>(1);
        kernels.layout.copy_to_strips(rig.stream(), packed.all(), to, unused.all()).unwrap();
        assert_eq!(stored_row(rig.download::<u32>(&unused)[0]), None);
        (packed, lines)
    };
    let ((_, given_lines), (packed, row_lines)) = (upload(given), upload(rows));
    let leading = rig.lease::<u32>(rows.rows());
    let lease = |bytes| rig.gpu().arena().lease(rig.stream(), bytes);
    let scratch = GpuEliminationScratch::lease(shape(rows), lease).unwrap();
    let elimination = GpuElimination {
        first_panel: 0,
        given: DeviceBits { shape: shape(given), lines: given_lines.all() },
        rows: DeviceBits { shape: shape(rows), lines: row_lines.all() },
        leading: leading.all(),
        reduced,
    };
    let with = EliminationLaunch { kernels: &kernels, stream: rig.stream(), scratch: &scratch };
    elimination.find_given(with).unwrap();
    elimination.launch_panels(with, 0..shape(rows).strips()).unwrap();
    let layout = &kernels.layout;
    layout.copy_from_strips(rig.stream(), elimination.rows, None, packed.all()).unwrap();
    let (row_count, columns) = (rows.rows() as u64, rows.columns() as u64);
    let words = rig.download::<u64>(&packed);
    (BitMatrix::from_words(row_count, columns, words).unwrap(), rig.download::<u32>(&leading))
}

fn check_reduction(rig: &KernelRig, given: &BitMatrix, rows: &BitMatrix) {
    let expected = reduce(given, rows.clone(), &|_| true).unwrap();
    for update in [RowUpdate::MatrixInstructions, RowUpdate::Tables] {
        let (reduced, leading) = eliminate(rig, update, given, rows, ReducedRows::Remaining);
        assert!(reduced == expected.rows, "{update:?}, {:?} rows", shape(rows));
        let promoted: Vec<bool> = leading.iter().map(|leading| *leading != 0).collect();
        assert_eq!(promoted, expected.promoted, "{update:?}");
        for (row, leading) in leading.iter().enumerate() {
            let column = reduced.leading_column(row).map_or(0, |column| column as u32 + 1);
            assert_eq!(*leading, column, "row {row}");
        }
    }
}

fn check_echelon_form(rig: &KernelRig, rows: &BitMatrix) {
    let expected = echelon(rows.clone(), &|_| true).unwrap();
    let none = BitMatrix::zeros(0, rows.columns() as u64).unwrap();
    for update in [RowUpdate::MatrixInstructions, RowUpdate::Tables] {
        let (reduced, leading) = eliminate(rig, update, &none, rows, ReducedRows::All);
        let mut order: Vec<_> = (0..rows.rows()).filter(|row| leading[*row] != 0).collect();
        order.sort_by_key(|row| leading[*row]);
        let found: Vec<_> = order.iter().map(|row| leading[*row] - 1).collect();
        assert_eq!(found, expected.leading, "{update:?}");
        for (at, row) in order.into_iter().enumerate() {
            assert_eq!(reduced.row(row), expected.matrix.row(at), "{update:?}, row {row}");
        }
        let rest = (0..rows.rows()).filter(|row| leading[*row] == 0);
        assert!(rest.flat_map(|row| reduced.row(row)).all(|word| *word == 0), "{update:?}");
    }
}

#[test]
fn rows_are_reduced_as_on_the_host() {
    each_seed(|rig| {
        let cases =
            [(1, 2, 1, 2), (64, 3, 40, 2), (300, 2, 90, 2), (515, 2, 600, 40), (700, 3, 20, 5)];
        for (case, (columns, every, rows, sparsity)) in cases.into_iter().enumerate() {
            if rig.runs_case(case) {
                let mut rng = rng();
                let rows = matrix(&mut rng, columns, &vec![0; rows], sparsity);
                check_reduction(rig, &pivots(&mut rng, columns, every, sparsity), &rows);
            }
        }
    });
}

#[test]
fn echelon_forms_are_those_of_the_host() {
    each_seed(|rig| {
        // The first one has more promoted rows than a panel's search reads at once, in panels that
        // use the same plan.
        let cases = [(1500, 1400, 2), (256, 300, 2), (300, 40, 2), (520, 530, 30), (33, 700, 3)];
        for (case, (columns, rows, sparsity)) in cases.into_iter().enumerate() {
            if rig.runs_case(case) {
                check_echelon_form(rig, &matrix(&mut rng(), columns, &vec![0; rows], sparsity));
            }
        }
    });
}

#[test]
fn equal_rows_and_chains_of_leading_columns_are_reduced_as_on_the_host() {
    each_seed(|rig| {
        let columns = 530;
        let none = BitMatrix::zeros(0, columns as u64).unwrap();
        let mut equal = BitMatrix::zeros(40, columns as u64).unwrap();
        for row in 0..40 {
            [0, 255, 256, columns - 1].into_iter().for_each(|column| equal.set(row, column));
        }
        check_reduction(rig, &none, &equal);
        check_echelon_form(rig, &equal);
        // Each addition moves the leading column by one, through all panels.
        let mut chain = BitMatrix::zeros(columns as u64 - 1, columns as u64).unwrap();
        for row in 0..columns - 1 {
            chain.set(row, row);
            chain.set(row, row + 1);
        }
        let mut ends = BitMatrix::zeros(3, columns as u64).unwrap();
        (0..3).for_each(|row| ends.set(row, 2 * row));
        check_reduction(rig, &chain, &ends);
        if rig.runs_case(0) {
            check_echelon_form(rig, &chain);
        }
    });
}
