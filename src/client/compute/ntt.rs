//! Number-theoretic transforms, over Fr and over fields of a prime below 2^31.

use std::{mem, time::Duration};

use capstan_math::{
    curve::{Fr, layout::fr_as_bytes_mut, scalars::ScalarEncoding},
    error::FieldProblem,
    field::{FieldId, Prime31},
    program::{Constant, InputSpec},
};
use tokio::time::Instant;

use crate::wire::{
    MessageReader,
    v1::{
        self, ntt_request::Input, ntt_response::Output, ntt_stream_request::Message,
        program_input::Source,
    },
};
use crate::{
    Client, EncodedNttResult, NttOptions, NttReport, Progress, SharedElement, UploadKey,
    call::{CallBudget, CallFuture},
    connection::affinity::AffinityKey,
    convert,
    error::{ClientError, Result},
    objects::release::ReleaseOnDrop,
    options::{ElementSource, VectorInput},
    transfer::{
        download::{DownloadProgress, copy_chunk},
        frames,
        payload::{OutgoingBytes, OwnedElements},
        vector_call::{
            CallLane, CallTransfer, SentCall, StreamOf, StreamPart, StreamedInput, VectorCall,
        },
    },
};

/// Results of at least this size are kept on the server and downloaded over several connections.
const STRIPED_BYTES: u64 = 8 << 20;

/// Result of an NTT that returns its rows.
#[derive(Debug)]
pub struct NttResult<E = Fr> {
    /// The rows, one after another.
    pub values: Vec<E>,
    /// Timing and execution.
    pub report: NttReport,
}

/// Result of an NTT over a field of a prime below 2^31: values below the prime.
pub type Ntt31Result = NttResult<u32>;

/// The message of an NTT, and the lengths that it implies.
pub(crate) struct NttCallSpec {
    pub message: v1::NttSpec,
    /// The rows that are sent.
    pub input: InputSpec,
    /// Elements to receive: all rows at full size.
    pub received: usize,
}

/// The memory of the rows.
enum RowBuffers<'a> {
    InPlace(&'a mut [u8]),
    /// Rows that are sent without a copy, and then overwritten with the result.
    Owned(OwnedElements),
    Separate {
        input: &'a [u8],
        output: &'a mut [u8],
    },
}

/// An NTT on its way to the server.
struct NttCall {
    spec: v1::NttSpec,
    /// Bytes of the input or of the output, whichever are more.
    bytes_max: u64,
}

