//! How the vectors of MSMs, NTTs and runs travel: through memory that the server shares, in the
//! first message, or in chunks over one stream or several. A vector on the server is only named.

use std::{future, mem, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{
    frames::FrameChannel,
    payload::OutgoingBytes,
    staged_transfer::{StagedUpload, StagedVectors},
    striped_upload::{PutHeader, UploadLane},
    upload::{self, ChunkQueue, MessageSender, MessageStream},
};
use crate::wire::{
    ChunkMessage,
    v1::{self, compute_client::ComputeClient, program_input::Source},
};
use crate::{
    Client, Progress, UploadKey,
    call::{CallBudget, CallDeadline},
    connection::affinity::{AffinityKey, CallRoute},
    convert,
    error::Result,
    options::{ElementSource, VectorInput},
};

/// A call with vectors as inputs and outputs.
pub(crate) trait VectorCall: Sync + Sized {
    /// A message of the call's stream.
    type Message: ChunkMessage + Send + 'static;
    /// The response, or its beginning: until it arrives, the call may be repeated.
    type Reply: Send;
    /// Smaller vectors are not copied to shared memory.
    const STAGED_BYTES_MIN: u64 = 0;
    /// Whether further streams may carry the inputs.
    const HAS_LANES: bool = true;

    /// The most bytes of inputs in the first message; `None` if all of them are sent in chunks.
    fn inline_bytes_max(&self, message_bytes: u64) -> Option<u64>;

    fn message(&self, part: StreamPart<'_>) -> Self::Message;

    /// Sends the call's own stream.
    fn send_stream(
        &self,
        lane: CallLane<'_>,
        stream: StreamOf<Self>,
    ) -> impl Future<Output = Result<Self::Reply>> + Send;

    /// Sends the call in one message, which has or names all inputs: by default, that of a stream.
    fn send_message(
        &self,
        lane: CallLane<'_>,
        inputs: Vec<Source>,
    ) -> impl Future<Output = Result<Self::Reply>> + Send {
        async move {
            let header = self.message(StreamPart::Header(inputs, None));
            let send = |stream| self.send_stream(lane, stream);
            upload::send_messages(header, |_| Vec::new(), send).await
        }
    }
}

pub(crate) type StreamOf<C> = MessageStream<<C as VectorCall>::Message>;

/// What a message of a call's stream holds. Numbers are those of inputs.
pub(crate) enum StreamPart<'a> {
    /// Where inputs lie, and outputs that have a place in the memory.
    Header(Vec<Source>, Option<&'a StagedVectors>),
    Chunk(usize, v1::Chunk),
    /// A range that was written to a region.
    Written(usize, v1::WrittenRange),
}

/// The only input of a call, in the header of its stream.
pub(crate) struct StreamedInput {
    pub upload: Option<v1::VectorUpload>,
    pub region_upload: Option<v1::RegionUpload>,
}

impl From<Vec<Source>> for StreamedInput {
    fn from(mut inputs: Vec<Source>) -> Self {
        match inputs.pop() {
            Some(Source::Upload(upload)) => Self { upload: Some(upload), region_upload: None },
            Some(Source::RegionUpload(upload)) => {
                Self { upload: None, region_upload: Some(upload) }
            }
            _ => Self { upload: None, region_upload: None },
        }
    }
}

/// What carries a call's own stream.
pub(crate) struct CallLane<'a> {
    pub compute: ComputeClient<FrameChannel>,
    pub deadline: CallDeadline,
    /// Memory that the server writes outputs to.
    pub memory: Option<&'a StagedVectors>,
}

/// The vectors of a call on their way.
pub(crate) struct CallTransfer<'a, C> {
    pub client: &'a Client,
    pub call: &'a C,
    pub inputs: &'a [VectorInput<'a>],
    /// Bytes of each output that is received; 0 for others.
    pub outputs: &'a [u64],
    pub route: &'a CallRoute,
    /// Reports bytes that are sent, toward all that are sent and received.
    pub progress: Option<&'a Progress>,
}

