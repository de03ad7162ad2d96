//! Engines compute MSMs and NTTs of operands in host memory, for the executors in `exec`. An engine
//! gets checked points; it checks scalars and elements itself, while it reads them.

mod control;
pub mod cpu;
pub mod cuda;
mod device_info;
mod encoded_scalars;
pub mod long_rows;
mod ntt_rows;
mod residency;
mod work;

pub use crate::{
    curve::NttPlan,
    field::{Arithmetic, Element31, Field31, FieldId, Prime31},
};
pub use control::{CancellationGate, JobControl};
pub use device_info::{DeviceInfo, GpuInfo, MsmPlan};
pub use encoded_scalars::EncodedScalars;
pub use ntt_rows::{NttRows, write_elements};
pub use residency::{BasesDevice, DeviceResidency, ResidencyChange, ResidentObject};
pub use work::{EliminationWork, EngineWork, VectorWork};

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use tracing::Span;

use crate::{
    curve::{
        Fr, Group, TWO_ADICITY,
        points::{BadElement, Bases, MsmSums, PointEncoding, PointsMut},
        scalars::ScalarEncoding,
    },
    error::{Error, FieldProblem, Result},
    gf2::{LeadingColumns, MatrixElimination},
};

/// Elements in a group of short rows: enough to keep all cores busy.
const NTT_GROUP_ELEMENTS: usize = 1 << 17;

/// The engine and device that computed a result, for responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedBy {
    /// Short name: `cpu`, `cuda`.
    #[serde(deserialize_with = "engine_name")]
    pub engine: StaticName,
    /// Device and method, such as `2 threads, blst`.
    pub device: String,
    /// Times of the stages by the device's clock; empty if they were not measured.
    pub stages: Vec<StageTime>,
    /// Whether the device checked the result, as [`NttRows::check_on_device`] requests.
    pub checked_on_device: bool,
}

/// The stage in which a device checks its own result.
pub const CHECK_STAGE: &str = "check";

/// One of a few names. An alias, since `serde` takes a reference to be a part of the message.
pub type StaticName = &'static str;

/// The names of all stages.
const STAGES: [&str; 5] = ["sort", "accumulate", "reduce", "transform", CHECK_STAGE];

/// The names of the engines that compute results.
const ENGINES: [&str; 2] = ["cpu", "cuda"];

fn engine_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StaticName, D::Error> {
    known_name(deserializer, &ENGINES)
}

fn stage_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StaticName, D::Error> {
    known_name(deserializer, &STAGES)
}

/// Reads one of these names. A worker must not make the server keep others.
pub(crate) fn known_name<'de, D: Deserializer<'de>>(
    deserializer: D,
    names: &[&'static str],
) -> Result<StaticName, D::Error> {
    let name = <&str>::deserialize(deserializer)?;
    let known = names.iter().find(|known| **known == name);
    known.copied().ok_or_else(|| D::Error::custom("an unknown name"))
}

/// A stage of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// Such as `sort`.
    #[serde(deserialize_with = "stage_name")]
    pub name: StaticName,
    /// The device's time for all pieces so far.
    pub duration: Duration,
}

/// Adds the durations of another piece of the same job, stage by stage.
pub fn add_stages(all: &mut Vec<StageTime>, more: &[StageTime]) {
    for stage in more {
        match all.iter_mut().find(|known| known.name == stage.name) {
            Some(sum) => sum.duration += stage.duration,
            None => all.push(*stage),
        }
    }
}

/// Records durations in `span`: that of `sort` in its field `sort_us`.
pub fn record_stages(span: &Span, stages: &[StageTime]) {
    if !span.is_disabled() {
        for StageTime { name, duration } in stages {
            span.record(format!("{name}_us").as_str(), duration.as_micros() as u64);
        }
    }
}

/// What an engine takes for its work: pieces, memory and time. It needs no device, so a process
/// without the engine can ask its model.
pub trait EngineModel: Send + Sync {
    /// All devices that compute, described as one: their names, their units and memory in total.
    fn description(&self) -> DeviceInfo;

    /// The best number of scalars per call of [`MsmRun::absorb`], for vectors of `n` scalars.
    /// Larger pieces are faster; smaller ones hold less memory and cancel sooner.
    fn msm_piece_len(&self, group: Group, n: usize) -> usize;

    /// The best number of rows of 2^`lg_n` elements per call of [`MsmNttEngine::ntt`]. More rows
    /// keep all of an engine busy; fewer hold less memory and cancel sooner.
    fn ntt_group_rows(&self, lg_n: u32) -> usize {
        NTT_GROUP_ELEMENTS.checked_shr(lg_n).unwrap_or(0).max(1)
    }

    /// Bytes of working memory for one piece of an MSM, in addition to payload and result.
    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64;

    /// Bytes of working memory for an NTT of any number of rows, in addition to the rows.
    fn ntt_scratch_bytes(&self, field: FieldId, lg_n: u32) -> u64 {
        // Roots of unity and a copy of one row.
        (2 * field.element_bytes()) << lg_n
    }

    /// The modelled time of work on operands in host memory, if the engine does nothing else.
    fn modelled_time(&self, work: &EngineWork) -> Duration;

    /// Whether the engine checks others: a step with several algorithms uses another one on it.
    fn is_oracle(&self) -> bool {
        false
    }

    /// Whether the modelled times of MSMs and NTTs include copies of their operands.
    fn models_copies(&self) -> bool {
        false
    }
}

/// Computes MSMs and NTTs. Calls block; several worker threads call concurrently.
pub trait MsmNttEngine: EngineModel {
    /// Starts an MSM of `batch` scalar vectors, each as long as `bases`.
    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>>;

