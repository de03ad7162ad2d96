//! Sends the inputs of a run and receives its outputs.

use std::{collections::HashSet, future, sync::Arc, time::Duration};

use capstan_math::runner::{RunOptions, ValueElements};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    plan::{self, ElementSource, PlannedDelivery, RunPlan},
    staged::StagedRun,
};
use crate::{
    Client, Progress, UploadKey,
    call::{CallBudget, CallDeadline},
    connection::affinity::{AffinityKey, CallRoute},
    convert,
    error::{ClientError, Result},
    program,
    transfer::{
        download::{DownloadProgress, copy_chunk},
        frames,
        staged_transfer::StagedUpload,
        striped_upload::{PutHeader, UploadLane},
        upload::{self, ChunkQueue, MessageSender},
    },
    wire::{
        self, MessageReader,
        v1::{self, program_input::Source, run_request::Message, run_response::Message as Answer},
    },
};

/// The inputs of a run on their way to the server.
pub(super) struct RunTransfer<'a> {
    client: &'a Client,
    pub plan: &'a RunPlan<'a>,
    pub route: CallRoute,
    verify: v1::Verify,
    progress: Option<Progress>,
    /// Bytes to send and to receive.
    total: u64,
    pub received: DownloadProgress,
}

struct PreparedRun<'a> {
    header: v1::RunHeader,
    uploads: Vec<InputUpload<'a>>,
    staged: Vec<StagedInput<'a>>,
}

/// An input that is copied to shared memory.
struct StagedInput<'a> {
    /// Its index among the inputs.
    input: u32,
    upload: StagedUpload<'a>,
}

/// An input that is sent in chunks.
struct InputUpload<'a> {
    /// Its index among the inputs.
    input: usize,
    vector: v1::VectorUpload,
    queue: ChunkQueue<'a>,
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
    /// `None` if all inputs were in the first message.
    pub upload: Option<Duration>,
    pub download: Duration,
}

impl<'a> RunTransfer<'a> {
    pub fn new(
        client: &'a Client,
        plan: &'a RunPlan<'a>,
        options: &RunOptions,
        route: CallRoute,
    ) -> Self {
        let (sent, progress) = (plan.sent_bytes(), options.progress.clone());
        let total = sent + plan.received_bytes();
        let received = DownloadProgress::new(progress.clone(), sent, total);
        Self { client, plan, route, verify: options.verify.into(), progress, total, received }
    }

    /// Runs the program; resumes what a broken connection has left. Large vectors travel through
    /// `memory` if that is given and the server still shares it.
    pub async fn run(
        &self,
        memory: &mut Option<StagedRun>,
        call: &mut CallBudget,
    ) -> Result<RunReply> {
        if let Some(staged) = &*memory {
            let error = match self.run_in_region(staged, call.deadline).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if error.is_before_start()
                && let Some(staged) = memory.take()
            {
                staged.release();
            }
            call.wait_before_messages(error).await?;
            *memory = None;
        }
        self.run_in_messages(call).await
    }

    async fn run_in_region(&self, memory: &StagedRun, deadline: CallDeadline) -> Result<RunReply> {
        let PreparedRun { mut header, uploads, mut staged } = self.prepare(Some(memory))?;
        for InputUpload { input, vector, .. } in &uploads {
            let upload_id = UploadKey::random()?.to_bytes();
            let vector = v1::VectorUpload { upload_id, streams: 1, ..vector.clone() };
            header.inputs[*input].source = Some(Source::Upload(vector));
        }
        let run =
            self.run_stream(header, &uploads, &mut staged, Some(memory), &self.route, deadline);
        let mut reply = deadline.until_deadline(run).await?;
        let started = Instant::now();
        for (index, output) in self.plan.outputs.iter().enumerate() {
            if memory.holds_output(index) {
                let count = output.received_bytes() / output.field.element_bytes();
                let mut elements = ValueElements::zeros(output.field, count)?;
                memory.copy_output(self.client, index, elements.as_bytes_mut());
                reply.vectors[index] = elements;
                self.received.add(output.received_bytes());
            }
        }
        reply.download += started.elapsed();
        Ok(reply)
    }

