//! Eliminations of matrices of bits in the host's memory, which may be larger than the device's.
//! The device has a block of columns at a time: it is copied there, the panels before it are added
//! again, its own panels are eliminated, and it is copied back. The pivots of each panel, and to
//! which rows they are added, stay in the host's memory for the later blocks.

use std::ops::Range;

use bytemuck::Pod;
use tracing::debug;
use zeroize::Zeroizing;

use super::{
    CudaEngine,
    bit_columns::{BitColumns, BitColumnsMut},
    long_work::LongWait,
    payload_copy::CopyLane,
    policy::ENGINE,
    serving_gpu::ServingGpu,
    step_turn::StepTurn,
};
use crate::{
    buffer::ByteSource,
    device::{CopySession, DeviceFault, DeviceLease, DeviceSlice, JobStream},
    engines::{EliminatedRows, EliminationWork, ExecutedBy, JobControl},
    error::{Error, Limit, Result},
    gf2::{BitMatrix, LeadingColumns, MatrixElimination, pivot_order},
    gf2_elimination::{
        DeviceBits, DeviceBitsShape, EliminationLaunch, GpuElimination, GpuEliminationScratch,
        HostBitsShape, ReducedRows, STRIP_COLUMNS,
    },
};

/// Words of a row in a strip.
const STRIP_WORDS: usize = STRIP_COLUMNS as usize / 64;

struct EliminationInBlocks<'g, 'm, 'r> {
    gpu: &'g ServingGpu,
    matrix: &'m mut MatrixElimination<'r>,
    control: JobControl,
    wait: LongWait,
    /// What was found of each panel so far; `None` if it has no pivot that is added to a row.
    panels: Vec<Option<FoundPanel>>,
    memory: BlockMemory,
    copies: CopySession,
    stream: JobStream,
}

/// What later blocks need of a panel.
struct FoundPanel {
    /// The rows that are its pivots.
    sources: Zeroizing<Vec<u8>>,
    /// For each row, the pivots that are added to it.
    coefficients: BitMatrix,
}

/// The words of a row of coefficients.
const COEFFICIENT_WORDS: Range<usize> = 0..STRIP_WORDS;

/// Device memory for blocks of `strips` strips.
struct BlockMemory {
    strips: u32,
    given: DeviceLease,
    rows: DeviceLease,
    /// The words of a block, row by row.
    packed: DeviceLease,
    unused: DeviceLease,
    leading: DeviceLease,
    scratch: GpuEliminationScratch,
}

impl BlockMemory {
    fn lease(
        shape: HostBitsShape,
        strips: u32,
        lease: impl Fn(u64) -> Result<DeviceLease, DeviceFault>,
    ) -> Result<Self, DeviceFault> {
        let columns = strips * STRIP_COLUMNS;
        let [given, rows] = [shape.given, shape.rows].map(|rows| DeviceBitsShape { rows, columns });
        Ok(Self {
            strips,
            given: lease(given.bytes())?,
            rows: lease(rows.bytes())?,
            packed: lease(given.bytes().max(rows.bytes()))?,
            unused: lease(4)?,
            leading: lease(4 * u64::from(rows.rows))?,
            scratch: GpuEliminationScratch::lease(rows, lease)?,
        })
    }

    /// Memory for these words of `rows` rows.
    fn packed(&self, rows: usize, words: &Range<usize>) -> Result<DeviceSlice<'_, u8>> {
        self.packed.all().slice(0, 8 * rows * words.len()).ok_or_else(misfit)
    }
}

