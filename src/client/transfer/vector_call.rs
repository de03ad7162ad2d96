//! How the vectors of MSMs, NTTs and runs travel: in memory that the server shares, in the first
//! message, or in chunks over one stream or several. Vectors on the server are named.

use std::{future, mem, sync::Arc, time::Duration};

use capstan_math::program::InputSpec;
use parking_lot::Mutex;
use tonic::Request;

use super::{
    frames::FrameChannel,
    payload::OutgoingBytes,
    staged_transfer::{StagedUpload, StagedVectors},
    striped_upload::{PutHeader, UploadLane, UploadStripes},
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
    options::ScalarPayload,
};

/// A call with vectors as inputs and outputs.
pub(crate) trait VectorCall: Sync {
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

    /// The first message of a stream. Outputs with a place in `memory` are written there.
    fn header(&self, inputs: Vec<Source>, memory: Option<&StagedVectors>) -> Result<Self::Message>;

    /// A chunk of input number `input`.
    fn chunk(input: usize, chunk: v1::Chunk) -> Self::Message;

    /// A range of input number `input` that was written to a region.
    fn written(input: usize, range: v1::WrittenRange) -> Self::Message;

    fn send_stream(
        &self,
        compute: ComputeClient<FrameChannel>,
        request: Request<MessageStream<Self::Message>>,
        memory: Option<&StagedVectors>,
    ) -> impl Future<Output = Result<Self::Reply>> + Send;

    /// Sends the call in one message, which has or names all inputs: by default, that of a stream.
    fn send_message(
        &self,
        compute: ComputeClient<FrameChannel>,
        inputs: Vec<Source>,
        deadline: CallDeadline,
    ) -> impl Future<Output = Result<Self::Reply>> + Send {
        async move {
            let header = self.header(inputs, None)?;
            let send = |stream| self.send_stream(compute, deadline.request(stream), None);
            upload::send_messages(header, |_| Vec::new(), send).await
        }
    }
}

/// A vector that a call takes.
pub(crate) struct CallInput<'a> {
    /// Encoding and number of elements. For a vector on the server, those that the call needs.
    pub spec: InputSpec,
    pub source: InputSource<'a>,
}

pub(crate) enum InputSource<'a> {
    /// In the memory of this process, or in a region of which the server knows nothing yet.
    Local(OutgoingBytes<'a>),
    Stored(v1::StoredVector),
    /// Complete in a region.
    Region(v1::RegionPlace),
}

impl<'a> CallInput<'a> {
    /// Elements in this process. `field` names them in errors.
    pub fn local(field: &'static str, payload: ScalarPayload<'a>, reduce: bool) -> Result<Self> {
        let ScalarPayload { encoding, bytes } = payload;
        let count = convert::element_count(field, bytes.len(), encoding.width())?;
        let spec = InputSpec { encoding, count, reduce };
        Ok(Self { spec, source: InputSource::Local(bytes) })
    }

    /// Elements of a vector on the server, from index `offset` on.
    pub fn stored(spec: InputSpec, id: UploadKey, offset: u64) -> Self {
        let stored = v1::StoredVector { upload_id: id.to_bytes(), offset };
        Self { spec, source: InputSource::Stored(stored) }
    }

    pub fn payload(&self) -> Option<&OutgoingBytes<'a>> {
        match &self.source {
            InputSource::Local(bytes) => Some(bytes),
            InputSource::Stored(_) | InputSource::Region(_) => None,
        }
    }

    fn is_in_unannounced_region(&self) -> bool {
        matches!(self.source, InputSource::Local(OutgoingBytes::Region { .. }))
    }
}

/// A vector in a region whose encoding is known.
pub(crate) fn region_vector(place: v1::RegionPlace, encoding: i32) -> v1::RegionVector {
    let v1::RegionPlace { region_id, offset } = place;
    v1::RegionVector { region_id, offset, encoding }
}

/// The vectors of a call on their way.
pub(crate) struct CallTransfer<'a, C> {
    pub client: &'a Client,
    pub call: &'a C,
    pub inputs: &'a [CallInput<'a>],
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
    /// `None` if all inputs were in the first message.
    pub upload: Option<Duration>,
}

