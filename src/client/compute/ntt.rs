//! Number-theoretic transforms.

use std::{mem, time::Duration};

use capstan_math::{
    curve::{
        Fr,
        layout::{fr_as_bytes, fr_as_bytes_mut},
        scalars::ScalarEncoding,
    },
    error::FieldProblem,
    field::FieldId,
};
use futures_util::FutureExt;
use tokio::time::Instant;

use super::ntt_spec::NttCallSpec;
use crate::wire::{
    MessageReader,
    v1::{self, ntt_request::Input, ntt_response::Output, ntt_stream_request::Message},
};
use crate::{
    Client, EncodedNttResult, NttOptions, NttReport, Progress, UploadKey,
    call::{CallBudget, CallFuture},
    connection::affinity::{AffinityKey, CallRoute},
    convert,
    error::{ClientError, Result},
    objects::release::ReleaseOnDrop,
    staging::PAGE_BYTES,
    transfer::{
        download::{DownloadProgress, copy_chunk},
        frames,
        payload::OwnedElements,
        row_buffers::RowBuffers,
        staged_transfer::{StagedUpload, copy_result},
        striped_upload::PutHeader,
        upload::{MessageSender, send_copied},
    },
};

/// Results of at least this size are kept on the server and downloaded over several connections.
const STRIPED_BYTES: u64 = 8 << 20;

/// Result of an NTT that returns its rows.
#[derive(Debug)]
pub struct NttResult {
    /// The rows, one after another.
    pub values: Vec<Fr>,
    /// Timing and execution.
    pub report: NttReport,
}

struct NttReply {
    result: Option<v1::NttResult>,
    /// `None` if the rows were sent in a single message.
    upload: Option<Duration>,
    download: Duration,
}

impl Client {
    /// Transforms `values` in place.
    ///
    /// Shape: `options.batch` rows of equal length, a power of two, one after another. Encoding:
    /// sent and received as Montgomery limbs, without conversion. Errors: `InvalidInput` for any
    /// other shape; `Refused`; `DeadlineExceeded`; `InvalidResponse` if the result was verified
    /// less than requested. The values are unspecified after `InvalidResponse`, and after any error
    /// while the result was being received.
    pub async fn ntt(&self, values: &mut [Fr], options: NttOptions) -> Result<NttReport> {
        let spec = NttCallSpec::new(
            FieldId::Bls12381Fr,
            values.len(),
            &options,
            ScalarEncoding::Montgomery,
        )?;
        if spec.received != values.len() {
            return Err(ClientError::length("values", spec.received as u64, values.len() as u64));
        }
        let mut rows = RowBuffers::InPlace(fr_as_bytes_mut(values));
        let report = self.run_ntt(spec, &mut rows, options).await?;
        convert::check_canonical(values)?;
        Ok(report)
    }

    /// Like [`Self::ntt`], but sends the values without a copy. The result is received into the
    /// same memory.
    ///
    /// Errors: those of [`Self::ntt`], which wipe and drop the values.
    pub async fn ntt_owned(&self, values: Vec<Fr>, options: NttOptions) -> Result<NttResult> {
        let owned = OwnedElements::new(values);
        let count = owned.len();
        let spec =
            NttCallSpec::new(FieldId::Bls12381Fr, count, &options, ScalarEncoding::Montgomery)?;
        if spec.received != count {
            return Err(ClientError::length("values", spec.received as u64, count as u64));
        }
        let mut rows = RowBuffers::Owned(owned);
        let report = self.run_ntt(spec, &mut rows, options).await?;
        let RowBuffers::Owned(owned) = rows else { unreachable!("still the same rows") };
        let mut values = owned.into_elements();
        convert::check_canonical(&mut values)?;
        Ok(NttResult { values: mem::take(&mut *values), report })
    }

