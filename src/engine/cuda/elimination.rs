//! Eliminations of matrices of bits in the memory of a GPU, piece by piece.

use std::{sync::Arc, time::Duration};

use zeroize::Zeroizing;

use super::{vector::GpuVector, vectors::GpuVectors};
use crate::{
    device::{DeviceFault, DeviceLease, DeviceLimits, DeviceSlice},
    error::{Error, Result},
    gf2::{
        BadPivot,
        gpu::{
            DeviceBits, DeviceBitsShape, EliminationLaunch, GpuElimination, GpuEliminationScratch,
            ReducedRows, panels_time, stored_row,
        },
        rows_of_words,
    },
};

/// The modelled time of the panels that are launched at once: a cancelled job leaves the GPU after
/// two such pieces, and a job that yields lets others run after each.
const PIECE: Duration = Duration::from_millis(3);

/// What is eliminated.
pub struct EliminationInput {
    /// The pivots of a reduction; `None` for an echelon form.
    pub pivots: Option<Arc<GpuVector>>,
    pub rows: Arc<GpuVector>,
    pub columns: u64,
}

/// Why matrices are refused.
pub enum RefusedBits {
    /// A pivot has a bit after its last column.
    UnusedOfPivot(u64),
    /// A row has a bit after its last column.
    UnusedOfRow(u64),
    Pivot(BadPivot),
}

/// The elimination of a matrix, whose panels are launched a few at a time.
pub struct VectorElimination {
    matrices: MatricesInStrips,
    scratch: GpuEliminationScratch,
    /// The order of the pivots of an echelon form.
    order: Option<DeviceLease>,
    out: Arc<GpuVector>,
    /// The first panel that has not been launched.
    next_panel: u32,
}

struct MatricesInStrips {
    given_shape: DeviceBitsShape,
    given: DeviceLease,
    shape: DeviceBitsShape,
    rows: DeviceLease,
    leading: DeviceLease,
    reduced: ReducedRows,
}

impl MatricesInStrips {
    fn elimination(&self) -> GpuElimination<'_> {
        GpuElimination {
            given: DeviceBits { shape: self.given_shape, lines: self.given.all() },
            rows: DeviceBits { shape: self.shape, lines: self.rows.all() },
            leading: self.leading.all(),
            reduced: self.reduced,
        }
    }
}

impl VectorElimination {
    /// Launches the next panels, after the last one also the copy to the result. Returns the result
    /// once all is launched.
    ///
    /// Errors: driver faults.
    pub fn launch_next(&mut self, gpu: &GpuVectors) -> Result<Option<Arc<GpuVector>>> {
        let panels = self.matrices.shape.strips();
        let end = self.piece_end(&gpu.gpu().gpu.identity().limits);
        let (elimination, with) = (self.matrices.elimination(), gpu.elimination(&self.scratch));
        elimination.launch_panels(with, self.next_panel..end)?;
        self.next_panel = end;
        if end < panels {
            return Ok(None);
        }
        let order = self.order.as_ref().map(DeviceLease::all);
        if let Some(order) = order {
            elimination.order_promoted(with, order)?;
        }
        let (layout, stream) = (&with.kernels.layout, with.stream);
        layout.from_strips(stream, elimination.rows, order, words_of(&self.out)?)?;
        Ok(Some(self.out.clone()))
    }

    /// How it is computed.
    pub fn method(&self, gpu: &GpuVectors) -> String {
        let update = gpu.gpu().gf2.row_update().name();
        format!("{} panels by {update}", self.matrices.shape.strips())
    }

    /// The end of the panels to launch next: one at least.
    fn piece_end(&self, limits: &DeviceLimits) -> u32 {
        let (shape, first) = (self.matrices.shape, u64::from(self.next_panel));
        let all = shape.strips();
        let is_short = |end: &u32| {
            panels_time(shape.rows.into(), all.into(), first..u64::from(*end), limits) <= PIECE
        };
        (self.next_panel + 1..=all).take_while(is_short).last().unwrap_or(self.next_panel + 1)
    }
}

impl GpuVectors {
    /// Begins the elimination of a matrix of at least one column: checks the bits after its last
    /// column, and the pivots, for which it waits for earlier work. The result overwrites `rows` if
    /// nothing else holds these.
    ///
    /// Errors: `Exhausted` if the device has no memory; `DeviceLost`; `Internal` for vectors over
    /// another field; `Corrupt` if what a kernel refuses is right.
    pub fn begin_elimination(
        &self,
        input: EliminationInput,
    ) -> Result<Result<VectorElimination, RefusedBits>> {
        let begun = self.lease_elimination(&input)?;
        // For the pivots and for the rows, the first one with a bit after the last column.
        let unused = self.lease(8)?;
        let unused_of = |at| unused.all().slice(at, 1).ok_or_else(wrong_shape);
        let (elimination, with) = (begun.matrices.elimination(), self.elimination(&begun.scratch));
        let (layout, stream) = (&with.kernels.layout, with.stream);
        if let Some(pivots) = &input.pivots {
            layout.to_strips(stream, words_of(pivots)?, elimination.given, unused_of(0)?)?;
        }
        layout.to_strips(stream, words_of(&input.rows)?, elimination.rows, unused_of(1)?)?;
        elimination.find_given(with)?;
        let bytes = self.read(unused.all())?;
        let mut unused = stored_words(&bytes).map(stored_row);
        let [of_pivots, of_rows] = [unused.next().flatten(), unused.next().flatten()];
        if let (Some(row), Some(pivots)) = (of_pivots, &input.pivots) {
            self.confirm_unused(pivots, input.columns, row)?;
            return Ok(Err(RefusedBits::UnusedOfPivot(row.into())));
        }
        if let Some(row) = of_rows {
            self.confirm_unused(&input.rows, input.columns, row)?;
            return Ok(Err(RefusedBits::UnusedOfRow(row.into())));
        }
        if let Some(pivots) = &input.pivots
            && let Some(bad) = self.bad_pivot(pivots, &begun)?
        {
            return Ok(Err(RefusedBits::Pivot(bad)));
        }
        Ok(Ok(begun))
    }

