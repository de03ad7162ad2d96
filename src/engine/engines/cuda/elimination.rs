//! Eliminations of matrices of bits in the memory of a GPU, piece by piece.

use std::{sync::Arc, time::Duration};

use super::{
    refused_bits::{EliminationInput, FoundBits, RefusedBits, UnusedBits, shape_of},
    vector::GpuVector,
    vectors::GpuVectors,
};
use crate::{
    device::{DeviceFault, DeviceLease, DeviceLimits},
    error::Result,
    gf2_elimination::{
        DeviceBits, DeviceBitsShape, EliminationLaunch, GpuElimination, GpuEliminationScratch,
        ReducedRows, panels_time,
    },
};

/// The modelled time of the panels that are launched at once: a cancelled job leaves the GPU after
/// two such pieces, and a job that yields lets others run after each.
const PIECE: Duration = Duration::from_millis(3);

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
            first_panel: 0,
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
        let layout = &with.kernels.layout;
        let stream = with.stream;
        layout.copy_from_strips(stream, elimination.rows, order, self.out.words()?)?;
        Ok(Some(self.out.clone()))
    }

    /// How it is computed.
    pub fn method(&self, gpu: &GpuVectors) -> String {
        let update = gpu.gpu().gf2.row_update().name();
        format!("{} panels by {update}", self.matrices.shape.strips())
    }

    /// The end of the panels to launch next: one at least.
    fn piece_end(&self, limits: &DeviceLimits) -> u32 {
        let shape = self.matrices.shape;
        let first = u64::from(self.next_panel);
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
        let (elimination, with) = (begun.matrices.elimination(), self.elimination(&begun.scratch));
        let unused = self.lease(UnusedBits::BYTES)?;
        let unused = UnusedBits::of(&unused)?;
        let layout = &with.kernels.layout;
        let stream = with.stream;
        if let Some(pivots) = &input.pivots {
            layout.copy_to_strips(stream, pivots.words()?, elimination.given, unused.of_pivots)?;
        }
        layout.copy_to_strips(stream, input.rows.words()?, elimination.rows, unused.of_rows)?;
        elimination.find_given(with)?;
        let found = FoundBits { unused, given_at: begun.scratch.given_at() };
        let refused = self.refused_bits(&input, found)?;
        Ok(refused.map_or(Ok(begun), Err))
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

    /// Working memory. Evicts like [`GpuVectors::zeros`].
    pub(super) fn lease(&self, bytes: u64) -> Result<DeviceLease, DeviceFault> {
        self.gpu().msm.resident().lease(&self.stream, bytes)
    }

    fn elimination<'a>(&'a self, scratch: &'a GpuEliminationScratch) -> EliminationLaunch<'a> {
        EliminationLaunch { kernels: &self.gpu().gf2, stream: &self.stream, scratch }
    }
}