    async fn run_in_messages(&self, call: &mut CallBudget) -> Result<RunReply> {
        let deadline = call.deadline;
        let PreparedRun { header, uploads, .. } = &self.prepare(None)?;
        let run_lane = |lane: UploadLane| async move {
            if lane.number > 0 {
                let InputUpload { vector, queue, .. } = &uploads[lane.upload];
                let header = PutHeader::Vector(vector.clone());
                self.client.run_lane(lane, &header, queue, deadline).await?;
                // Only the call's own stream has a result; the others matter only if they fail.
                return future::pending().await;
            }
            let mut header = header.clone();
            for (upload, streams) in uploads.iter().zip(&*lane.streams) {
                let (upload_id, streams) = (streams.id.to_bytes(), streams.count);
                let vector = v1::VectorUpload { upload_id, streams, ..upload.vector.clone() };
                header.inputs[upload.input].source = Some(Source::Upload(vector));
            }
            self.run_stream(header, uploads, &mut [], None, &lane.route, deadline).await
        };
        let ids = uploads.iter().map(|_| UploadKey::random()).collect::<Result<Vec<_>>>()?;
        let route = match (&self.route.affinity, ids.first()) {
            (None, Some(id)) => AffinityKey::of_upload(*id).into(),
            _ => self.route.clone(),
        };
        let queues: Vec<_> = uploads.iter().map(|upload| &upload.queue).collect();
        self.client.upload_over_lanes(&route, ids, &queues, call, run_lane).await
    }

    /// The header, without the ids of uploads. Inputs without a place in `memory` are sent in it
    /// while they fit into a message.
    fn prepare<'m>(&self, memory: Option<&'m StagedRun>) -> Result<PreparedRun<'m>>
    where
        'a: 'm,
    {
        let (client, plan) = (self.client, self.plan);
        let reference = program::reference(&plan.program);
        let mut room = client.inner.message_bytes.saturating_sub(wire::encoded_bytes(&reference));
        let (mut inputs, mut uploads, mut staged) = (Vec::new(), Vec::new(), Vec::new());
        // What each upload has sent, and what the header sends.
        let sent = Arc::new(Mutex::new(vec![0; plan.inputs.len()]));
        for (number, input) in plan.inputs.iter().enumerate() {
            let encoding = convert::scalar_encoding(input.spec.encoding)?;
            let place = memory.and_then(|memory| Some((memory, memory.input(number)?)));
            let source = match (&input.source, place) {
                (ElementSource::Local(bytes), Some((memory, start))) => {
                    let copies = &client.inner.copies;
                    let upload = StagedUpload::new(bytes, memory.memory(), start as usize, copies);
                    let upload = upload.with_progress(self.share(number, &sent), bytes.len());
                    let header = upload.header(encoding, input.spec.count);
                    staged.push(StagedInput { input: number as u32, upload });
                    Some(Source::RegionUpload(header))
                }
                (ElementSource::Stored(stored), _) => Some(Source::Stored(stored.clone())),
                (ElementSource::Region(id), _) => {
                    Some(Source::Region(plan::region_vector(plan::region_start(*id), encoding)))
                }
                (ElementSource::Local(bytes), None) if bytes.len() <= room => {
                    room -= bytes.len();
                    sent.lock()[number] = bytes.len();
                    let data = bytes.as_single_chunk(&client.inner.copies);
                    Some(Source::Inline(v1::InlineVector { encoding, data }))
                }
                (ElementSource::Local(bytes), None) => {
                    let count = input.spec.count;
                    let vector = v1::VectorUpload { encoding, count, ..Default::default() };
                    let queue = client.chunk_queue(bytes.clone(), self.share(number, &sent));
                    uploads.push(InputUpload { input: number, vector, queue });
                    None
                }
            };
            inputs.push(v1::ProgramInput { source, reduce: input.reduce });
        }
        let outputs = plan.outputs.iter().enumerate();
        let outputs = outputs.map(|(index, output)| {
            output.message(memory.and_then(|memory| memory.output_place(index)))
        });
        let outputs = outputs.collect::<Result<_>>()?;
        let program = Some(reference);
        let header = v1::RunHeader { program, inputs, outputs, verify: self.verify.into() };
        Ok(PreparedRun { header, uploads, staged })
    }

    /// A callback for the upload of an input, which reports what all inputs have sent.
    fn share(&self, input: usize, sent: &Arc<Mutex<Vec<u64>>>) -> Option<Progress> {
        let (progress, total, sent) = (self.progress.clone()?, self.total, sent.clone());
        Some(Arc::new(move |done, _| {
            let mut sent = sent.lock();
            sent[input] = done;
            progress(sent.iter().sum(), total);
        }))
    }

    /// Runs the call's own stream, which carries pieces of all inputs.
    async fn run_stream(
        &self,
        header: v1::RunHeader,
        uploads: &[InputUpload<'_>],
        staged: &mut [StagedInput<'_>],
        memory: Option<&StagedRun>,
        route: &CallRoute,
        deadline: CallDeadline,
    ) -> Result<RunReply> {
        let header = v1::RunRequest { message: Some(Message::Header(header)) };
        // Stripes use the connections from the second one on.
        let lane = if uploads.is_empty() { self.client.next_lane() } else { 0 };
        let mut compute = self.client.compute_on(lane, route);
        // The response begins after all inputs were sent.
        let job = async |stream| {
            let request = deadline.request(stream);
            Ok(frames::exchange(request, |request| compute.run(request)).await?)
        };
        let (first, responses) = match memory {
            Some(_) => {
                let chunks = uploads.iter().map(|upload| upload.queue.chunks()).sum::<usize>();
                let ranges =
                    staged.iter().map(|staged| staged.upload.announcements()).sum::<usize>();
                let copy = |sender: &MessageSender<_>| copy_batch(staged, uploads, sender);
                upload::send_copied(header, chunks + ranges, copy, job).await?
            }
            None => {
                let next = |count| next_chunks(uploads, count);
                upload::send_messages(header, next, job).await?
            }
        };
        let reply = self.receive(first, responses, memory).await?;
        let staged = staged.iter().map(|staged| staged.upload.elapsed());
        let upload = uploads.iter().map(|upload| upload.queue.elapsed()).chain(staged).max();
        Ok(RunReply { upload, ..reply })
    }

    async fn receive(
        &self,
        first: Option<v1::RunResponse>,
        mut responses: MessageReader<v1::RunResponse>,
        memory: Option<&StagedRun>,
    ) -> Result<RunReply> {
        let is_staged = |index| memory.is_some_and(|memory| memory.holds_output(index));
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
                    return Ok(RunReply {
                        result,
                        vectors,
                        upload: None,
                        download: started.elapsed(),
                    });
                }
                _ => return Err(wrong_outputs()),
            }
            next = responses.message().await?;
        }
        Err(ClientError::invalid_response("the stream ended without a result"))
    }
}