    /// Leases everything that the elimination needs, so that it does not run out of memory later.
    fn lease_elimination(&self, input: &EliminationInput) -> Result<VectorElimination> {
        let EliminationInput { pivots, rows, columns } = input;
        let shape = shape_of(rows, *columns)?;
        let (given_shape, reduced) = match pivots {
            Some(pivots) => (shape_of(pivots, *columns)?, ReducedRows::Remaining),
            None => (DeviceBitsShape { rows: 0, ..shape }, ReducedRows::All),
        };
        let is_free = Arc::strong_count(rows) == 1;
        let out = match is_free {
            true => rows.clone(),
            false => Arc::new(self.zeros(rows.field(), rows.rows, rows.row_length)?),
        };
        let lease = |bytes| self.lease(bytes);
        let matrices = MatricesInStrips {
            given_shape,
            given: lease(given_shape.bytes())?,
            shape,
            rows: lease(shape.bytes())?,
            leading: lease(4 * u64::from(shape.rows))?,
            reduced,
        };
        let scratch = GpuEliminationScratch::lease(shape, lease)?;
        let order = (reduced == ReducedRows::All).then(|| lease(4 * u64::from(shape.rows)));
        Ok(VectorElimination { matrices, scratch, order: order.transpose()?, out, next_panel: 0 })
    }

    fn lease(&self, bytes: u64) -> Result<DeviceLease, DeviceFault> {
        self.gpu().msm.resident().lease(&self.stream, bytes)
    }

    fn elimination<'a>(&'a self, scratch: &'a GpuEliminationScratch) -> EliminationLaunch<'a> {
        EliminationLaunch { kernels: &self.gpu().gf2, stream: &self.stream, scratch }
    }

    /// The words of a row of a packed matrix.
    fn row_words(
        &self,
        packed: &GpuVector,
        columns: u64,
        row: usize,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let words = shape_of(packed, columns)?.packed_words() as usize;
        let row = words_of(packed)?.slice(row * words, words).ok_or_else(wrong_shape)?;
        self.read(row.cast().ok_or_else(wrong_shape)?)
    }

    /// Checks what a kernel has found, so that no matrix is refused because a device fails.
    ///
    /// Errors: `Corrupt` if the row has no bit after its last column.
    fn confirm_unused(&self, packed: &GpuVector, columns: u64, row: u32) -> Result<()> {
        let bytes = self.row_words(packed, columns, row as usize)?;
        let (at, used) = ((columns / 32) as usize, columns % 32);
        let mut after_last = stored_words(&bytes).skip(at);
        let is_unused = after_last.next().is_some_and(|word| word >> used != 0)
            || after_last.any(|word| word != 0);
        if is_unused { Ok(()) } else { Err(Error::Corrupt) }
    }

    /// The first pivot that is zero or has the leading column of an earlier one.
    ///
    /// Errors: `Corrupt` if the pivots differ from what a kernel has found.
    fn bad_pivot(&self, pivots: &GpuVector, begun: &VectorElimination) -> Result<Option<BadPivot>> {
        let DeviceBitsShape { rows, columns } = begun.matrices.given_shape;
        let given_at = begun.scratch.given_at().cast().ok_or_else(wrong_shape)?;
        let given_at = self.read(given_at)?;
        let first_at: Vec<_> = stored_words(&given_at).map(stored_row).collect();
        let mut leads = vec![false; rows as usize];
        for row in first_at.iter().flatten() {
            *leads.get_mut(*row as usize).ok_or(Error::Corrupt)? = true;
        }
        let Some(row) = leads.iter().position(|leads| !leads) else { return Ok(None) };
        let leading =
            |row| Ok::<_, Error>(leading_column(&self.row_words(pivots, columns.into(), row)?));
        let Some(column) = leading(row)? else { return Ok(Some(BadPivot::Zero { row })) };
        let earlier = first_at.get(column).copied().flatten().ok_or(Error::Corrupt)? as usize;
        match earlier < row && leading(earlier)? == Some(column) {
            true => Ok(Some(BadPivot::Repeated { row, earlier })),
            false => Err(Error::Corrupt),
        }
    }
}

/// The lowest column in which a packed row is 1.
fn leading_column(row: &[u8]) -> Option<usize> {
    let (at, word) = stored_words(row).enumerate().find(|(_, word)| *word != 0)?;
    Some(32 * at + word.trailing_zeros() as usize)
}

/// The matrix in a vector, whose length is a multiple of its rows' words.
fn shape_of(vector: &GpuVector, columns: u64) -> Result<DeviceBitsShape> {
    let rows = u32::try_from(rows_of_words(vector.row_length as u64, columns));
    let columns = u32::try_from(columns);
    let (Ok(rows), Ok(columns)) = (rows, columns) else { return Err(wrong_shape()) };
    Ok(DeviceBitsShape { rows, columns })
}

fn words_of(vector: &GpuVector) -> Result<DeviceSlice<'_, u32>> {
    vector.words()?.cast().ok_or_else(wrong_shape)
}

fn stored_words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

fn wrong_shape() -> Error {
    Error::Internal("a matrix of bits on a device has another shape".into())
}
