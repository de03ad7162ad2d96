//! A job that may be computed in a batch, and the scalars of a batch.

use std::{ops::Range, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    buffer::{ByteSource, PayloadView, SharedPiece, SourceSlices},
    exec::RunReport,
    jobs::{JobWaker, ProgramJobInput},
};

pub(super) struct BatchMember {
    pub input: ProgramJobInput,
    /// Number of scalar vectors.
    pub vectors: usize,
    pub waker: JobWaker,
    pub state: Mutex<MemberState>,
}

pub(super) enum MemberState {
    Waiting,
    /// In another job's batch.
    Taken,
    Computed(BatchedMsm),
    /// Computes its own sums: its batch failed, or a worker has picked this job.
    Alone,
}

/// The sums of one member of a batch.
pub struct BatchedMsm {
    /// The batch's report, with the sums of this job only.
    pub report: RunReport,
    /// The number of jobs in the batch.
    pub jobs: usize,
    /// This job's part of the batch's vectors.
    pub share: f64,
    /// How long the batch took on another job's worker; zero for the job that was picked.
    pub elsewhere: Duration,
}

/// The jobs that a worker has taken. Those that get no sums compute their own.
pub(super) struct TakenMembers(pub Vec<Arc<BatchMember>>);

/// The scalars of all members, one after another.
pub(super) struct BatchSource<'a> {
    parts: Vec<SourcePart<'a>>,
}

struct SourcePart<'a> {
    /// Bytes of the whole source.
    range: Range<u64>,
    view: PayloadView<'a>,
}

impl BatchMember {
    pub fn set(&self, state: MemberState) {
        *self.state.lock() = state;
        self.waker.wake();
    }
}

impl TakenMembers {
    pub fn vectors(&self) -> usize {
        self.0.iter().map(|member| member.vectors).sum()
    }

    /// Removes the job that vector number `vector` of the batch belongs to.
    pub fn remove_vector(&mut self, vector: usize) -> Option<Arc<BatchMember>> {
        let mut end = 0;
        let at = self.0.iter().position(|member| {
            end += member.vectors;
            vector < end
        });
        at.map(|at| self.0.remove(at))
    }

    pub fn source(&self) -> BatchSource<'_> {
        let mut end = 0;
        let parts = self.0.iter().map(|member| {
            let start = end;
            let bytes = member.input.byte_range();
            end += bytes.end - bytes.start;
            let view = PayloadView::starting_at(&member.input.payload, bytes.start);
            SourcePart { range: start..end, view }
        });
        BatchSource { parts: parts.collect() }
    }
}

impl Drop for TakenMembers {
    fn drop(&mut self) {
        self.0.iter().for_each(|member| member.set(MemberState::Alone));
    }
}

impl BatchSource<'_> {
    /// The part that holds byte `at`.
    fn part_of(&self, at: u64) -> &SourcePart<'_> {
        &self.parts[self.parts.partition_point(|part| part.range.end <= at)]
    }
}

impl ByteSource for BatchSource<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let at = start + done as u64;
            let SourcePart { range, view } = self.part_of(at);
            let len = (out.len() - done).min((range.end - at) as usize);
            view.read(at - range.start, &mut out[done..done + len]);
            done += len;
        }
    }

    fn is_intact(&self) -> bool {
        self.parts.iter().all(|part| part.view.is_intact())
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        let part = self.part_of(range.start);
        let end = range.end.min(part.range.end);
        part.view.device_source(range.start - part.range.start..end - part.range.start)
    }

    fn shared_pieces(&self, range: Range<u64>) -> Option<Vec<SharedPiece>> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let SourcePart { range: Range { start, end }, view } = self.part_of(at);
            let end = range.end.min(*end);
            for piece in view.shared_pieces(at - start..end - start)? {
                piece.add_to(&mut pieces);
            }
            at = end;
        }
        Some(pieces)
    }
}
