//! Transforms of an input whose rows are transformed and sent while later ones arrive.

use std::{
    mem,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    buffer::Shifted,
    curve::{Fr, FrField},
    engines::{
        CHECK_STAGE, EncodedScalars, EngineModel, JobControl, MsmNttEngine, NttPlan, NttRows,
        StageTime, add_stages, long_rows,
    },
    error::{Error, Result},
    field::FieldId,
    ops::host::{self, ElementSink, PieceContext, PiecesDone, PiecesSpec, Rows, StepInPieces},
    program::{InputSpec, VectorShape},
    verify::verify_ntt,
};

pub(super) struct NttInPieces {
    plan: NttPlan,
    input: VectorShape,
    is_checked: bool,
    engine: Arc<dyn MsmNttEngine>,
    rows_done: usize,
    /// Device time by stage for these rows.
    stages: Vec<StageTime>,
    verify_time: Duration,
}

impl NttInPieces {
    pub fn new(plan: NttPlan, spec: PiecesSpec) -> Self {
        let PiecesSpec { input, is_checked, engine } = spec;
        let (rows_done, stages, verify_time) = Default::default();
        Self { plan, input, is_checked, engine, rows_done, stages, verify_time }
    }

    fn rows_at_once(&self) -> usize {
        rows_at_once(self.plan.lg_n, self.input, &*self.engine)
    }

    /// The rows of the next group.
    fn next_rows(&self) -> Range<usize> {
        let end = (self.rows_done + self.rows_at_once()).min(self.input.rows() as usize);
        self.rows_done..end
    }

    fn row_length(&self) -> usize {
        self.input.length() as usize
    }

    /// Whether rows were transformed correctly. Reads them and their transforms.
    fn check(&self, rows: &NttRows<'_>, control: &JobControl) -> Result<bool> {
        let n = 1 << self.plan.lg_n;
        let input = decode_rows(&rows.input, rows.count, rows.row_length, n, control)?;
        let output = EncodedScalars::new(rows.encoding, rows.count * n, rows.output);
        let output = decode_rows(&output, rows.count, n, n, control)?;
        for (input, output) in input.iter().zip(output.iter()) {
            if !verify_ntt(&self.plan, input, output, control)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn rows_at_once(lg_n: u32, input: VectorShape, engine: &dyn EngineModel) -> usize {
    engine.ntt_group_rows(lg_n).clamp(1, input.rows() as usize)
}

/// Bytes of memory for a group of rows, in addition to input and output.
pub(super) fn bytes(
    lg_n: u32,
    input: VectorShape,
    is_checked: bool,
    engine: &dyn EngineModel,
) -> u64 {
    let copies = if is_checked { 3 } else { 2 };
    let group = ((rows_at_once(lg_n, input, engine) as u64) << lg_n) * 32;
    group * copies + engine.ntt_scratch_bytes(FieldId::Bls12381Fr, lg_n)
}

/// Decodes `count` rows of `length` elements and pads each with zeros to `n`.
fn decode_rows(
    given: &EncodedScalars<'_>,
    count: usize,
    length: usize,
    n: usize,
    control: &JobControl,
) -> Result<Rows<Fr>> {
    host::rows_of(count, n, |row, out| {
        long_rows::pad(out, n, control)?;
        given.decode_elements(FrField, row * length, &mut out[..length], control)
    })
}

impl StepInPieces for NttInPieces {
    fn next_elements(&self) -> Range<usize> {
        let Range { start, end } = self.next_rows();
        start * self.row_length()..end * self.row_length()
    }

    /// A group of rows is written before it is checked.
    fn compute(&mut self, context: &PieceContext<'_>) -> Result<Option<PiecesDone>> {
        let ElementSink { encoding, sink } =
            context.sink.ok_or_else(|| Error::Internal("the step has no sink".into()))?;
        let rows = self.next_rows();
        let elements = self.next_elements();
        let input = context.input;
        let start = (elements.start * input.spec.encoding.width()) as u64;
        let source = Shifted { all: input.source, start };
        let input = EncodedScalars {
            spec: InputSpec { count: elements.len() as u64, ..input.spec },
            first: input.first + elements.start as u64,
            source: &source,
        };
        let output = Shifted { all: sink, start: ((rows.start as u64) << self.plan.lg_n) * 32 };
        let count = rows.len();
        let row_length = self.row_length();
        let check_on_device = self.is_checked;
        let rows_of_piece =
            NttRows { input, count, row_length, encoding, output: &output, check_on_device };
        let mut executor = self.engine.ntt(&self.plan, &rows_of_piece, context.control)?;
        add_stages(&mut self.stages, &executor.stages);
        if executor.checked_on_device {
            let checks = executor.stages.iter().filter(|stage| stage.name == CHECK_STAGE);
            self.verify_time += checks.map(|stage| stage.duration).sum::<Duration>();
        } else if self.is_checked {
            let begun = Instant::now();
            let is_right = self.check(&rows_of_piece, context.control)?;
            self.verify_time += begun.elapsed();
            if !is_right {
                return Err(Error::Corrupt);
            }
        }
        self.rows_done = rows.end;
        if self.rows_done < self.input.rows() as usize {
            return Ok(None);
        }
        executor.stages = mem::take(&mut self.stages);
        Ok(Some(PiecesDone { points: None, executor, verify_time: self.verify_time }))
    }
}
