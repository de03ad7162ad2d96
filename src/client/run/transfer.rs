//! Sends a run and receives its outputs.

use std::{collections::HashSet, time::Duration};

use capstan_math::runner::ValueElements;
use tokio::time::Instant;

use super::plan::{PlannedDelivery, RunPlan};
use crate::{
    error::{ClientError, Result},
    staging,
    transfer::{
        download::{DownloadProgress, copy_chunk},
        frames,
        staged_transfer::StagedVectors,
        vector_call::{CallLane, StreamOf, StreamPart, VectorCall},
    },
    wire::{
        self, MessageReader,
        v1::{self, run_request::Message, run_response::Message as Answer},
    },
};

/// A run on its way to the server.
pub(super) struct ProgramCall<'a> {
    pub plan: &'a RunPlan<'a>,
    pub program: v1::ProgramRef,
    pub verify: v1::Verify,
    pub received: DownloadProgress,
}

/// An output of which some bytes have arrived.
struct PartialOutput {
    elements: ValueElements,
    bytes: usize,
}

/// What the server replied to a run.
pub(super) struct RunReply {
    pub result: v1::RunResult,
    /// The elements of each output that was sent; empty for the others.
    pub vectors: Vec<ValueElements>,
    pub download: Duration,
}

impl VectorCall for ProgramCall<'_> {
    type Message = v1::RunRequest;
    type Reply = RunReply;
    const STAGED_BYTES_MIN: u64 = staging::STAGED_BYTES_MIN;

    fn inline_bytes_max(&self, message_bytes: u64) -> Option<u64> {
        Some(message_bytes.saturating_sub(wire::encoded_bytes(&self.program)))
    }

    fn message(&self, part: StreamPart<'_>) -> v1::RunRequest {
        let message = match part {
            StreamPart::Header(inputs, memory) => {
                let RunPlan { inputs: planned, outputs, .. } = self.plan;
                let inputs = inputs.into_iter().zip(planned).map(|(source, input)| {
                    v1::ProgramInput { source: Some(source), reduce: input.spec.reduce }
                });
                let outputs = outputs.iter().enumerate().map(|(index, output)| {
                    output.message(memory.and_then(|memory| memory.output_place(index)))
                });
                Message::Header(v1::RunHeader {
                    program: Some(self.program.clone()),
                    inputs: inputs.collect(),
                    outputs: outputs.collect(),
                    verify: self.verify.into(),
                })
            }
            StreamPart::Chunk(input, chunk) => {
                Message::Chunk(v1::RunInputChunk { input: input as u32, chunk: Some(chunk) })
            }
            StreamPart::Written(input, range) => {
                Message::Written(v1::RunInputRange { input: input as u32, range: Some(range) })
            }
        };
        v1::RunRequest { message: Some(message) }
    }

    /// The response begins after all inputs were sent.
    async fn send_stream(&self, lane: CallLane<'_>, stream: StreamOf<Self>) -> Result<RunReply> {
        let CallLane { mut compute, deadline, memory } = lane;
        let sent = frames::exchange(deadline.request(stream), |request| compute.run(request));
        let (first, responses) = sent.await?;
        self.receive(first, responses, memory).await
    }
}

impl ProgramCall<'_> {
    async fn receive(
        &self,
        first: Option<v1::RunResponse>,
        mut responses: MessageReader<v1::RunResponse>,
        memory: Option<&StagedVectors>,
    ) -> Result<RunReply> {
        let is_staged = |index: usize| memory.is_some_and(|memory| memory.outputs[index].is_some());
        let received = self.plan.outputs.iter().enumerate().map(|(index, output)| {
            let count = match output.delivery {
                PlannedDelivery::Send { elements } if !is_staged(index) => elements,
                _ => 0,
            };
            ValueElements::zeros(output.field, count)
        });
        // Wiped if the call fails or is cancelled.
        let received = received.map(|elements| Ok(PartialOutput { elements: elements?, bytes: 0 }));
        let mut outputs = received.collect::<Result<Vec<_>>>()?;
        let (mut next, mut started) = (first, Instant::now());
        let mut early = HashSet::new();
        while let Some(message) = next {
            match message.message {
                Some(Answer::Chunk(v1::RunOutputChunk { output, chunk: Some(chunk) })) => {
                    let output = outputs.get_mut(output as usize);
                    let output = output.ok_or_else(wrong_outputs)?;
                    let bytes = output.elements.as_bytes_mut();
                    output.bytes = copy_chunk(&chunk, bytes, output.bytes)?;
                    self.received.add(chunk.data.len() as u64);
                }
                Some(Answer::Points(v1::RunOutputPoints { output, points })) => {
                    let is_new = early.insert(output) && self.verify == v1::Verify::None;
                    if !is_new {
                        return Err(wrong_outputs());
                    }
                    self.plan.receive_early(output, &points)?;
                    next = responses.message().await?;
                    // The server has computed until now.
                    started = Instant::now();
                    continue;
                }
                Some(Answer::Result(result)) => {
                    let is_whole = |output: &mut PartialOutput| {
                        output.bytes == output.elements.as_bytes_mut().len()
                    };
                    if result.points.len() != outputs.len() || !outputs.iter_mut().all(is_whole) {
                        return Err(wrong_outputs());
                    }
                    let vectors = outputs.into_iter().map(|output| output.elements).collect();
                    return Ok(RunReply { result, vectors, download: started.elapsed() });
                }
                _ => return Err(wrong_outputs()),
            }
            next = responses.message().await?;
        }
        Err(ClientError::invalid_response("the stream ended without a result"))
    }
}

fn wrong_outputs() -> ClientError {
    ClientError::invalid_response("the outputs have the wrong number or length")
}