/// Copies pieces of the first input that has some, and sends small inputs after that. Returns false
/// at the end.
fn copy_batch(
    staged: &mut [StagedInput<'_>],
    uploads: &[InputUpload<'_>],
    sender: &MessageSender<v1::RunRequest>,
) -> bool {
    let next = staged.iter_mut().find(|staged| !staged.upload.is_done());
    if let Some(StagedInput { input, upload }) = next {
        let input = *input;
        upload.copy_batch(|range| {
            let range = v1::RunInputRange { input, range: Some(range) };
            sender.send(v1::RunRequest { message: Some(Message::Written(range)) });
        });
        return true;
    }
    next_chunks(uploads, usize::MAX).into_iter().for_each(|chunk| sender.send(chunk));
    false
}

/// The next chunks of the first uploads that have some.
fn next_chunks(uploads: &[InputUpload<'_>], count: usize) -> Vec<v1::RunRequest> {
    let mut messages = Vec::new();
    for InputUpload { input, queue, .. } in uploads {
        let chunks = queue.next_several(count - messages.len(), &mut Vec::new());
        messages.extend(chunks.into_iter().map(|chunk| {
            let chunk = v1::RunInputChunk { input: *input as u32, chunk: Some(chunk) };
            v1::RunRequest { message: Some(Message::Chunk(chunk)) }
        }));
    }
    messages
}

fn wrong_outputs() -> ClientError {
    ClientError::invalid_response("the outputs have the wrong number or length")
}