impl CudaEngine {
    /// Eliminates a matrix on the next GPU. `None` if it has no memory for a fourth of the best
    /// block: the matrix is as it was.
    ///
    /// Errors: those of [`MsmNttEngine::eliminate`](crate::engines::MsmNttEngine::eliminate).
    pub(super) fn eliminate_in_blocks(
        &self,
        matrix: &mut MatrixElimination<'_>,
        work: &EliminationWork,
        control: &JobControl,
    ) -> Result<Option<EliminatedRows>> {
        let gpu = &self.gpus[self.next_gpu(&self.next_job)];
        let stream = gpu.gpu.job_stream()?;
        let copies = gpu.gpu.ring().session();
        let shape = HostBitsShape {
            given: matrix.given.rows() as u32,
            rows: matrix.rows.rows() as u32,
            columns: matrix.rows.columns() as u32,
        };
        let strips_max = self.policy.block_strips_max.unwrap_or(u32::MAX).max(1);
        let mut strips = shape.block_strips(gpu.gpu.arena().bytes()).min(strips_max);
        let strips_min = strips.div_ceil(4);
        let memory = loop {
            let lease = |bytes| gpu.msm.resident().lease(&stream, bytes);
            match BlockMemory::lease(shape, strips, lease).map_err(Error::from) {
                Ok(memory) => break memory,
                Err(Error::Exhausted { limit: Limit::DeviceMemory, .. }) if strips > strips_min => {
                    strips = (strips / 2).max(strips_min);
                }
                Err(Error::Exhausted { limit: Limit::DeviceMemory, .. })
                    if !self.model.takes_long_on_cpu(work) =>
                {
                    debug!(?shape, "no GPU has memory for columns of the matrix");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        };
        let control = control.behind(&gpu.policy.cancellation_gate);
        let (wait, panels) = Default::default();
        let elimination =
            EliminationInBlocks { gpu, matrix, control, wait, panels, memory, copies, stream };
        elimination.run(shape.columns.div_ceil(STRIP_COLUMNS)).map(Some)
    }
}

impl EliminationInBlocks<'_, '_, '_> {
    fn run(mut self, all: u32) -> Result<EliminatedRows> {
        let strips = self.memory.strips;
        for first in (0..all).step_by(strips as usize) {
            let block = first..all.min(first + strips);
            self.copy_in(&block)?;
            for panel in 0..first {
                self.add_earlier(&block, panel)?;
            }
            for panel in block.clone() {
                self.eliminate(&block, panel, all)?;
            }
            self.copy_out(&block)?;
        }
        let leading = self.read(self.memory.leading.all::<u32>())?;
        let leading = leading.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        let leading: LeadingColumns = leading.map(|end| end.checked_sub(1)).collect();
        if self.matrix.reduced == ReducedRows::All {
            let order = pivot_order(&leading);
            self.matrix.rows.put_first(&order, || self.control.check())?;
        }
        let blocks = match all.div_ceil(strips) {
            1 => "1 block".to_owned(),
            blocks => format!("{blocks} blocks"),
        };
        let (name, update) = (&self.gpu.gpu.identity().name, self.gpu.gf2.row_update().name());
        let device = format!("{name}, {all} panels in {blocks} of columns by {update}");
        let (stages, checked_on_device) = Default::default();
        let executor = ExecutedBy { engine: ENGINE, device, stages, checked_on_device };
        Ok(EliminatedRows { leading, executor })
    }

    /// The numbers of the words of a block in each row.
    fn words(&self, block: &Range<u32>) -> Range<usize> {
        let [first, end] = [block.start, block.end].map(|strip| strip as usize * STRIP_WORDS);
        first..end.min(self.matrix.rows.row_words())
    }

    fn on_device(&self, block: &Range<u32>) -> GpuElimination<'_> {
        let left = self.matrix.rows.columns() as u32 - block.start * STRIP_COLUMNS;
        let columns = left.min(block.len() as u32 * STRIP_COLUMNS);
        let shape = |rows: usize| DeviceBitsShape { rows: rows as u32, columns };
        let (given, rows) = (shape(self.matrix.given.rows()), shape(self.matrix.rows.rows()));
        GpuElimination {
            first_panel: block.start,
            given: DeviceBits { shape: given, lines: self.memory.given.all() },
            rows: DeviceBits { shape: rows, lines: self.memory.rows.all() },
            leading: self.memory.leading.all(),
            reduced: self.matrix.reduced,
        }
    }

