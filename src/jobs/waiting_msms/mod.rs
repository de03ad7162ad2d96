//! Small MSMs over the same bases that wait for a worker. The worker that picks one of them
//! computes others with it, as one batch: a GPU takes little longer for many small MSMs than for
//! one.

use std::{
    collections::HashMap,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{JobWaker, msm_payload::MsmPayload};
use crate::{
    curve::{
        Group,
        points::{Bases, MsmSums},
    },
    engine::{ComputedMsm, ElementNames, EncodedScalars, Engine, JobControl},
    error::{Error, Result},
};

/// The most vectors of a batch: passing one to a GPU takes some 10 us of a worker's time, and a
/// batch is one piece of work.
const BATCH_VECTORS_MAX: usize = 1 << 11;

/// The MSMs that another job may compute, by their bases.
#[derive(Default)]
pub struct WaitingMsms(Mutex<HashMap<BasesKey, Vec<Arc<BatchMember>>>>);

/// Identifies bases by their place in memory. A waiting job keeps its bases alive, so no others
/// have their address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct BasesKey {
    group: Group,
    address: usize,
    count: usize,
}

struct BatchMember {
    payload: MsmPayload,
    /// Number of scalar vectors.
    vectors: usize,
    waker: JobWaker,
    state: Mutex<MemberState>,
}

enum MemberState {
    Waiting,
    /// In another job's batch.
    Taken,
    Computed(BatchedMsm),
    /// Computes its own sums: its batch failed, or a worker has picked this job.
    Alone,
}

/// The sums of one member of a batch.
pub struct BatchedMsm {
    pub computed: ComputedMsm,
    /// The number of jobs in the batch.
    pub jobs: usize,
    /// How long the batch took on another job's worker; zero for the job that was picked.
    pub elsewhere: Duration,
}

/// A job among [`WaitingMsms`], until it is dropped.
pub struct WaitingMsm {
    all: Arc<WaitingMsms>,
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

/// The jobs that a worker has taken. Those that get no sums compute their own.
struct TakenMembers(Vec<Arc<BatchMember>>);

/// Whether a batch has room for a job of `vectors` vectors of `n` scalars and another of its size.
pub fn may_share(engine: &dyn Engine, n: usize, vectors: usize) -> bool {
    n > 0 && vectors > 0 && vectors <= vectors_max(engine, n) / 2
}

/// The most vectors of `n` scalars in a batch.
fn vectors_max(engine: &dyn Engine, n: usize) -> usize {
    (engine.msm_batch_scalars_max() / n).min(BATCH_VECTORS_MAX)
}

impl BasesKey {
    fn of(bases: &Bases) -> Self {
        let address = bases.as_bytes().as_ptr() as usize;
        Self { group: bases.group(), address, count: bases.len() }
    }
}

impl WaitingMsm {
    pub fn new(
        all: &Arc<WaitingMsms>,
        bases: Bases,
        payload: MsmPayload,
        vectors: usize,
        waker: JobWaker,
    ) -> Self {
        let state = Mutex::new(MemberState::Waiting);
        let member = Arc::new(BatchMember { payload, vectors, waker, state });
        let key = BasesKey::of(&bases);
        all.0.lock().entry(key).or_default().push(member.clone());
        Self { all: all.clone(), bases, member }
    }

    /// False while another worker computes the job.
    pub fn is_ready(&self) -> bool {
        !matches!(*self.member.state.lock(), MemberState::Taken)
    }