/// How the result comes.
enum NttReply {
    Message(v1::NttResponse),
    Stream {
        first: Option<v1::NttStreamResponse>,
        responses: MessageReader<v1::NttStreamResponse>,
    },
    /// The result is on the server that has the input.
    Kept {
        response: v1::NttResponse,
        input: ReleaseOnDrop,
    },
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
        let spec = in_place_spec(values.len(), &options)?;
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
        let spec = in_place_spec(owned.len(), &options)?;
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
        self.transform(FieldId::Bls12381Fr, values, options, convert::check_canonical).await
    }

    /// Transforms rows over the field of a prime below 2^31.
    ///
    /// Shape: `options.batch` rows of equal length, padded to 2^`options.lg_n` if that is set; else
    /// the length is a power of two. Values are below the prime, unless `options.reduce` is set.
    /// Errors: those of [`Self::ntt`].
    pub async fn ntt31(
        &self,
        field: Prime31,
        values: &[u32],
        options: NttOptions<u32>,
    ) -> Result<Ntt31Result> {
        let check = |words: &mut [u32]| convert::check_words(words, field);
        self.transform(field.into(), values, options, check).await
    }

    async fn transform<E: SharedElement + Into<Constant> + Send + Sync>(
        &self,
        field: FieldId,
        values: &[E],
        options: NttOptions<E>,
        check: impl FnOnce(&mut [E]) -> Result<()>,
    ) -> Result<NttResult<E>> {
        let encoding = ScalarEncoding::typed(field);
        let spec = NttCallSpec::new(field, values.len(), &options, encoding)?;
        // Wipes received values if the call fails or is cancelled.
        let mut out = E::zeros("lg_n", spec.received as u64)?;
        let (input, output) = (E::as_bytes(values), E::as_bytes_mut(&mut out));
        let mut rows = RowBuffers::Separate { input, output };
        let report = self.run_ntt(spec, &mut rows, options).await?;
        check(&mut out)?;
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
        self.transform_bytes(FieldId::Bls12381Fr, encoding, bytes, options).await
    }

    /// Like [`Self::ntt31`], for encoded rows: `Canonical31`, or `Montgomery31` with the factor
    /// 2^32, which is how Plonky3 holds elements in memory. The result has the same encoding.
    ///
    /// Errors: those of [`Self::ntt31`]; `InvalidInput` for another encoding.
    pub async fn ntt31_bytes(
        &self,
        field: Prime31,
        encoding: ScalarEncoding,
        bytes: &[u8],
        options: NttOptions<u32>,
    ) -> Result<EncodedNttResult> {
        let field = FieldId::from(field);
        if !encoding.holds(field) {
            return Err(ClientError::input("encoding", FieldProblem::OtherEncoding));
        }
        self.transform_bytes(field, encoding, bytes, options).await
    }

    async fn transform_bytes<C: Into<Constant> + Copy + Send>(
        &self,
        field: FieldId,
        encoding: ScalarEncoding,
        bytes: &[u8],
        options: NttOptions<C>,
    ) -> Result<EncodedNttResult> {
        let count = convert::element_count("values", bytes.len() as u64, encoding.width())?;
        let spec = NttCallSpec::new(field, count as usize, &options, encoding)?;
        let mut out = convert::zeros::<u8>("lg_n", spec.received as u64, encoding.width())?;
        let mut rows = RowBuffers::Separate { input: bytes, output: &mut out };
        let report = self.run_ntt(spec, &mut rows, options).await?;
        Ok(EncodedNttResult { bytes: out, report })
    }

    fn run_ntt<'a, C: Send + 'a>(
        &'a self,
        spec: NttCallSpec,
        rows: &'a mut RowBuffers<'_>,
        options: NttOptions<C>,
    ) -> CallFuture<'a, NttReport> {
        Box::pin(async move {
            let mut call = self.begin_call(options.deadline)?;
            let (sent_bytes, output_bytes) = (rows.input_bytes(), rows.output_bytes());
            let NttOptions { verify, progress, .. } = options;
            let ntt = NttCall { spec: spec.message, bytes_max: sent_bytes.max(output_bytes) };
            let sent = self.send_ntt(&ntt, spec.input, rows, progress.as_ref(), &mut call).await?;
            let SentCall { reply, memory, upload } = sent;
            // Not retried from here on: the result may overwrite the input.
            let received = DownloadProgress::new(progress, sent_bytes, sent_bytes + output_bytes);
            let started = Instant::now();
            let out = rows.output();
            let mut kept = None;
            let result = match reply {
                NttReply::Message(v1::NttResponse { result, output: Some(Output::Rows(rows)) }) => {
                    check_length(rows.data.len() as u64, output_bytes)?;
                    out.copy_from_slice(&rows.data);
                    result
                }
                NttReply::Message(_) => {
                    return Err(ClientError::invalid_response("the response has no rows"));
                }
                NttReply::Stream { first, responses } => {
                    let out = if memory.is_some() { &mut [] } else { &mut *out };
                    let reading = receive_rows(first, responses, out, &received);
                    Some(call.deadline.until_deadline(reading).await?)
                }
                NttReply::Kept { response, input } => {
                    let Some(Output::Kept(output)) = response.output else {
                        return Err(ClientError::invalid_response("the response has no vector"));
                    };
                    let vector = convert::object_vector(Some(output))?;
                    let route = input.route.clone();
                    kept = Some(ReleaseOnDrop::new(self, vector.id, &route));
                    let bytes = vector.count.saturating_mul(vector.encoding.width() as u64);
                    check_length(bytes, output_bytes)?;
                    let reading = self.read_vector(&vector, route, out, &received, call.deadline);
                    // The input is released during the download.
                    input.release_later();
                    reading.await?;
                    response.result
                }
            };
            if let Some(vectors) = memory {
                vectors.copy_output(0, out, &self.inner.copies);
                received.add(output_bytes);
                vectors.memory.release();
            }
            // A single message takes no time of its own.
            let download = upload.map_or(Duration::ZERO, |_| started.elapsed());
            if let Some(vector) = kept {
                vector.release_sized(output_bytes).await;
            }
            let result = result.ok_or(ClientError::invalid_response("no result"))?;
            let total = call.deadline.elapsed();
            Ok(NttReport {
                timing: convert::timing(result.timing, upload, download, total),
                execution: convert::execution(result.execution, verify)?,
            })
        })
    }

    /// Large rows are sent, and their result is received, over several connections.
    async fn send_ntt(
        &self,
        ntt: &NttCall,
        spec: InputSpec,
        rows: &RowBuffers<'_>,
        progress: Option<&Progress>,
        call: &mut CallBudget,
    ) -> Result<SentCall<NttReply>> {
        let transfer = CallTransfer {
            client: self,
            call: ntt,
            inputs: &[VectorInput { spec, source: ElementSource::Local(rows.payload()) }],
            outputs: &[rows.output_bytes()],
            route: &self.free_route(),
            progress,
        };
        if let Some(sent) = transfer.send_in_region(call).await? {
            return Ok(sent);
        }
        let is_large = ntt.bytes_max > self.inner.message_bytes.max(STRIPED_BYTES - 1);
        if is_large && self.inner.channels.len() > 1 {
            let id = UploadKey::random()?;
            let route = self.route(|| AffinityKey::of_upload(id));
            let SentCall { reply: put, upload, .. } = transfer.put_input(id, call, &route).await?;
            let vector = convert::object_vector(put.object)?;
            let input = ReleaseOnDrop::new(self, vector.id, &route);
            let id = Some(Input::UploadId(vector.id.to_bytes()));
            let request = v1::NttRequest { spec: Some(ntt.spec.clone()), input: id, keep: true };
            let compute = |request| async { self.compute(&route).ntt(request).await };
            match call.unary(request, compute).await {
                // A load balancer has chosen another server than for the upload. One stream
                // reaches only one.
                Err(error) if error.is_not_found() => {}
                response => {
                    let reply = NttReply::Kept { response: response?, input };
                    return Ok(SentCall { reply, memory: None, upload });
                }
            }
        }
        transfer.send_in_messages(call).await
    }
}