    /// Pads each row with zeros to 2^lg_n elements and transforms it.
    ///
    /// Shape: `options.batch` rows of equal length, at most 2^lg_n; `options.lg_n` is ignored.
    /// Errors: those of [`Self::ntt`].
    pub async fn ntt_padded(
        &self,
        values: &[Fr],
        lg_n: u32,
        mut options: NttOptions,
    ) -> Result<NttResult> {
        options.lg_n = Some(lg_n);
        let spec = NttCallSpec::new(
            FieldId::Bls12381Fr,
            values.len(),
            &options,
            ScalarEncoding::Montgomery,
        )?;
        // Wipes received values if the call fails or is cancelled.
        let mut out = convert::fr_zeros("lg_n", spec.received as u64)?;
        let (input, output) = (fr_as_bytes(values), fr_as_bytes_mut(&mut out));
        let mut rows = RowBuffers::Separate { input, output };
        let report = self.run_ntt(spec, &mut rows, options).await?;
        convert::check_canonical(&mut out)?;
        Ok(NttResult { values: mem::take(&mut *out), report })
    }

    /// Transforms encoded rows, such as those of a file. The result has the same encoding.
    ///
    /// Shape: `options.batch` rows of equal length, padded to 2^`options.lg_n` if that is set.
    /// Errors: those of [`Self::ntt`]; `InvalidInput` for an encoding that is not 32 bytes wide.
    pub async fn ntt_bytes(
        &self,
        encoding: ScalarEncoding,
        bytes: &[u8],
        options: NttOptions,
    ) -> Result<EncodedNttResult> {
        if !encoding.is_full() {
            return Err(ClientError::input("encoding", FieldProblem::OutOfRange));
        }
        let count = convert::element_count("values", bytes.len() as u64, encoding.width())?;
        let spec = NttCallSpec::new(FieldId::Bls12381Fr, count as usize, &options, encoding)?;
        let mut out = convert::zeros::<u8>("lg_n", spec.received as u64, encoding.width())?;
        let mut rows = RowBuffers::Separate { input: bytes, output: &mut out };
        let report = self.run_ntt(spec, &mut rows, options).await?;
        Ok(EncodedNttResult { bytes: out, report })
    }