struct PreparedCall<'a> {
    /// Where each input lies. Uploads lack their ids.
    sources: Vec<Source>,
    uploads: Vec<InputUpload<'a>>,
    staged: Vec<StagedInput<'a>>,
}

/// An input that is copied to shared memory, or announced there.
struct StagedInput<'a> {
    /// Its index among the inputs.
    input: usize,
    upload: StagedUpload<'a>,
}

/// An input that is sent in chunks.
struct InputUpload<'a> {
    /// Its index among the inputs.
    input: usize,
    vector: v1::VectorUpload,
    queue: ChunkQueue<'a>,
}

/// What all inputs have sent.
struct SentInputs {
    bytes: Mutex<Vec<u64>>,
    total: u64,
    progress: Progress,
}

impl<C: VectorCall> CallTransfer<'_, C> {
    /// Sends the inputs, and the call, until its reply arrives.
    pub async fn send(&self, call: &mut CallBudget) -> Result<SentCall<C::Reply>> {
        match self.send_in_region(call).await? {
            Some(sent) => Ok(sent),
            None => self.send_in_messages(call).await,
        }
    }

    /// Bytes to send and to receive.
    pub fn total_bytes(&self) -> u64 {
        let inputs = self.inputs.iter().filter_map(CallInput::payload);
        inputs.map(OutgoingBytes::len).chain(self.outputs.iter().copied()).sum()
    }

    /// Sends inputs through memory that the server shares. `None` if it shares none, or no longer.
    pub async fn send_in_region(
        &self,
        call: &mut CallBudget,
    ) -> Result<Option<SentCall<C::Reply>>> {
        let bytes_min = C::STAGED_BYTES_MIN;
        let memory = StagedVectors::new(self.client, self.inputs, self.outputs, bytes_min);
        if memory.is_none() && !self.inputs.iter().any(CallInput::is_in_unannounced_region) {
            return Ok(None);
        }
        let deadline = call.deadline;
        let sent = deadline.until_deadline(self.send_copied(memory.as_ref(), deadline)).await;
        match sent {
            Ok(SentCall { reply, upload, .. }) => Ok(Some(SentCall { reply, memory, upload })),
            Err(error) => {
                if let Some(memory) = memory {
                    memory.release_after(&error);
                }
                call.wait_before_messages(error).await.map(|()| None)
            }
        }
    }

    async fn send_copied(
        &self,
        memory: Option<&StagedVectors>,
        deadline: CallDeadline,
    ) -> Result<SentCall<C::Reply>> {
        let PreparedCall { mut sources, uploads, mut staged } = self.prepare(memory, true)?;
        name_uploads(&mut sources, &uploads, &single_streams(&uploads)?);
        let header = self.call.header(sources, memory)?;
        let chunks = uploads.iter().map(|upload| upload.queue.chunks()).sum::<usize>();
        let ranges = staged.iter().map(|staged| staged.upload.announcements()).sum::<usize>();
        let copy = |sender: &MessageSender<_>| copy_batch::<C>(&mut staged, &uploads, sender);
        let compute = self.client.compute(self.route);
        let send = |stream| self.call.send_stream(compute, deadline.request(stream), memory);
        let reply = upload::send_copied(header, chunks + ranges, copy, send).await?;
        let upload = PreparedCall { sources: Vec::new(), uploads, staged }.elapsed();
        Ok(SentCall { reply, memory: None, upload })
    }

    /// Sends inputs in the first message or in chunks.
    pub async fn send_in_messages(&self, call: &mut CallBudget) -> Result<SentCall<C::Reply>> {
        let prepared = self.prepare(None, false)?;
        if !C::HAS_LANES || prepared.uploads.is_empty() {
            return self.send_alone(prepared, call).await;
        }
        let reply = self.send_over_lanes(&prepared, call).await?;
        Ok(SentCall { reply, memory: None, upload: prepared.elapsed() })
    }

    /// Sends the call over one stream, or in one message. An attempt that fails leaves nothing to
    /// resume.
    async fn send_alone(
        &self,
        mut prepared: PreparedCall<'_>,
        call: &mut CallBudget,
    ) -> Result<SentCall<C::Reply>> {
        let deadline = call.deadline;
        loop {
            let (mut sources, uploads) = (mem::take(&mut prepared.sources), &prepared.uploads);
            name_uploads(&mut sources, uploads, &single_streams(uploads)?);
            // One stream carries all, so any server of the route will do.
            let compute = self.client.compute(self.route);
            let sent = self.send_chunks(sources, uploads, compute, deadline);
            match deadline.until_deadline(sent).await {
                Ok(reply) => {
                    return Ok(SentCall { reply, memory: None, upload: prepared.elapsed() });
                }
                Err(error) => call.wait_before_retry(error).await?,
            }
            prepared = self.prepare(None, false)?;
        }
    }

    /// Sends the inputs over the call's own stream and further ones, which resume what broken
    /// connections leave.
    async fn send_over_lanes(
        &self,
        prepared: &PreparedCall<'_>,
        call: &mut CallBudget,
    ) -> Result<C::Reply> {
        let deadline = call.deadline;
        let PreparedCall { sources, uploads, .. } = prepared;
        let run_lane = |lane: UploadLane| async move {
            if lane.number > 0 {
                let InputUpload { vector, queue, .. } = &uploads[lane.upload];
                let header = PutHeader::Vector(vector.clone());
                self.client.run_lane(lane, &header, queue, deadline).await?;
                // Only the call's own stream has a result; the others matter only if they fail.
                return future::pending().await;
            }
            let mut sources = sources.clone();
            name_uploads(&mut sources, uploads, &lane.streams);
            let compute = self.client.compute_on(0, &lane.route);
            self.send_chunks(sources, uploads, compute, deadline).await
        };
        let ids = uploads.iter().map(|_| UploadKey::random()).collect::<Result<Vec<_>>>()?;
        // Objects in the header may not say where to go, but all lanes must go there.
        let route = match (&self.route.affinity, ids.first()) {
            (None, Some(id)) => &AffinityKey::of_upload(*id).into(),
            _ => self.route,
        };
        let queues: Vec<_> = uploads.iter().map(|upload| &upload.queue).collect();
        self.client.upload_over_lanes(route, ids, &queues, call, run_lane).await
    }

    /// Sends the call's own stream, which carries chunks of all inputs.
    async fn send_chunks(
        &self,
        sources: Vec<Source>,
        uploads: &[InputUpload<'_>],
        compute: ComputeClient<FrameChannel>,
        deadline: CallDeadline,
    ) -> Result<C::Reply> {
        if uploads.is_empty() {
            return self.call.send_message(compute, sources, deadline).await;
        }
        let header = self.call.header(sources, None)?;
        let next = |count| next_chunks::<C>(uploads, count);
        let send = |stream| self.call.send_stream(compute, deadline.request(stream), None);
        upload::send_messages(header, next, send).await
    }

    /// Puts the only input on the server as the vector `id`, for a call that names it.
    pub async fn put_input(
        &self,
        id: UploadKey,
        call: &mut CallBudget,
        route: &CallRoute,
    ) -> Result<SentCall<v1::PutResponse>> {
        let PreparedCall { uploads, .. } = self.prepare(None, false)?;
        let InputUpload { vector, queue, .. } = &uploads[0];
        let header = PutHeader::Vector(vector.clone());
        let put = self.client.put_payload(header, id, queue, call, route.clone()).await?;
        Ok(SentCall { reply: put, memory: None, upload: Some(queue.elapsed()) })
    }

    /// Chooses where each input lies. Those without a place in a region are in the first message
    /// while they fit.
    fn prepare<'m>(
        &'m self,
        memory: Option<&'m StagedVectors>,
        may_use_regions: bool,
    ) -> Result<PreparedCall<'m>> {
        let client = self.client;
        let mut room = self.call.inline_bytes_max(client.inner.message_bytes);
        let sent = self.progress.map(|progress| {
            let bytes = Mutex::new(vec![0; self.inputs.len()]);
            Arc::new(SentInputs { bytes, total: self.total_bytes(), progress: progress.clone() })
        });
        let report = |input| Some(SentInputs::report(sent.clone()?, input));
        let mut sources = Vec::with_capacity(self.inputs.len());
        let (mut uploads, mut staged) = (Vec::new(), Vec::new());
        for (input, CallInput { spec, source }) in self.inputs.iter().enumerate() {
            let encoding = convert::scalar_encoding(spec.encoding)?;
            let bytes = match source {
                InputSource::Local(bytes) => bytes,
                InputSource::Stored(stored) => {
                    sources.push(Source::Stored(stored.clone()));
                    continue;
                }
                InputSource::Region(place) => {
                    sources.push(Source::Region(region_vector(place.clone(), encoding)));
                    continue;
                }
            };
            let copies = &client.inner.copies;
            let in_memory = memory.and_then(|memory| memory.upload(input, bytes, copies));
            let in_place = || StagedUpload::in_place(bytes, copies).filter(|_| may_use_regions);
            let source = if let Some(upload) = in_memory.or_else(in_place) {
                let upload = upload.with_progress(report(input));
                let header = upload.header(encoding, spec.count);
                staged.push(StagedInput { input, upload });
                Source::RegionUpload(header)
            } else if let Some(left) = room.and_then(|room| room.checked_sub(bytes.len())) {
                room = Some(left);
                if let Some(sent) = &sent {
                    sent.bytes.lock()[input] = bytes.len();
                }
                Source::Inline(v1::InlineVector { encoding, data: bytes.as_single_chunk(copies) })
            } else {
                let (count, queue) = (spec.count, client.chunk_queue(bytes.clone(), report(input)));
                let vector = v1::VectorUpload { encoding, count, ..Default::default() };
                uploads.push(InputUpload { input, vector: vector.clone(), queue });
                Source::Upload(vector)
            };
            sources.push(source);
        }
        Ok(PreparedCall { sources, uploads, staged })
    }
}

