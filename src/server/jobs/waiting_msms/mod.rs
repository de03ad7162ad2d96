//! Small MSMs over the same bases that wait for a worker. The worker that picks one of them
//! computes others with it, from other clients as well, as one batch of at most 2^18 scalars: a GPU
//! takes little longer for many small MSMs than for one. One check, that its jobs ask for, covers a
//! batch.
//!
//! A batch is one piece of work, which nobody's cancellation stops. A refused scalar refuses its
//! own job, and the rest is computed again; after any other failure, each job is computed by
//! itself. One thread (`capstan-deliver`) answers the other jobs of a batch, so that the workers
//! can begin the next one.

mod member;

use std::{
    collections::HashMap,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

pub use self::member::BatchedMsm;
use self::member::{BatchMember, MemberState, TakenMembers};
use super::{JobWaker, ProgramJobInput};
use crate::{
    curve::{
        Group,
        points::{Bases, MsmSums},
        scalars::ScalarEncoding,
    },
    engine::{EncodedScalars, JobControl},
    error::{EngineError as Error, EngineResult as Result, InputError},
    exec::{Executor, RunOperands, RunReport, start_run},
    ops::{SINGLE_STEP, single_msm},
    program::{InputSpec, OutputKind, OutputSpec},
    verify::Verification,
};

/// The maximum number of vectors in a batch. A batch is one piece of work, and passing its vectors
/// to a GPU takes the worker's time.
const BATCH_VECTORS_MAX: usize = 1 << 11;

/// The sums of a job with more vectors are encoded on other threads, as for a job that is computed
/// alone.
const DELIVERED_VECTORS_MAX: usize = 64;

/// The waiting MSMs, grouped by what the jobs of a batch have in common.
#[derive(Default)]
pub struct WaitingMsms(Mutex<HashMap<BatchKey, Vec<Arc<BatchMember>>>>);

/// What the jobs of a batch have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchKey {
    group: Group,
    /// The owner of the bases. A waiting job keeps it alive, so no other owner has its address.
    owner: usize,
    /// The first of the bases among the owner's points.
    start: usize,
    count: usize,
    encoding: ScalarEncoding,
    reduce: bool,
    verify: Verification,
}

/// A job among [`WaitingMsms`], until it is dropped.
pub struct WaitingMsm {
    all: Arc<WaitingMsms>,
    key: BatchKey,
    bases: Bases,
    member: Arc<BatchMember>,
}

/// What becomes of a waiting job that a worker has picked.
pub enum PickedMsm {
    /// Another worker computes it.
    Taken,
    Computed(BatchedMsm),
    /// To be computed by itself.
    Alone,
}

/// Whether two jobs of `vectors` vectors of `n` scalars fit into one batch.
pub fn may_share(executor: &dyn Executor, n: usize, vectors: usize) -> bool {
    n > 0 && vectors > 0 && vectors <= vectors_max(executor, n) / 2
}

/// The maximum number of vectors of `n` scalars in a batch.
fn vectors_max(executor: &dyn Executor, n: usize) -> usize {
    (executor.msm_batch_scalars_max() / n).min(BATCH_VECTORS_MAX)
}

impl BatchKey {
    pub fn new(bases: &Bases, input: &ProgramJobInput, verify: Verification) -> Self {
        let (group, count) = (bases.group(), bases.len());
        let (owner, start) = (bases.owner_address(), bases.offset_in_owner());
        let InputSpec { encoding, reduce, .. } = input.spec;
        Self { group, owner, start, count, encoding, reduce, verify }
    }
}

impl WaitingMsm {
    pub fn new(
        all: &Arc<WaitingMsms>,
        key: BatchKey,
        bases: Bases,
        input: ProgramJobInput,
        vectors: usize,
        waker: JobWaker,
    ) -> Self {
        let state = Mutex::new(MemberState::Waiting);
        let member = Arc::new(BatchMember { input, vectors, waker, state });
        all.0.lock().entry(key).or_default().push(member.clone());
        Self { all: all.clone(), key, bases, member }
    }

    /// False while another worker computes the job.
    pub fn is_ready(&self) -> bool {
        !matches!(*self.member.state.lock(), MemberState::Taken)
    }

    /// Whether another worker has computed the job, and its sums are few enough to be encoded in
    /// microseconds.
    pub fn is_computed(&self) -> bool {
        let is_computed = || matches!(*self.member.state.lock(), MemberState::Computed(_));
        self.member.vectors <= DELIVERED_VECTORS_MAX && is_computed()
    }