impl NttCallSpec {
    pub fn new<C: Into<Constant> + Copy>(
        field: FieldId,
        len: usize,
        options: &NttOptions<C>,
        encoding: ScalarEncoding,
    ) -> Result<Self> {
        let wrong_length = |expected: usize, got: usize| {
            Err(ClientError::length("values", expected as u64, got as u64))
        };
        let batch = options.batch.max(1) as usize;
        let row = len / batch;
        if row * batch != len {
            return wrong_length(row * batch, len);
        }
        let lg_n = match options.lg_n {
            Some(lg_n) => lg_n,
            None if row.is_power_of_two() => row.ilog2(),
            None => return wrong_length(row.next_power_of_two(), row),
        };
        if lg_n > field.two_adicity() {
            let problem = FieldProblem::TooLarge { max: field.two_adicity().into() };
            return Err(ClientError::input("lg_n", problem));
        }
        let n = 1_usize << lg_n;
        if row > n {
            return wrong_length(n, row);
        }
        let received =
            n.checked_mul(batch).ok_or(ClientError::input("batch", FieldProblem::OutOfRange))?;
        let coset: Option<Constant> = options.coset.map(Into::into);
        if coset.is_some_and(Constant::is_zero) {
            return Err(ClientError::input("coset", FieldProblem::Zero));
        }
        let coset_generator = coset.map(|generator| generator.to_bytes_le()).unwrap_or_default();
        let message = v1::NttSpec {
            lg_n,
            direction: v1::Direction::from(options.direction).into(),
            coset_generator: coset_generator.into(),
            input_order: v1::Order::from(options.input_order).into(),
            output_order: v1::Order::from(options.output_order).into(),
            batch: options.batch,
            output_encoding: convert::scalar_encoding(encoding)?,
            reduce: options.reduce,
            row_length: (row < n).then_some(row as u64),
            verify: v1::Verify::from(options.verify).into(),
            field: v1::Field::from(field).into(),
        };
        let input = InputSpec { encoding, count: len as u64, reduce: options.reduce };
        Ok(Self { message, input, received })
    }
}

/// For rows that the result replaces.
fn in_place_spec(len: usize, options: &NttOptions) -> Result<NttCallSpec> {
    let spec = NttCallSpec::new(FieldId::Bls12381Fr, len, options, ScalarEncoding::Montgomery)?;
    if spec.received != len {
        return Err(ClientError::length("values", spec.received as u64, len as u64));
    }
    Ok(spec)
}

