//! The seam between jobs and what computes them. An engine sees no requests and no connections.
//! Points are checked before it gets them; scalars and elements it checks itself, where they are
//! read anyway.

mod control;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod device;
mod encoded;
mod rows;

pub use control::Control;
pub use device::{DeviceInfo, GpuInfo, MsmPlan};
pub use encoded::Encoded;
pub use rows::Rows;

use std::time::Duration;

use tracing::Span;

use crate::{
    curve::{
        Fr, Group, TWO_ADICITY,
        points::{Bad, Bases, PointEncoding, PointsMut, Sums},
        scalars::ScalarEncoding,
    },
    error::{Error, Problem, Result},
};

/// Elements of a group of rows, where rows are shorter: enough to keep all cores busy.
const NTT_GROUP_ELEMENTS: usize = 1 << 17;

/// What an engine is, for logs, `GetInfo` and responses.
#[derive(Debug, Clone)]
pub struct Description {
    /// Short name: `cpu`.
    pub name: &'static str,
    /// What it runs on, for people: `2 threads`.
    pub device: String,
    /// Threads, or multiprocessors.
    pub units: u32,
    /// Bytes of memory it can use.
    pub memory_bytes: u64,
}

/// Who computed a result, for responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executor {
    /// Short name: `cpu`, `cuda`.
    pub engine: &'static str,
    /// Device and method, such as `2 threads, blst`.
    pub device: String,
    /// Where the device's time went, by its own clock; empty where nobody looked.
    pub stages: Vec<Stage>,
    /// Whether the result was checked on the device, as [`Rows::check`] asks for.
    pub checked: bool,
}

/// The stage in which a device checks its own result.
pub const CHECK_STAGE: &str = "check";

/// What a stage of a job is called, and how long it took.
pub type Stage = (&'static str, Duration);

/// Adds what another piece of the same job took, stage by stage.
pub fn add_stages(all: &mut Vec<Stage>, more: &[Stage]) {
    for (name, time) in more {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += *time,
            None => all.push((name, *time)),
        }
    }
}

/// Says in `span`, which has such fields, what stages took: in `sort_us` what `sort` did.
pub fn record_stages(span: &Span, stages: &[Stage]) {
    if !span.is_disabled() {
        for (name, time) in stages {
            span.record(format!("{name}_us").as_str(), time.as_micros() as u64);
        }
    }
}

/// One transform's shape; every row of a batch shares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NttPlan {
    /// log2 of the row's length, at most [`crate::curve::TWO_ADICITY`].
    pub lg_n: u32,
    /// Evaluations to coefficients, 1/n included.
    pub inverse: bool,
    /// The coset's generator, not zero; `None` for the subgroup itself.
    pub coset: Option<Fr>,
    /// The input is in bit-reversed order.
    pub input_reversed: bool,
    /// The output is wanted in bit-reversed order.
    pub output_reversed: bool,
}

/// Computes MSMs and NTTs. Calls block; they come from worker threads, several at a time.
pub trait Engine: Send + Sync + 'static {
    /// What this is.
    fn description(&self) -> Description;

    /// Begins an MSM of `batch` scalar vectors, each as long as `bases`.
    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>>;

    /// How many scalars [`MsmRun::absorb`] takes best at a time, for vectors of `n` scalars. A
    /// larger piece is faster; a smaller one holds less memory and stops sooner.
    fn msm_piece(&self, group: Group, n: usize) -> usize;

    /// Transforms rows, and says who did.
    ///
    /// Errors: `Invalid` where an element is none; `Corrupt` where a check fails; `Cancelled`,
    /// `Deadline` from `control`. What was written by then is of no use.
    fn ntt(&self, plan: &NttPlan, rows: &Rows<'_>, control: &Control) -> Result<Executor>;

    /// As [`Engine::ntt`], of elements in memory, in place. Every row is 2^lg_n long.
    ///
    /// Errors: as there; `Internal` for rows of another length.
    fn ntt_in_place(
        &self,
        plan: &NttPlan,
        rows: &mut [Vec<Fr>],
        control: &Control,
    ) -> Result<Executor> {
        if plan.lg_n > TWO_ADICITY {
            return Err(Error::field("lg_n", Problem::TooLarge { max: TWO_ADICITY.into() }));
        }
        let (count, row_length) = (rows.len(), 1 << plan.lg_n);
        if rows.iter().any(|row| row.len() != row_length) {
            return Err(Error::Internal("a row is not as long as the plan says".into()));
        }
        let encoding = ScalarEncoding::Montgomery;
        let in_place = rows::InPlace::new(rows);
        let input = Encoded::new(encoding, count * row_length, &in_place);
        let output = &in_place;
        let rows = Rows { input, count, row_length, encoding, output, check: false };
        self.ntt(plan, &rows, control)
    }

    /// How many rows [`Engine::ntt`] takes best at a time. More keep all of an engine busy; fewer
    /// hold less memory and stop sooner.
    fn ntt_group(&self, plan: &NttPlan) -> usize {
        NTT_GROUP_ELEMENTS.checked_shr(plan.lg_n).unwrap_or(0).max(1)
    }

    /// Bytes of working memory per job beyond payload and result that an MSM piece takes.
    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64;

    /// Bytes of working memory beyond the rows that an NTT takes, however many rows.
    fn ntt_scratch_bytes(&self, plan: &NttPlan) -> u64 {
        // Roots and a copy of one row.
        (2 * size_of::<Fr>() as u64) << plan.lg_n
    }

    /// What this computes on, as it is now. May take milliseconds.
    fn devices(&self) -> Vec<DeviceInfo> {
        let Description { name, device, units, memory_bytes } = self.description();
        vec![DeviceInfo { name: device, kind: name, units, memory_bytes, gpu: None }]
    }

    /// Who checks points that come from outside, where that is not the host's own threads.
    fn point_checker(&self) -> Option<&dyn PointChecker> {
        None
    }
}

/// Checks points that come from outside, on something faster than the host's threads.
pub trait PointChecker: Send + Sync {
    /// How many points [`PointChecker::check`] takes best at a time; `None` where `count` points
    /// of that encoding are better checked by [`crate::curve::points::decode`].
    fn piece(&self, group: Group, encoding: PointEncoding, count: usize) -> Option<usize>;

    /// Reads and checks points, as [`crate::curve::points::decode`] does: the same points, or the
    /// same first bad one for the same reason.
    ///
    /// Shape: `bytes` holds as many points as `out`, which is in no defined state where one is bad.
    /// Errors: `Exhausted`, `DeviceLost`, `Internal`.
    fn check(
        &self,
        encoding: PointEncoding,
        bytes: &[u8],
        out: PointsMut<'_>,
    ) -> Result<Result<(), Bad>>;
}

/// An MSM that is under way: scalars come piece by piece, the sums at the end.
pub trait MsmRun: Send {
    /// Adds `sum of scalars[i] * bases[first + i]` to result number `vector`. Each scalar comes
    /// once, in any order; in order is best.
    ///
    /// Shape: `first + scalars.count` is at most the number of bases.
    /// Errors: `Invalid` where a scalar is none, here or in the end; `Cancelled`, `Deadline` from
    /// `control`.
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &Encoded<'_>,
        control: &Control,
    ) -> Result<()>;

    /// The sums, one a vector, and who computed them.
    ///
    /// Errors: `Invalid` as above.
    fn finish(self: Box<Self>) -> Result<(Sums, Executor)>;
}