    /// Transforms rows.
    ///
    /// Errors: `Invalid` if an element is not canonical; `Corrupt` if a check fails; `Cancelled`,
    /// `Deadline` from `control`. The output is unspecified after an error.
    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy>;

    /// Like [`MsmNttEngine::ntt`], for elements in memory, in place. Every row has 2^lg_n elements.
    ///
    /// Errors: those of [`MsmNttEngine::ntt`]; `Internal` for rows of another length.
    fn ntt_in_place(
        &self,
        plan: &NttPlan,
        rows: &mut [Vec<Fr>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        if plan.lg_n > TWO_ADICITY {
            return Err(Error::field("lg_n", FieldProblem::TooLarge { max: TWO_ADICITY.into() }));
        }
        let count = rows.len();
        let row_length = 1 << plan.lg_n;
        if rows.iter().any(|row| row.len() != row_length) {
            return Err(Error::Internal("a row's length differs from the plan's".into()));
        }
        let encoding = ScalarEncoding::Montgomery;
        let in_place = ntt_rows::RowsInPlace::new(rows);
        let input = EncodedScalars::new(encoding, count * row_length, &in_place);
        let output = &in_place;
        let rows = NttRows { input, count, row_length, encoding, output, check_on_device: false };
        self.ntt(plan, &rows, control)
    }

    /// Transforms rows over a field of prime order below 2^31, in place. Every row has 2^lg_n
    /// elements.
    ///
    /// Errors: `Cancelled`, `Deadline` from `control`; `Internal` for rows of another length.
    fn ntt31(
        &self,
        field: Field31,
        plan: &NttPlan<Element31>,
        rows: &mut [Vec<Element31>],
        control: &JobControl,
    ) -> Result<ExecutedBy>;

    /// Eliminates a matrix of bits in the host's memory, if the engine is faster than the host's
    /// threads. `None` if it is not, or has no memory: the matrix is as it was.
    ///
    /// Errors: `Exhausted` if it has no memory and the host's threads would take much longer;
    /// `Cancelled`, `Deadline` from `control`; those of a device. The rows are unspecified after an
    /// error.
    fn eliminate(
        &self,
        _matrix: &mut MatrixElimination<'_>,
        _control: &JobControl,
    ) -> Result<Option<EliminatedRows>> {
        Ok(None)
    }
}

/// A matrix of bits that an engine has eliminated.
#[derive(Debug)]
pub struct EliminatedRows {
    /// For each row, its leading column if it is a pivot.
    pub leading: LeadingColumns,
    /// What eliminated it.
    pub executor: ExecutedBy,
}

/// Checks points from outside faster than the host's threads.
pub trait PointChecker: Send + Sync {
    /// The best number of points per call of [`PointChecker::check`]; `None` if `count` points of
    /// that encoding are better checked by [`crate::curve::points::decode`].
    fn piece_len(&self, group: Group, encoding: PointEncoding, count: usize) -> Option<usize>;

    /// Decodes and checks points like [`crate::curve::points::decode`]: returns the same points, or
    /// the same first bad point and problem.
    ///
    /// Shape: `bytes` holds as many points as `out`, which is unspecified after a bad point.
    /// Errors: `Exhausted`, `DeviceLost`, `Internal`.
    fn check(
        &self,
        encoding: PointEncoding,
        bytes: &[u8],
        out: PointsMut<'_>,
    ) -> Result<Result<(), BadElement>>;
}

/// The result of an MSM, and its executor.
#[derive(Debug)]
pub struct ComputedMsm {
    /// One sum per vector.
    pub sums: MsmSums,
    /// What computed them.
    pub executor: ExecutedBy,
}

/// An MSM in progress: scalars are passed piece by piece, then the sums are read.
pub trait MsmRun: Send {
    /// Adds `sum of scalars[i] * bases[first + i]` to result number `vector`. Each scalar is passed
    /// once, in any order; ascending order is fastest.
    ///
    /// Shape: `first + scalars.count` is at most the number of bases, unless
    /// [`MsmRun::absorbs_adjacent_vectors`].
    /// Errors: `Invalid` if a scalar is not canonical, reported here or by [`MsmRun::finish`];
    /// `Cancelled`, `Deadline` from `control`.
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &EncodedScalars<'_>,
        control: &JobControl,
    ) -> Result<()>;

    /// Whether scalars of several vectors may be passed at once, one vector after the other.
    fn absorbs_adjacent_vectors(&self) -> bool {
        false
    }

    /// Whether the run reads the caller's bases, or an exact copy of them.
    ///
    /// Errors: `Cancelled`, `Deadline` from `control`; `Exhausted` if there is no device memory;
    /// `DeviceLost`.
    fn has_right_bases(&mut self, _control: &JobControl) -> Result<bool> {
        Ok(true)
    }

    /// Makes a device forget its copy of the bases and their tables of multiples, which may be
    /// damaged: a check has failed.
    fn evict_bases(&mut self) {}

    /// Works on what is left, if all scalars have been passed. If `control` yields, this takes
    /// about a millisecond, so that the caller can let other jobs run, and the answer is true once
    /// [`MsmRun::finish`] need not wait for a device. Otherwise the answer is true: the
    /// run has launched all work and, if that is long, waited for it.
    ///
    /// Errors: those of `absorb`.
    fn is_almost_done(&mut self, _control: &JobControl) -> Result<bool> {
        Ok(true)
    }

    /// Computes what is left. Called once, last. The run keeps its memory until it is dropped.
    ///
    /// Errors: `Invalid` if a scalar is not canonical.
    fn finish(&mut self) -> Result<ComputedMsm>;
}
