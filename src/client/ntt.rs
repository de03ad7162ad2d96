//! Number-theoretic transforms.

use std::{mem, time::Duration};

use ark_ff::{BigInteger, PrimeField, Zero};
use futures_util::FutureExt;
use rayon::prelude::*;
use tokio::time::Instant;
use tonic::Streaming;
use zeroize::Zeroizing;

use super::{
    Client, NttOptions, NttReport, UploadKey,
    call::{CallBudget, CallFuture},
    convert,
    download::{DownloadProgress, copy_chunk},
    error::{ClientError, Result},
    payload::OutgoingBytes,
    striped_upload::PutHeader,
    types::VectorInfo,
    vectors::ReleaseOnDrop,
};
use crate::{
    curve::{Fr, TWO_ADICITY, layout::fr_as_bytes_mut, scalars::ScalarEncoding},
    error::FieldProblem,
    wire::v1::{self, ntt_request::Input, ntt_response::Output, ntt_stream_request::Message},
};

/// Results of at least this size are kept on the server and downloaded over several connections.
const STRIPED_BYTES: u64 = 8 << 20;

/// Encoded result of an NTT.
#[derive(Debug)]
pub struct EncodedNttResult {
    /// The rows, one after another, in the input's encoding. Wiped when dropped.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Timing and execution.
    pub report: NttReport,
}

/// Input and output buffers.
enum RowBuffers<'a> {
    InPlace(&'a mut [u8]),
    Separate(&'a [u8], &'a mut [u8]),
}