    pub(crate) fn run_ntt<'a, C: Send + 'a>(
        &'a self,
        spec: NttCallSpec,
        rows: &'a mut RowBuffers<'_>,
        options: NttOptions<C>,
    ) -> CallFuture<'a, NttReport> {
        Box::pin(async move {
            let mut call = self.begin_call(options.deadline)?;
            let verify = options.verify;
            let bytes = rows.input_bytes().max(rows.output_bytes());
            let shared = self.ntt_in_region(&spec, rows, &options.progress, &mut call).await?;
            let reply = if let Some(reply) = shared {
                reply
            } else if bytes <= self.inner.message_bytes {
                self.ntt_in_message(spec.message, rows, &mut call).await?
            } else if bytes < STRIPED_BYTES || self.inner.channels.len() == 1 {
                self.ntt_streamed(spec, rows, options.progress, &mut call).await?
            } else {
                self.ntt_striped(spec, rows, options.progress, &mut call).await?
            };
            let result = reply.result.ok_or(ClientError::invalid_response("no result"))?;
            let (download, total) = (reply.download, call.deadline.elapsed());
            Ok(NttReport {
                timing: convert::timing(result.timing, reply.upload, download, total),
                execution: convert::execution(result.execution, verify)?,
            })
        })
    }

    async fn ntt_in_message(
        &self,
        spec: v1::NttSpec,
        rows: &mut RowBuffers<'_>,
        call: &mut CallBudget,
    ) -> Result<NttReply> {
        let data = rows.payload().as_single_chunk(&self.inner.copies);
        let input = Input::Inline(v1::InlineVector { encoding: spec.output_encoding, data });
        let response = self.ntt_unary(spec, input, call, &self.free_route()).await?;
        let Some(Output::Rows(received)) = response.output else {
            return Err(ClientError::invalid_response("the response has no rows"));
        };
        check_length(received.data.len() as u64, rows.output_bytes())?;
        rows.output().copy_from_slice(&received.data);
        Ok(NttReply { result: response.result, upload: None, download: Duration::ZERO })
    }

    async fn ntt_unary(
        &self,
        spec: v1::NttSpec,
        input: Input,
        call: &mut CallBudget,
        route: &CallRoute,
    ) -> Result<v1::NttResponse> {
        let send = |request| async move { self.compute(route).ntt(request).await };
        // The result of a vector on the server stays there, too.
        let keep = matches!(input, Input::UploadId(_));
        let request = v1::NttRequest { spec: Some(spec), input: Some(input), keep };
        call.unary(request, send).await
    }

    /// Transforms rows that travel through shared memory. `None` if there is no such memory, or no
    /// longer.
    async fn ntt_in_region(
        &self,
        spec: &NttCallSpec,
        rows: &mut RowBuffers<'_>,
        progress: &Option<Progress>,
        call: &mut CallBudget,
    ) -> Result<Option<NttReply>> {
        let (sent, total) = (rows.input_bytes(), rows.total_bytes());
        // The result begins at a page.
        let output = sent.next_multiple_of(PAGE_BYTES);
        let Some(memory) = self.staged_memory(output + rows.output_bytes()) else {
            return Ok(None);
        };
        let v1::VectorUpload { encoding, count, .. } = spec.upload;
        let (deadline, payload) = (call.deadline, rows.payload());
        let upload = StagedUpload::new(&payload, &memory, 0, &self.inner.copies);
        let mut upload = upload.with_progress(progress.clone(), total);
        let region_input = Some(upload.header(encoding, count));
        let region_output = Some(memory.place(output));
        let spec = Some(spec.message.clone());
        let header = v1::NttStreamHeader { spec, input: None, region_input, region_output };
        let header = v1::NttStreamRequest { message: Some(Message::Header(header)) };
        let wrap = |range| v1::NttStreamRequest { message: Some(Message::Written(range)) };
        let pieces = upload.announcements();
        let copy = |sender: &MessageSender<_>| upload.copy_batch(|range| sender.send(wrap(range)));
        // Memory is shared with one server, without a proxy.
        let mut compute = self.compute(&self.free_route());
        let job = async |stream| {
            let request = deadline.request(stream);
            Ok(frames::exchange(request, |request| compute.ntt_stream(request)).await?)
        };
        let received = DownloadProgress::new(None, 0, 0);
        let reply = async {
            let (first, responses) = send_copied(header, pieces, copy, job).await?;
            receive_rows(first, responses, &mut [], &received).await
        };
        let result = match deadline.until_deadline(reply.boxed()).await {
            Ok(result) => Some(result),
            Err(error) => {
                if error.is_before_start() {
                    memory.release();
                }
                return call.wait_before_messages(error).await.map(|()| None);
            }
        };
        let (upload, started) = (Some(upload.elapsed()), Instant::now());
        drop(payload);
        copy_result(&memory, output as usize, rows.output(), &self.inner.copies);
        DownloadProgress::new(progress.clone(), sent, total).add(rows.output_bytes());
        memory.release();
        Ok(Some(NttReply { result, upload, download: started.elapsed() }))
    }

    /// Sends and receives on one stream. Not retried once the result has begun to arrive: it may
    /// overwrite the input.
    async fn ntt_streamed(
        &self,
        spec: NttCallSpec,
        rows: &mut RowBuffers<'_>,
        progress: Option<Progress>,
        call: &mut CallBudget,
    ) -> Result<NttReply> {
        let deadline = call.deadline;
        loop {
            let total = rows.total_bytes();
            let upload = self.chunk_queue(rows.payload(), progress.clone()).with_total(total);
            let upload_id = UploadKey::random()?.to_bytes();
            let input = Some(v1::VectorUpload { upload_id, streams: 1, ..spec.upload.clone() });
            let spec = Some(spec.message.clone());
            let header = v1::NttStreamHeader { spec, input, ..Default::default() };
            let header = v1::NttStreamRequest { message: Some(Message::Header(header)) };
            let wrap = |chunk| v1::NttStreamRequest { message: Some(Message::Chunk(chunk)) };
            // One stream carries all, so any server will do.
            let mut compute = self.compute(&self.free_route());
            // The response begins after all of the input was sent.
            let job = async |stream| {
                let request = deadline.request(stream);
                Ok(frames::exchange(request, |request| compute.ntt_stream(request)).await?)
            };
            let mut taken = Vec::new();
            let work = upload.stream(header, None, wrap, &mut taken, job);
            let sent = deadline.until_deadline(work.boxed()).await;
            let (sent_bytes, upload_time) = (upload.len(), upload.elapsed());
            drop(upload);
            match sent {
                Ok((first, responses)) => {
                    let received = DownloadProgress::new(progress, sent_bytes, total);
                    let started = Instant::now();
                    let reading = receive_rows(first, responses, rows.output(), &received);
                    let result = Some(deadline.until_deadline(reading).await?);
                    let (upload, download) = (Some(upload_time), started.elapsed());
                    return Ok(NttReply { result, upload, download });
                }
                Err(error) => call.wait_before_retry(error).await?,
            }
        }
    }

    /// Uploads the input over several connections, keeps the result on the server, and downloads it
    /// over several connections.
    async fn ntt_striped(
        &self,
        spec: NttCallSpec,
        rows: &mut RowBuffers<'_>,
        progress: Option<Progress>,
        call: &mut CallBudget,
    ) -> Result<NttReply> {
        let (sent_bytes, total) = (rows.input_bytes(), rows.total_bytes());
        let header = PutHeader::Vector(spec.upload.clone());
        let upload = self.chunk_queue(rows.payload(), progress.clone()).with_total(total);
        let id = UploadKey::random()?;
        let route = self.route(|| AffinityKey::of_upload(id));
        let put = self.put_payload(header, id, &upload, call, route.clone()).await?;
        let upload_time = upload.elapsed();
        drop(upload);
        let input = convert::object_vector(put.object)?;
        let input_guard = ReleaseOnDrop::new(self, input.id, &route);
        let id = Input::UploadId(input.id.to_bytes());
        let response = match self.ntt_unary(spec.message.clone(), id, call, &route).await {
            // A load balancer has chosen another server than for the upload: one stream needs one.
            Err(error) if error.is_not_found() => {
                return self.ntt_streamed(spec, rows, progress, call).await;
            }
            response => response?,
        };
        let Some(Output::Kept(output)) = response.output else {
            return Err(ClientError::invalid_response("the response has no vector"));
        };
        let output = convert::object_vector(Some(output))?;
        let output_guard = ReleaseOnDrop::new(self, output.id, &route);
        let output_bytes = output.count.saturating_mul(output.encoding.width() as u64);
        check_length(output_bytes, rows.output_bytes())?;
        let started = Instant::now();
        let received = DownloadProgress::new(progress, sent_bytes, total);
        // The input is released during the download.
        let reading = self.read_vector(&output, route, rows.output(), &received, call.deadline);
        input_guard.release_later();
        reading.await?;
        let download = started.elapsed();
        output_guard.release_sized(output_bytes).await;
        Ok(NttReply { result: response.result, upload: Some(upload_time), download })
    }
}

fn check_length(received: u64, expected: u64) -> Result<()> {
    let problem = "the rows have the wrong length";
    (received == expected).then_some(()).ok_or(ClientError::invalid_response(problem))
}

async fn receive_rows(
    first: Option<v1::NttStreamResponse>,
    mut responses: MessageReader<v1::NttStreamResponse>,
    out: &mut [u8],
    received: &DownloadProgress,
) -> Result<v1::NttResult> {
    use v1::ntt_stream_response::Message;
    let (mut offset, mut next) = (0, first);
    while let Some(message) = next {
        match message.message {
            Some(Message::Chunk(chunk)) => {
                offset = copy_chunk(&chunk, out, offset)?;
                received.add(chunk.data.len() as u64);
            }
            Some(Message::Result(result)) => {
                check_length(offset as u64, out.len() as u64)?;
                return Ok(result);
            }
            None => return Err(ClientError::invalid_response("the rows have the wrong length")),
        }
        next = responses.message().await?;
    }
    Err(ClientError::invalid_response("the stream ended without a summary"))
}