    fn launch(&self) -> EliminationLaunch<'_> {
        let kernels = &self.gpu.gf2;
        let scratch = &self.memory.scratch;
        EliminationLaunch { kernels, stream: &self.stream, scratch }
    }

    fn copy_in(&self, block: &Range<u32>) -> Result<()> {
        let words = self.words(block);
        let elimination = self.on_device(block);
        let MatrixElimination { given, given_at, rows, .. } = &*self.matrix;
        for (matrix, to) in [(*given, elimination.given), (&**rows, elimination.rows)] {
            if matrix.rows() == 0 {
                continue;
            }
            let packed = self.memory.packed(matrix.rows(), &words)?;
            self.upload(packed, &BitColumns { matrix, words: words.clone() })?;
            let layout = &self.gpu.gf2.layout;
            let unused = self.memory.unused.all();
            layout.copy_to_strips(&self.stream, packed.cast().ok_or_else(misfit)?, to, unused)?;
        }
        let first = block.start * STRIP_COLUMNS;
        let given_at = &given_at[first as usize..][..elimination.rows.shape.columns as usize];
        // As kernels store rows.
        let stored = given_at.iter().map(|row| row.map_or(0, |row| !row));
        let mut stored: Vec<u8> = stored.flat_map(u32::to_le_bytes).collect();
        let to = self.memory.scratch.given_at().cast().ok_or_else(misfit)?;
        stored.resize(to.len(), 0);
        self.upload(to, &stored.as_slice())
    }

    fn copy_out(&mut self, block: &Range<u32>) -> Result<()> {
        let words = self.words(block);
        if self.matrix.rows.rows() == 0 {
            return Ok(());
        }
        let packed = self.memory.packed(self.matrix.rows.rows(), &words)?;
        let rows = self.on_device(block).rows;
        let layout = &self.gpu.gf2.layout;
        let to = packed.cast().ok_or_else(misfit)?;
        layout.copy_from_strips(&self.stream, rows, None, to)?;
        let lane = CopyLane { session: &self.copies, stream: &self.stream };
        let to = BitColumnsMut::new(self.matrix.rows, words);
        self.gpu.copier.download(lane, packed, &to, 0, &self.control)
    }

    /// What the last panel has found; `None` if it adds no pivot to any row.
    fn found(&self, panel: u32) -> Result<Option<FoundPanel>> {
        let scratch = &self.memory.scratch;
        let (rows, columns) = (self.matrix.rows.rows() as u64, u64::from(STRIP_COLUMNS));
        let mut coefficients = BitMatrix::zeros(rows, columns).map_err(|_| misfit())?;
        let from = scratch.coefficients().cast().ok_or_else(misfit)?;
        let to = BitColumnsMut::new(&mut coefficients, COEFFICIENT_WORDS);
        let lane = CopyLane { session: &self.copies, stream: &self.stream };
        self.gpu.copier.download(lane, from, &to, 0, &self.control)?;
        drop(to);
        if coefficients.words().iter().all(|word| *word == 0) {
            return Ok(None);
        }
        let sources = self.read(scratch.sources(panel)?)?;
        Ok(Some(FoundPanel { sources, coefficients }))
    }

    /// Adds the pivots of a panel before the block.
    fn add_earlier(&mut self, block: &Range<u32>, panel: u32) -> Result<()> {
        let Some(FoundPanel { sources, coefficients }) = &self.panels[panel as usize] else {
            return Ok(());
        };
        let scratch = &self.memory.scratch;
        self.upload(scratch.sources(panel)?.cast().ok_or_else(misfit)?, &sources.as_slice())?;
        let to = scratch.coefficients().cast().ok_or_else(misfit)?;
        self.upload(to, &BitColumns { matrix: coefficients, words: COEFFICIENT_WORDS })?;
        let turn = self.begin()?;
        self.on_device(block).launch_earlier_panel(self.launch(), panel)?;
        turn.end_at(&self.stream.record_timed()?);
        Ok(())
    }

    /// Eliminates a panel of the block, and keeps what later blocks of the `all` panels need of it.
    fn eliminate(&mut self, block: &Range<u32>, panel: u32, all: u32) -> Result<()> {
        let turn = self.begin()?;
        let at = panel - block.start;
        self.on_device(block).launch_panels(self.launch(), at..at + 1)?;
        turn.end_at(&self.stream.record_timed()?);
        let is_needed = block.end < all && self.matrix.rows.rows() > 0;
        let found = if is_needed { self.found(panel)? } else { None };
        self.panels.push(found);
        Ok(())
    }

    /// Waits until the next piece of work may be launched.
    fn begin(&mut self) -> Result<StepTurn> {
        loop {
            let turn = StepTurn::begin(self.gpu, &self.stream, &self.control, &mut self.wait)?;
            if let Some(turn) = turn {
                return Ok(turn);
            }
        }
    }

    fn upload(&self, to: DeviceSlice<'_, u8>, from: &dyn ByteSource) -> Result<()> {
        let lane = CopyLane { session: &self.copies, stream: &self.stream };
        self.gpu.copier.upload(lane, to, from, 0, &self.control, || Ok(()))
    }

    fn read<T: Pod>(&self, from: DeviceSlice<'_, T>) -> Result<Zeroizing<Vec<u8>>> {
        Ok(self.copies.read(&self.stream, from.cast().ok_or_else(misfit)?)?)
    }
}

impl Drop for EliminationInBlocks<'_, '_, '_> {
    fn drop(&mut self) {
        // If the job has failed, copies may be under way; chunks are wiped after them.
        let _waited = self.stream.synchronize();
        self.gpu.copier.wipe(&self.copies);
    }
}

fn misfit() -> Error {
    Error::Internal("memory does not match the columns of a matrix".into())
}