    /// Computes the job together with others that wait, up to the size at which `engine` gains. If
    /// the batch fails, each job is computed alone and gets its own error.
    pub fn pick(&self, engine: &dyn Engine) -> PickedMsm {
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
            let waiting = all.entry(BasesKey::of(&self.bases)).or_default();
            waiting.retain(|member| !Arc::ptr_eq(member, &self.member));
            let vectors_max = match self.member.payload.upload.is_complete() {
                true => vectors_max(engine, self.bases.len()),
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
        self.compute(taken, engine)
    }

    /// Computes the jobs, this one among them, again without the first that is refused.
    fn compute(&self, mut taken: TakenMembers, engine: &dyn Engine) -> PickedMsm {
        let begun = Instant::now();
        for _ in 0..2 {
            let sums = AssertUnwindSafe(|| self.sums(&taken.0, engine));
            let error = match catch_unwind(sums) {
                Ok(Ok(computed)) => return self.deliver(taken, computed, begun.elapsed()),
                Ok(Err(error)) => error,
                Err(_) => Error::Internal("a batch panicked".into()),
            };
            tracing::debug!(%error, jobs = taken.0.len(), "a batch failed");
            let Error::Invalid { index: Some(index), .. } = error else { break };
            let vector = index as usize / self.bases.len();
            let Some(refused) = taken.remove_vector(vector) else { break };
            refused.set(MemberState::Alone);
            if taken.0.is_empty() {
                break;
            }
        }
        PickedMsm::Alone
    }

    /// The sums of all vectors. Errors number the scalars across them.
    fn sums(&self, members: &[Arc<BatchMember>], engine: &dyn Engine) -> Result<ComputedMsm> {
        let vectors = members.iter().map(|member| member.vectors).sum();
        let mut run = engine.msm(self.bases.clone(), vectors)?;
        // A caller that goes away must not spoil the sums of the others.
        let control = JobControl::default();
        let (n, mut next) = (self.bases.len(), 0);
        for member in members {
            for vector in 0..member.vectors {
                let scalars = vector * n..(vector + 1) * n;
                let source = member.payload.view(&scalars);
                let scalars = member.payload.scalars(&source, &scalars);
                let names = ElementNames { first: (next * n) as u64, ..scalars.names };
                run.absorb(next, 0, &EncodedScalars { names, ..scalars }, &control)?;
                next += 1;
            }
        }
        let computed = run.finish()?;
        match computed.sums.len() == vectors {
            true => Ok(computed),
            false => Err(Error::Internal("a batch lacks sums".into())),
        }
    }

    /// Gives each job its sums, and returns those of this one.
    fn deliver(
        &self,
        mut taken: TakenMembers,
        computed: ComputedMsm,
        duration: Duration,
    ) -> PickedMsm {
        let ComputedMsm { mut sums, executor } = computed;
        let (jobs, mut own) = (taken.0.len(), PickedMsm::Alone);
        while let Some(member) = taken.0.pop() {
            let sums = split_last(&mut sums, member.vectors);
            let computed = ComputedMsm { sums, executor: executor.clone() };
            if Arc::ptr_eq(&member, &self.member) {
                own = PickedMsm::Computed(BatchedMsm { computed, jobs, elsewhere: Duration::ZERO });
            } else {
                let batched = BatchedMsm { computed, jobs, elsewhere: duration };
                member.set(MemberState::Computed(batched));
            }
        }
        own
    }
}

impl Drop for WaitingMsm {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        let key = BasesKey::of(&self.bases);
        if let Some(waiting) = all.get_mut(&key) {
            waiting.retain(|member| !Arc::ptr_eq(member, &self.member));
            if waiting.is_empty() {
                all.remove(&key);
            }
        }
    }
}

impl BatchMember {
    fn set(&self, state: MemberState) {
        *self.state.lock() = state;
        self.waker.wake();
    }
}

impl TakenMembers {
    /// Removes the job that vector number `vector` of the batch belongs to.
    fn remove_vector(&mut self, vector: usize) -> Option<Arc<BatchMember>> {
        let mut end = 0;
        let at = self.0.iter().position(|member| {
            end += member.vectors;
            vector < end
        });
        at.map(|at| self.0.remove(at))
    }
}

impl Drop for TakenMembers {
    fn drop(&mut self) {
        self.0.iter().for_each(|member| member.set(MemberState::Alone));
    }
}

/// Takes the jobs whose scalars have arrived, the oldest first, up to `vectors_max` vectors.
fn take(waiting: &mut Vec<Arc<BatchMember>>, vectors_max: usize) -> TakenMembers {
    let mut left = vectors_max;
    let fits = |member: &mut Arc<BatchMember>| {
        let fits = member.vectors <= left && member.payload.upload.is_complete();
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
