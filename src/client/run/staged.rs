//! The place of a run's large vectors in memory shared with the server.

use super::plan::{ElementSource, RunPlan};
use crate::{
    Client,
    staging::{PAGE_BYTES, STAGED_BYTES_MIN, StagedMemory},
    transfer::staged_transfer::copy_result,
    wire::v1,
};

/// Memory for the inputs and outputs of a run.
pub(super) struct StagedRun {
    memory: StagedMemory,
    /// For each input, where it begins in the memory; `None` for those that travel otherwise.
    inputs: Vec<Option<u64>>,
    /// Like `inputs`, for outputs.
    outputs: Vec<Option<u64>>,
}

/// Gives out places, one after another.
#[derive(Default)]
struct Layout {
    end: u64,
}

impl Layout {
    /// A place for `bytes` bytes; `None` if they are too few.
    fn place(&mut self, bytes: u64) -> Option<u64> {
        let start = self.end.next_multiple_of(PAGE_BYTES);
        (bytes >= STAGED_BYTES_MIN).then(|| {
            self.end = start + bytes;
            start
        })
    }
}

impl StagedRun {
    /// `None` if no vector of the run is large, or if the server shares no memory.
    pub fn new(client: &Client, plan: &RunPlan<'_>) -> Option<Self> {
        let mut layout = Layout::default();
        let inputs = plan.inputs.iter().map(|input| match &input.source {
            ElementSource::Local(bytes) => layout.place(bytes.len()),
            ElementSource::Stored(_) | ElementSource::Region(_) => None,
        });
        let inputs = inputs.collect();
        let outputs = plan.outputs.iter();
        let outputs = outputs.map(|output| layout.place(output.received_bytes()));
        let outputs = outputs.collect();
        let memory = client.staged_memory(layout.end)?;
        Some(Self { memory, inputs, outputs })
    }

    /// Where input number `index` begins in [`Self::memory`].
    pub fn input(&self, index: usize) -> Option<u64> {
        self.inputs[index]
    }

    /// Whether output number `index` is written to the memory.
    pub fn holds_output(&self, index: usize) -> bool {
        self.outputs[index].is_some()
    }

    /// Where output number `index` is written, if to the memory.
    pub fn output_place(&self, index: usize) -> Option<v1::RegionPlace> {
        self.outputs[index].map(|start| self.memory.place(start))
    }

    pub fn memory(&self) -> &StagedMemory {
        &self.memory
    }

    /// Ends the use of the memory after a run that has succeeded.
    pub fn release(self) {
        self.memory.release();
    }

    /// Copies output number `index`, if it is in the memory.
    pub fn copy_output(&self, client: &Client, index: usize, out: &mut [u8]) {
        if let Some(start) = self.outputs[index] {
            copy_result(&self.memory, start as usize, out, &client.inner.copies);
        }
    }
}