/// A call whose inputs were sent.
pub(crate) struct SentCall<R> {
    pub reply: R,
    /// Memory that the call has used, to be released after the outputs were copied from it.
    pub memory: Option<StagedVectors>,
    /// The time of the longest upload; `None` if all inputs were in the first message.
    pub upload: Option<Duration>,
}

struct PreparedCall<'a, M> {
    /// Where each input lies.
    sources: Vec<Source>,
    uploads: Vec<InputUpload<'a>>,
    staged: Vec<StagedUpload<'a>>,
    /// Messages about inputs that their owner has written to a region.
    written: Vec<M>,
}

/// An input that is sent in chunks.
struct InputUpload<'a> {
    /// Its index among the inputs.
    input: usize,
    id: UploadKey,
    header: v1::VectorUpload,
    queue: ChunkQueue<'a>,
}

impl<C: VectorCall> CallTransfer<'_, C> {
    /// Sends the inputs, and the call, until its reply arrives.
    pub async fn send(&self, call: &mut CallBudget) -> Result<SentCall<C::Reply>> {
        match self.send_in_region(call).await? {
            Some(sent) => Ok(sent),
            None => self.send_in_messages(call).await,
        }
    }

    /// Sends inputs through memory that the server shares. `None` if it shares none, or no longer.
    pub async fn send_in_region(
        &self,
        call: &mut CallBudget,
    ) -> Result<Option<SentCall<C::Reply>>> {
        let CallTransfer { client, inputs, outputs, .. } = *self;
        let memory = StagedVectors::new(client, inputs, outputs, C::STAGED_BYTES_MIN);
        let mut payloads = inputs.iter().filter_map(VectorInput::payload);
        let has_region = payloads.any(|payload| matches!(payload, OutgoingBytes::Region { .. }));
        if memory.is_none() && !has_region {
            return Ok(None);
        }
        let deadline = call.deadline;
        let memory_ref = memory.as_ref();
        let sent = async {
            let mut prepared = self.prepare(memory_ref, true)?;
            let header = StreamPart::Header(mem::take(&mut prepared.sources), memory_ref);
            let compute = client.compute(self.route);
            let lane = CallLane { compute, deadline, memory: memory_ref };
            let messages = prepared.messages_max();
            let copy = |sender: &MessageSender<_>| self.copy_batch(&mut prepared, sender);
            let send = |stream| self.call.send_stream(lane, stream);
            let header = self.call.message(header);
            let reply = upload::send_copied(header, messages, copy, send).await?;
            Ok(prepared.sent(reply))
        };
        match deadline.until_deadline(sent).await {
            Ok(sent) => Ok(Some(SentCall { memory, ..sent })),
            Err(error) => {
                if let Some(memory) = memory {
                    memory.release_after(&error);
                }
                call.wait_before_messages(error).await.map(|()| None)
            }
        }
    }

    /// Sends inputs in the first message or in chunks. Without further streams, an attempt that
    /// fails leaves nothing to resume.
    pub async fn send_in_messages(&self, call: &mut CallBudget) -> Result<SentCall<C::Reply>> {
        let deadline = call.deadline;
        loop {
            let mut prepared = self.prepare(None, false)?;
            if C::HAS_LANES && !prepared.uploads.is_empty() {
                return Ok(prepared.sent(self.send_over_lanes(&prepared, call).await?));
            }
            let sources = mem::take(&mut prepared.sources);
            let lane =
                CallLane { compute: self.client.compute(self.route), deadline, memory: None };
            let sent = self.send_chunks(sources, &prepared.uploads, lane);
            match deadline.until_deadline(sent).await {
                Ok(reply) => return Ok(prepared.sent(reply)),
                Err(error) => call.wait_before_retry(error).await?,
            }
        }
    }

    /// Sends the inputs over the call's own stream and further ones, which resume what broken
    /// connections leave.
    async fn send_over_lanes(
        &self,
        prepared: &PreparedCall<'_, C::Message>,
        call: &mut CallBudget,
    ) -> Result<C::Reply> {
        let CallTransfer { client, route, .. } = *self;
        let deadline = call.deadline;
        let uploads = &prepared.uploads;
        let run_lane = |lane: UploadLane| async move {
            if lane.number > 0 {
                let InputUpload { header, queue, .. } = &uploads[lane.upload];
                let header = PutHeader::Vector(header.clone());
                client.run_lane(lane, &header, queue, deadline).await?;
                // Only the call's own stream has a result; the others matter only if they fail.
                return future::pending().await;
            }
            let mut sources = prepared.sources.clone();
            for (InputUpload { input, header, .. }, streams) in uploads.iter().zip(&*lane.streams) {
                let header = v1::VectorUpload {
                    upload_id: streams.id.to_bytes(),
                    streams: streams.count,
                    ..header.clone()
                };
                sources[*input] = Source::Upload(header);
            }
            let compute = client.compute_on(0, &lane.route);
            self.send_chunks(sources, uploads, CallLane { compute, deadline, memory: None }).await
        };
        let ids: Vec<_> = uploads.iter().map(|upload| upload.id).collect();
        // Objects in the header may not say where to go, but all lanes must go there.
        let route = match route.affinity {
            None => &AffinityKey::of_upload(ids[0]).into(),
            Some(_) => route,
        };
        let queues: Vec<_> = uploads.iter().map(|upload| &upload.queue).collect();
        client.upload_over_lanes(route, ids, &queues, call, run_lane).await
    }

    /// Sends the call's own stream, which carries chunks of all inputs.
    async fn send_chunks(
        &self,
        sources: Vec<Source>,
        uploads: &[InputUpload<'_>],
        lane: CallLane<'_>,
    ) -> Result<C::Reply> {
        if uploads.is_empty() {
            return self.call.send_message(lane, sources).await;
        }
        let header = self.call.message(StreamPart::Header(sources, None));
        let next = |count| self.next_chunks(uploads, count);
        let send = |stream| self.call.send_stream(lane, stream);
        upload::send_messages(header, next, send).await
    }

    /// Puts the only input on the server as the vector `id`, for a call that names it.
    pub async fn put_input(
        &self,
        id: UploadKey,
        call: &mut CallBudget,
        route: &CallRoute,
    ) -> Result<SentCall<v1::PutResponse>> {
        let prepared = self.prepare(None, false)?;
        let InputUpload { header, queue, .. } = &prepared.uploads[0];
        let header = PutHeader::Vector(header.clone());
        let put = self.client.put_payload(header, id, queue, call, route.clone()).await?;
        Ok(prepared.sent(put))
    }

    /// Chooses where each input lies. Those without a place in a region are in the first message
    /// while they fit.
    fn prepare<'m>(
        &'m self,
        memory: Option<&'m StagedVectors>,
        may_use_regions: bool,
    ) -> Result<PreparedCall<'m, C::Message>> {
        let CallTransfer { client, call, inputs, outputs, .. } = *self;
        let copies = &client.inner.copies;
        let mut room = call.inline_bytes_max(client.inner.message_bytes);
        let payloads = inputs.iter().filter_map(VectorInput::payload).map(OutgoingBytes::len);
        let total = payloads.chain(outputs.iter().copied()).sum();
        // What each input has sent.
        let sent = self.progress.map(|_| Arc::new(Mutex::new(vec![0; inputs.len()])));
        let report = |input: usize| -> Option<Progress> {
            let progress = self.progress?.clone();
            let sent = sent.clone()?;
            Some(Arc::new(move |done, _| {
                let mut sent = sent.lock();
                sent[input] = done;
                progress(sent.iter().sum(), total);
            }))
        };
        let mut sources = Vec::with_capacity(inputs.len());
        let mut uploads = Vec::new();
        let mut staged = Vec::new();
        let mut written = Vec::new();
        for (input, VectorInput { spec, source }) in inputs.iter().enumerate() {
            let bytes = match source {
                ElementSource::Local(bytes) => bytes,
                ElementSource::Named(source) => {
                    sources.push(source.clone());
                    continue;
                }
            };
            let encoding = convert::scalar_encoding(spec.encoding)?;
            let count = spec.count;
            let upload_to = |place: v1::RegionPlace| {
                let v1::RegionPlace { region_id, offset } = place;
                Source::RegionUpload(v1::RegionUpload { region_id, offset, encoding, count })
            };
            let start = memory.and_then(|memory| Some((memory, memory.inputs[input]?)));
            let source = if let Some((vectors, start)) = start {
                let memory = &vectors.memory;
                staged.push(StagedUpload::new(input, bytes, memory, start, copies, report(input)));
                upload_to(memory.place(start))
            } else if let OutgoingBytes::Region { region, .. } = bytes
                && may_use_regions
            {
                let range = v1::WrittenRange { offset: 0, length: bytes.len() };
                written.push(call.message(StreamPart::Written(input, range)));
                upload_to(region.start())
            } else if let Some(left) = room.and_then(|room| room.checked_sub(bytes.len())) {
                room = Some(left);
                if let Some(sent) = &sent {
                    sent.lock()[input] = bytes.len();
                }
                Source::Inline(v1::InlineVector { encoding, data: bytes.as_single_chunk(copies) })
            } else {
                let id = UploadKey::random()?;
                let queue = client.chunk_queue(bytes.clone(), report(input));
                let upload_id = id.to_bytes();
                let header = v1::VectorUpload { upload_id, encoding, count, streams: 1 };
                uploads.push(InputUpload { input, id, header: header.clone(), queue });
                Source::Upload(header)
            };
            sources.push(source);
        }
        Ok(PreparedCall { sources, uploads, staged, written })
    }

    /// Copies pieces of the first input that has some, and sends small inputs after that. Returns
    /// false at the end.
    fn copy_batch(
        &self,
        prepared: &mut PreparedCall<'_, C::Message>,
        sender: &MessageSender<C::Message>,
    ) -> bool {
        let PreparedCall { staged, written, uploads, .. } = prepared;
        written.drain(..).for_each(|message| sender.send(message));
        if let Some(index) = staged.iter().position(|upload| !upload.is_done()) {
            let upload = &mut staged[index];
            let input = upload.input;
            upload.copy_batch(|range| {
                sender.send(self.call.message(StreamPart::Written(input, range)));
            });
            if !upload.is_done() || index + 1 < staged.len() {
                return true;
            }
        }
        self.next_chunks(uploads, usize::MAX).into_iter().for_each(|chunk| sender.send(chunk));
        false
    }

    /// The next chunks of the first uploads that have some.
    fn next_chunks(&self, uploads: &[InputUpload<'_>], count: usize) -> Vec<C::Message> {
        let mut messages = Vec::new();
        for InputUpload { input, queue, .. } in uploads {
            let chunks = queue.next_several(count - messages.len(), &mut Vec::new()).into_iter();
            messages
                .extend(chunks.map(|chunk| self.call.message(StreamPart::Chunk(*input, chunk))));
        }
        messages
    }
}

impl<M> PreparedCall<'_, M> {
    /// The most messages after the header.
    fn messages_max(&self) -> usize {
        let chunks = self.uploads.iter().map(|upload| upload.queue.chunks());
        let ranges = self.staged.iter().map(StagedUpload::announcements);
        self.written.len() + chunks.chain(ranges).sum::<usize>()
    }

    fn sent<R>(&self, reply: R) -> SentCall<R> {
        let staged = self.staged.iter().map(StagedUpload::elapsed);
        let upload = self.uploads.iter().map(|upload| upload.queue.elapsed()).chain(staged).max();
        SentCall { reply, memory: None, upload }
    }
}