impl RowBuffers<'_> {
    fn input(&self) -> &[u8] {
        match self {
            Self::InPlace(rows) => rows,
            Self::Separate(input, _) => input,
        }
    }

    fn output(&mut self) -> &mut [u8] {
        match self {
            Self::InPlace(rows) | Self::Separate(_, rows) => rows,
        }
    }

    fn payload(&self) -> OutgoingBytes<'_> {
        OutgoingBytes::Secret(self.input())
    }
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
        let (spec, rows) = ntt_spec(values.len(), &options, ScalarEncoding::Montgomery)?;
        if rows.received != values.len() {
            return Err(ClientError::length("values", rows.received as u64, values.len() as u64));
        }
        let mut io = RowBuffers::InPlace(fr_as_bytes_mut(values));
        let report = self.run_ntt(spec, rows.sent, &mut io, options).await?;
        check_canonical(values)?;
        Ok(report)
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
    ) -> Result<(Vec<Fr>, NttReport)> {
        options.lg_n = Some(lg_n);
        let (spec, rows) = ntt_spec(values.len(), &options, ScalarEncoding::Montgomery)?;
        // Wipes received values if the call fails or is cancelled.
        let mut out = Zeroizing::new(vec![Fr::zero(); rows.received]);
        let input = crate::curve::layout::fr_as_bytes(values);
        let mut io = RowBuffers::Separate(input, fr_as_bytes_mut(&mut out));
        let report = self.run_ntt(spec, rows.sent, &mut io, options).await?;
        check_canonical(&mut out)?;
        Ok((mem::take(&mut *out), report))
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
        let (spec, rows) = ntt_spec(count as usize, &options, encoding)?;
        let mut out = Zeroizing::new(vec![0; rows.received * encoding.width()]);
        let mut io = RowBuffers::Separate(bytes, &mut out);
        let report = self.run_ntt(spec, rows.sent, &mut io, options).await?;
        Ok(EncodedNttResult { bytes: out, report })
    }

    fn run_ntt<'a>(
        &'a self,
        spec: v1::NttSpec,
        len: usize,
        rows: &'a mut RowBuffers<'_>,
        options: NttOptions,
    ) -> CallFuture<'a, NttReport> {
        Box::pin(async move {
            let mut call = self.begin_call(options.deadline);
            let asked = options.verify;
            let bytes = rows.input().len().max(rows.output().len()) as u64;
            let (result, upload, download) = if bytes <= self.inner.message_bytes {
                self.ntt_unary(spec, rows, &mut call).await?
            } else if bytes < STRIPED_BYTES || self.inner.channels.len() == 1 {
                self.ntt_streamed(spec, len, rows, options, &mut call).await?
            } else {
                self.ntt_striped(spec, len, rows, options, &mut call).await?
            };
            let mut timing = convert::timing(result.timing);
            (timing.download, timing.total) = (download, call.elapsed());
            timing.upload = upload.unwrap_or_else(|| timing.unaccounted());
            let execution = convert::execution(result.execution, asked)?;
            Ok(NttReport { timing, execution })
        })
    }

    async fn ntt_unary(
        &self,
        spec: v1::NttSpec,
        rows: &mut RowBuffers<'_>,
        call: &mut CallBudget,
    ) -> Result<(v1::NttResult, Option<Duration>, Duration)> {
        let inline = v1::InlineVector {
            encoding: spec.output_encoding,
            data: rows.payload().as_single_chunk(&self.inner.copies),
        };
        let answer = self.ntt_call(spec, Input::Inline(inline), false, call).await?;
        let Some(Output::Rows(result)) = answer.output else {
            return Err(ClientError::invalid_response("the response has no rows"));
        };
        let out = rows.output();
        if result.data.len() != out.len() {
            return Err(ClientError::invalid_response("the rows have the wrong length"));
        }
        out.copy_from_slice(&result.data);
        let report = answer.result.ok_or(ClientError::invalid_response("no result"))?;
        Ok((report, None, Duration::ZERO))
    }

    async fn ntt_call(
        &self,
        spec: v1::NttSpec,
        input: Input,
        keep: bool,
        call: &mut CallBudget,
    ) -> Result<v1::NttResponse> {
        loop {
            let (spec, input) = (Some(spec.clone()), Some(input.clone()));
            let request = call.request(v1::NttRequest { spec, input, keep });
            match call.response(self.compute().ntt(request)).await {
                Ok(answer) => return Ok(answer),
                Err(error) => call.wait_before_retry(error).await?,
            }
        }
    }

    /// Sends and receives on one stream. Not retried once the result has begun to arrive: it may
    /// overwrite the input.
    async fn ntt_streamed(
        &self,
        spec: v1::NttSpec,
        len: usize,
        rows: &mut RowBuffers<'_>,
        options: NttOptions,
        call: &mut CallBudget,
    ) -> Result<(v1::NttResult, Option<Duration>, Duration)> {
        loop {
            let out_bytes = rows.output().len() as u64;
            let upload =
                self.chunk_queue(rows.payload(), options.progress.clone()).followed_by(out_bytes);
            let input = v1::VectorUpload {
                upload_id: UploadKey::random()?.0.to_vec().into(),
                encoding: spec.output_encoding,
                count: len as u64,
                streams: 1,
            };
            let header = v1::NttStreamHeader { spec: Some(spec.clone()), input: Some(input) };
            let header = v1::NttStreamRequest { message: Some(Message::Header(header)) };
            let wrap = |chunk| v1::NttStreamRequest { message: Some(Message::Chunk(chunk)) };
            let mut compute = self.compute();
            // The response begins after all of the input was sent.
            let job = async |stream| {
                let request = call.request(stream);
                let mut answer = compute.ntt_stream(request).await?.into_inner();
                let first = answer.message().await?;
                Ok((first, answer))
            };
            let mut taken = Vec::new();
            let work = upload.stream(header, None, wrap, &mut taken, job);
            let begun = call.until_deadline(work.boxed()).await;
            let (sent, elapsed) = (upload.len(), upload.elapsed());
            drop(upload);
            match begun {
                Ok((first, answer)) => {
                    let total = sent + out_bytes;
                    let received = DownloadProgress::new(options.progress.clone(), sent, total);
                    let started = Instant::now();
                    let reading = receive_rows(first, answer, rows.output(), &received);
                    let result = call.until_deadline(reading).await?;
                    return Ok((result, Some(elapsed), started.elapsed()));
                }
                Err(error) => call.wait_before_retry(error).await?,
            }
        }
    }

    /// Uploads the input over several connections, keeps the result on the server, and downloads it
    /// over several connections.
    async fn ntt_striped(
        &self,
        spec: v1::NttSpec,
        len: usize,
        rows: &mut RowBuffers<'_>,
        options: NttOptions,
        call: &mut CallBudget,
    ) -> Result<(v1::NttResult, Option<Duration>, Duration)> {
        let (sent, out_bytes) = (rows.input().len() as u64, rows.output().len() as u64);
        let header = PutHeader::Vector(v1::VectorUpload {
            encoding: spec.output_encoding,
            count: len as u64,
            ..Default::default()
        });
        let upload =
            self.chunk_queue(rows.payload(), options.progress.clone()).followed_by(out_bytes);
        let put = self.put_payload(header, UploadKey::random()?, &upload, call).await?;
        let upload = upload.elapsed();
        let input = convert::object_vector(put.object)?;
        let input_guard = ReleaseOnDrop::new(self, input.id);
        let id = Input::UploadId(input.id.0.to_vec().into());
        let answer = self.ntt_call(spec, id, true, call).await?;
        let Some(Output::Kept(kept)) = answer.output else {
            return Err(ClientError::invalid_response("the response has no vector"));
        };
        let kept: VectorInfo = convert::object_vector(Some(kept))?;
        let kept_guard = ReleaseOnDrop::new(self, kept.id);
        let out = rows.output();
        if kept.count.checked_mul(kept.encoding.width() as u64) != Some(out_bytes) {
            return Err(ClientError::invalid_response("the rows have the wrong length"));
        }
        let started = Instant::now();
        let received = DownloadProgress::new(options.progress, sent, sent + out_bytes);
        // The input is released during the download.
        let reading = self.read_vector(&kept, out, &received, call);
        let (read, ()) = tokio::join!(reading, input_guard.release());
        read?;
        let download = started.elapsed();
        kept_guard.release().await;
        let result = answer.result.ok_or(ClientError::invalid_response("no result"))?;
        Ok((result, Some(upload), download))
    }
}