impl SentInputs {
    /// A callback for the upload of input number `input`.
    fn report(inputs: Arc<Self>, input: usize) -> Progress {
        Arc::new(move |done, _| {
            let mut bytes = inputs.bytes.lock();
            bytes[input] = done;
            (inputs.progress)(bytes.iter().sum(), inputs.total);
        })
    }
}

impl PreparedCall<'_> {
    /// The time of the longest upload; `None` if nothing was uploaded.
    fn elapsed(&self) -> Option<Duration> {
        let staged = self.staged.iter().map(|staged| staged.upload.elapsed());
        self.uploads.iter().map(|upload| upload.queue.elapsed()).chain(staged).max()
    }
}

/// New ids, for uploads that have one stream each.
fn single_streams(uploads: &[InputUpload<'_>]) -> Result<Vec<UploadStripes>> {
    uploads.iter().map(|_| Ok(UploadStripes { id: UploadKey::random()?, count: 1 })).collect()
}

/// Adds ids and numbers of streams to the sources of `uploads`.
fn name_uploads(sources: &mut [Source], uploads: &[InputUpload<'_>], streams: &[UploadStripes]) {
    for (InputUpload { input, vector, .. }, streams) in uploads.iter().zip(streams) {
        let upload_id = streams.id.to_bytes();
        let vector = v1::VectorUpload { upload_id, streams: streams.count, ..vector.clone() };
        sources[*input] = Source::Upload(vector);
    }
}

/// Copies pieces of the first input that has some, and sends small inputs after that. Returns false
/// at the end.
fn copy_batch<C: VectorCall>(
    staged: &mut [StagedInput<'_>],
    uploads: &[InputUpload<'_>],
    sender: &MessageSender<C::Message>,
) -> bool {
    if let Some(index) = staged.iter().position(|staged| !staged.upload.is_done()) {
        let StagedInput { input, upload } = &mut staged[index];
        upload.copy_batch(|range| sender.send(C::written(*input, range)));
        if !upload.is_done() || index + 1 < staged.len() {
            return true;
        }
    }
    next_chunks::<C>(uploads, usize::MAX).into_iter().for_each(|chunk| sender.send(chunk));
    false
}

/// The next chunks of the first uploads that have some.
fn next_chunks<C: VectorCall>(uploads: &[InputUpload<'_>], count: usize) -> Vec<C::Message> {
    let mut messages = Vec::new();
    for InputUpload { input, queue, .. } in uploads {
        let chunks = queue.next_several(count - messages.len(), &mut Vec::new());
        messages.extend(chunks.into_iter().map(|chunk| C::chunk(*input, chunk)));
    }
    messages
}