    /// Computes the job together with others that wait, as long as `executor` gains from larger
    /// batches.
    /// If the batch fails, each job is computed alone and gets its own error.
    pub fn pick(&self, executor: &dyn Executor) -> PickedMsm {
        let mut taken = {
            // States change from `Waiting` under this lock only.
            let mut all = self.all.0.lock();
            let mut state = self.member.state.lock();
            match mem::replace(&mut *state, MemberState::Alone) {
                MemberState::Waiting => {}
                MemberState::Taken => {
                    *state = MemberState::Taken;
                    return PickedMsm::Taken;
                }
                MemberState::Computed(sums) => return PickedMsm::Computed(sums),
                MemberState::Alone => return PickedMsm::Alone,
            }
            drop(state);
            let waiting = all.entry(self.key).or_default();
            waiting.retain(|member| !Arc::ptr_eq(member, &self.member));
            let vectors_max = match self.member.input.has_arrived() {
                true => vectors_max(executor, self.bases.len()),
                // Its upload has failed.
                false => 0,
            };
            take(waiting, vectors_max.saturating_sub(self.member.vectors))
        };
        if taken.0.is_empty() {
            return PickedMsm::Alone;
        }
        // Parks them: the batch must not count as time in the queue.
        taken.0.iter().for_each(|member| member.waker.wake());
        taken.0.insert(0, self.member.clone());
        self.compute(taken, executor)
    }

    /// Computes the jobs, this one among them, again without the first that is refused.
    fn compute(&self, mut taken: TakenMembers, executor: &dyn Executor) -> PickedMsm {
        let begun = Instant::now();
        for _ in 0..2 {
            let report = AssertUnwindSafe(|| self.report(&taken, executor));
            let error = match catch_unwind(report) {
                Ok(Ok(report)) => return self.deliver(taken, report, begun.elapsed()),
                Ok(Err(error)) => error,
                Err(_) => Error::Internal("a batch panicked".into()),
            };
            tracing::debug!(%error, jobs = taken.0.len(), "a batch failed");
            let Error::Input(InputError::Invalid { index: Some(index), .. }) = error else { break };
            let vector = index as usize / self.bases.len();
            let Some(refused) = taken.remove_vector(vector) else { break };
            refused.set(MemberState::Alone);
            if taken.0.is_empty() {
                break;
            }
        }
        PickedMsm::Alone
    }

    /// The report of all vectors, as rows of one input. Errors number the scalars across them.
    fn report(&self, members: &TakenMembers, executor: &dyn Executor) -> Result<RunReport> {
        let BatchKey { group, encoding, reduce, verify, .. } = self.key;
        let (vectors, n) = (members.vectors(), self.bases.len());
        let program = Arc::new(single_msm(group, vectors, n)?);
        let input = InputSpec { encoding, count: (vectors * n) as u64, reduce };
        let output = OutputSpec { value: SINGLE_STEP, kind: OutputKind::Points };
        let mut run = start_run(executor, program, &[input], &[output], verify)?;
        let bases = [self.bases.clone()];
        run.begin(&bases)?;
        let source = &members.source();
        let operands = RunOperands {
            inputs: &[EncodedScalars::of(input, source)],
            bases: &bases,
            sinks: &[None],
            ..Default::default()
        };
        // A caller that goes away must not spoil the sums of the others.
        let control = JobControl::default();
        let report = loop {
            if let Some(report) = run.step(&operands, &control)? {
                break report;
            }
        };
        match report.points.as_slice() {
            [Some(sums)] if sums.len() == vectors => Ok(report),
            _ => Err(Error::Internal("a batch lacks sums".into())),
        }
    }

    /// Gives each job its sums, and returns those of this one.
    fn deliver(
        &self,
        mut taken: TakenMembers,
        mut report: RunReport,
        duration: Duration,
    ) -> PickedMsm {
        let jobs = taken.0.len();
        let vectors = taken.vectors();
        let mut own = PickedMsm::Alone;
        let Some(Some(mut sums)) = report.points.pop() else { return own };
        while let Some(member) = taken.0.pop() {
            let points = vec![Some(split_last(&mut sums, member.vectors))];
            let report = RunReport { points, ..report.clone() };
            let share = member.vectors as f64 / vectors as f64;
            if Arc::ptr_eq(&member, &self.member) {
                let elsewhere = Duration::ZERO;
                own = PickedMsm::Computed(BatchedMsm { report, jobs, share, elsewhere });
            } else {
                let batched = BatchedMsm { report, jobs, share, elsewhere: duration };
                member.set(MemberState::Computed(batched));
            }
        }
        own
    }
}

impl Drop for WaitingMsm {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if let Some(waiting) = all.get_mut(&self.key) {
            waiting.retain(|member| !Arc::ptr_eq(member, &self.member));
            if waiting.is_empty() {
                all.remove(&self.key);
            }
        }
    }
}

/// Takes the jobs whose scalars have arrived, the oldest first, up to `vectors_max` vectors.
fn take(waiting: &mut Vec<Arc<BatchMember>>, vectors_max: usize) -> TakenMembers {
    let mut left = vectors_max;
    let fits = |member: &mut Arc<BatchMember>| {
        let fits = member.vectors <= left && member.input.has_arrived();
        if fits {
            left -= member.vectors;
            *member.state.lock() = MemberState::Taken;
        }
        fits
    };
    TakenMembers(waiting.extract_if(.., fits).collect())
}

/// Splits off the last `count` sums.
fn split_last(sums: &mut MsmSums, count: usize) -> MsmSums {
    match sums {
        MsmSums::G1(sums) => MsmSums::G1(sums.split_off(sums.len() - count)),
        MsmSums::G2(sums) => MsmSums::G2(sums.split_off(sums.len() - count)),
    }
}

#[cfg(test)]
mod tests;