impl RowBuffers<'_> {
    fn input_bytes(&self) -> u64 {
        match self {
            Self::InPlace(rows) => rows.len() as u64,
            Self::Owned(rows) => rows.as_bytes().len() as u64,
            Self::Separate { input, .. } => input.len() as u64,
        }
    }

    fn output_bytes(&self) -> u64 {
        match self {
            Self::InPlace(_) | Self::Owned(_) => self.input_bytes(),
            Self::Separate { output, .. } => output.len() as u64,
        }
    }

    /// Where to write the result. Drop what [`Self::payload`] returned first, or owned rows are
    /// copied.
    fn output(&mut self) -> &mut [u8] {
        match self {
            Self::InPlace(rows) | Self::Separate { output: rows, .. } => rows,
            Self::Owned(rows) => rows.as_bytes_mut(),
        }
    }

    fn payload(&self) -> OutgoingBytes<'_> {
        match self {
            Self::InPlace(rows) => OutgoingBytes::Secret(rows),
            Self::Owned(rows) => OutgoingBytes::Shared(rows.share()),
            Self::Separate { input, .. } => OutgoingBytes::Secret(input),
        }
    }
}

impl VectorCall for NttCall {
    type Message = v1::NttStreamRequest;
    type Reply = NttReply;
    const HAS_LANES: bool = false;

    fn inline_bytes_max(&self, message_bytes: u64) -> Option<u64> {
        (self.bytes_max <= message_bytes).then_some(message_bytes)
    }

    fn message(&self, part: StreamPart<'_>) -> v1::NttStreamRequest {
        let message = match part {
            StreamPart::Header(inputs, memory) => {
                let StreamedInput { upload: input, region_upload: region_input } = inputs.into();
                let region_output = memory.and_then(|memory| memory.output_place(0));
                let spec = Some(self.spec.clone());
                Message::Header(v1::NttStreamHeader { spec, input, region_input, region_output })
            }
            StreamPart::Chunk(_, chunk) => Message::Chunk(chunk),
            StreamPart::Written(_, range) => Message::Written(range),
        };
        v1::NttStreamRequest { message: Some(message) }
    }

    /// The response begins after all of the input was sent.
    async fn send_stream(&self, lane: CallLane<'_>, stream: StreamOf<Self>) -> Result<NttReply> {
        let CallLane { mut compute, deadline, .. } = lane;
        let sent =
            frames::exchange(deadline.request(stream), |request| compute.ntt_stream(request));
        let (first, responses) = sent.await?;
        Ok(NttReply::Stream { first, responses })
    }

    async fn send_message(&self, lane: CallLane<'_>, inputs: Vec<Source>) -> Result<NttReply> {
        let CallLane { mut compute, deadline, .. } = lane;
        let input = inputs.into_iter().find_map(|input| match input {
            Source::Inline(rows) => Some(Input::Inline(rows)),
            _ => None,
        });
        let request = v1::NttRequest { spec: Some(self.spec.clone()), input, keep: false };
        Ok(NttReply::Message(compute.ntt(deadline.request(request)).await?.into_inner()))
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

#[cfg(test)]
mod tests {
    use super::{FieldId, NttCallSpec, NttOptions, ScalarEncoding};

    #[test]
    fn refuses_rows_that_are_not_powers_of_two_unless_padded() {
        let spec = |len, options: &NttOptions| {
            NttCallSpec::new(FieldId::Bls12381Fr, len, options, ScalarEncoding::Montgomery)
        };
        let batch = NttOptions { batch: 3, ..NttOptions::default() };
        let NttCallSpec { message, received, .. } = spec(24, &batch).unwrap();
        assert_eq!((message.lg_n, message.row_length, received), (3, None, 24));
        assert!(spec(25, &batch).is_err() && spec(15, &batch).is_err());
        assert!(spec(0, &NttOptions::default()).is_err());
        let padded = NttOptions { lg_n: Some(3), ..batch };
        let NttCallSpec { message, received, .. } = spec(15, &padded).unwrap();
        assert_eq!((message.lg_n, message.row_length, received), (3, Some(5), 24));
        assert!(spec(27, &padded).is_err());
    }
}