/// Reads chunks up to the final summary.
async fn receive_rows(
    first: Option<v1::NttStreamResponse>,
    mut answer: Streaming<v1::NttStreamResponse>,
    out: &mut [u8],
    received: &DownloadProgress,
) -> Result<v1::NttResult> {
    use v1::ntt_stream_response::Message;
    let mut at = 0;
    let mut next = first;
    while let Some(message) = next {
        match message.message {
            Some(Message::Chunk(chunk)) => {
                at = copy_chunk(&chunk, out, at)?;
                received.add(chunk.data.len() as u64);
            }
            Some(Message::Result(result)) if at == out.len() => return Ok(result),
            _ => return Err(ClientError::invalid_response("the rows have the wrong length")),
        }
        next = answer.message().await?;
    }
    Err(ClientError::invalid_response("the stream ended without a summary"))
}

/// Lengths in elements.
struct RowLengths {
    /// Elements sent.
    sent: usize,
    /// Elements received: all rows at full size.
    received: usize,
}

/// Builds the message for `len` elements.
fn ntt_spec(
    len: usize,
    options: &NttOptions,
    encoding: ScalarEncoding,
) -> Result<(v1::NttSpec, RowLengths)> {
    let batch = options.batch.max(1) as usize;
    if !len.is_multiple_of(batch) {
        let expected = (len / batch * batch) as u64;
        return Err(ClientError::length("values", expected, len as u64));
    }
    let row = len / batch;
    let lg_n = match options.lg_n {
        Some(lg_n) => lg_n,
        None if row.is_power_of_two() => row.ilog2(),
        None => {
            return Err(ClientError::length("values", row.next_power_of_two() as u64, row as u64));
        }
    };
    if lg_n > TWO_ADICITY {
        return Err(ClientError::input("lg_n", FieldProblem::TooLarge { max: TWO_ADICITY.into() }));
    }
    let n = 1_usize << lg_n;
    if row > n {
        return Err(ClientError::length("values", n as u64, row as u64));
    }
    let padded =
        n.checked_mul(batch).ok_or(ClientError::input("batch", FieldProblem::OutOfRange))?;
    let generator = match options.coset {
        Some(generator) if generator.is_zero() => {
            return Err(ClientError::input("coset", FieldProblem::Zero));
        }
        Some(generator) => generator.into_bigint().to_bytes_le(),
        None => Vec::new(),
    };
    let spec = v1::NttSpec {
        lg_n,
        direction: convert::direction(options.direction).into(),
        coset_generator: generator.into(),
        input_order: convert::order(options.input_order).into(),
        output_order: convert::order(options.output_order).into(),
        batch: options.batch,
        output_encoding: convert::scalar_encoding(encoding)?.into(),
        reduce: options.reduce,
        row_length: (row < n).then_some(row as u64),
        verify: convert::verify(options.verify).into(),
    };
    Ok((spec, RowLengths { sent: len, received: padded }))
}

/// Checks that all values are below r: arithmetic on other limbs would be silently wrong.
fn check_canonical(values: &mut [Fr]) -> Result<()> {
    if values.par_iter().all(|value| value.0 < Fr::MODULUS) {
        return Ok(());
    }
    values.fill(Fr::zero());
    Err(ClientError::invalid_response("an element is not canonical"))
}

#[cfg(test)]
mod tests {
    use super::{NttOptions, ScalarEncoding, ntt_spec};

    #[test]
    fn refuses_rows_that_are_not_powers_of_two_unless_padded() {
        let (montgomery, single) = (ScalarEncoding::Montgomery, NttOptions::default());
        let batch = NttOptions { batch: 3, ..NttOptions::default() };
        let (spec, rows) = ntt_spec(24, &batch, montgomery).unwrap();
        assert_eq!((spec.lg_n, spec.row_length, rows.received), (3, None, 24));
        assert!([25, 15].iter().all(|len| ntt_spec(*len, &batch, montgomery).is_err()));
        assert!(ntt_spec(0, &single, montgomery).is_err());
        let padded = NttOptions { lg_n: Some(3), ..batch };
        let (spec, rows) = ntt_spec(15, &padded, montgomery).unwrap();
        assert_eq!((spec.lg_n, spec.row_length, rows.received), (3, Some(5), 24));
        assert!(ntt_spec(27, &padded, montgomery).is_err());
    }
}
