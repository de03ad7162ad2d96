//! Multi-scalar multiplication.

use std::time::Duration;

use futures_util::FutureExt;

use super::{
    BasesHandle, BasesId, Client, CurvePoint, EncodedMsmResult, MsmOptions, MsmResult, ScalarInput,
    call::{CallBudget, CallFuture},
    convert,
    error::{ClientError, Result},
    payload::OutgoingBytes,
    striped_upload::{PutHeader, first_response},
    types::UploadKey,
    upload::ChunkQueue,
    vectors::ReleaseOnDrop,
};
use crate::{
    curve::{
        Group,
        layout::points_as_bytes,
        points::{PointEncoding, decode_sums},
        scalars::ScalarEncoding,
    },
    error::FieldProblem,
    wire::v1::{self, msm_request::Scalars, msm_spec::Bases, msm_stream_request::Message},
};

/// An MSM without its scalars.
struct MsmCallSpec {
    spec: v1::MsmSpec,
    /// Number of bases, and so of scalars per vector.
    len: u64,
    batch: u64,
    /// Payload bytes of bases in the spec.
    inline_bytes: u64,
}

impl Client {
    /// Computes the sum of `scalars[i] * bases[i]`.
    ///
    /// Shape: one scalar per base. Errors: `InvalidInput` for any other number of scalars;
    /// `Refused`.
    pub async fn msm<'a, A: CurvePoint>(
        &self,
        bases: &BasesHandle<A>,
        scalars: impl Into<ScalarInput<'a>>,
    ) -> Result<A::Group> {
        single_sum(self.msm_with(bases, scalars, MsmOptions::default()).await?)
    }

    /// Like [`Self::msm`], with options such as a batch of scalar vectors; reports timings.
    ///
    /// Shape: `batch` vectors of one scalar per base, one after another. Errors: those of
    /// [`Self::msm`]; `DeadlineExceeded`; `InvalidResponse` if the result was verified less than
    /// requested.
    pub async fn msm_with<'a, A: CurvePoint>(
        &self,
        bases: &BasesHandle<A>,
        scalars: impl Into<ScalarInput<'a>>,
        options: MsmOptions,
    ) -> Result<MsmResult<A>> {
        let encoding = options.result_encoding;
        let (id, offset, len) = (bases.id(), bases.offset, bases.len);
        let sums = self.msm_id(A::GROUP, id, offset, len, scalars, options).await?;
        decode(sums, encoding)
    }

    /// Like [`Self::msm`], over a few bases that are sent with the call and used once.
    ///
    /// Errors: those of [`Self::msm`]; `InvalidInput` if the bases exceed one message: put them
    /// first.
    pub async fn msm_inline<'a, A: CurvePoint>(
        &self,
        bases: &[A],
        scalars: impl Into<ScalarInput<'a>>,
    ) -> Result<A::Group> {
        single_sum(self.msm_inline_with(bases, scalars, MsmOptions::default()).await?)
    }

    /// Like [`Self::msm_inline`], with options.
    pub async fn msm_inline_with<'a, A: CurvePoint>(
        &self,
        bases: &[A],
        scalars: impl Into<ScalarInput<'a>>,
        options: MsmOptions,
    ) -> Result<MsmResult<A>> {
        let data = OutgoingBytes::Public(points_as_bytes(bases));
        let max = self.inner.message_bytes / (A::GROUP.affine_bytes() as u64);
        if bases.len() as u64 > max {
            return Err(ClientError::input("bases", FieldProblem::TooLarge { max }));
        }
        let bases = v1::InlineBases {
            encoding: v1::PointEncoding::Montgomery.into(),
            data: data.as_single_chunk(&self.inner.copies),
        };
        let len = data.len() / (A::GROUP.affine_bytes() as u64);
        let encoding = options.result_encoding;
        let scalars = scalars.into();
        let sums = self.run_msm(A::GROUP, Bases::Inline(bases), len, data.len(), scalars, options);
        decode(sums.await?, encoding)
    }

    /// Computes an MSM over points `offset..offset + len` of the bases `id`. Returns the sums in
    /// `options.result_encoding`.
    pub async fn msm_id<'a>(
        &self,
        group: Group,
        id: BasesId,
        offset: u64,
        len: u64,
        scalars: impl Into<ScalarInput<'a>>,
        options: MsmOptions,
    ) -> Result<EncodedMsmResult> {
        let bases = if len == 0 {
            // On the wire, a length of 0 means all bases.
            let encoding = convert::point_encoding(PointEncoding::Montgomery).into();
            Bases::Inline(v1::InlineBases { encoding, data: Default::default() })
        } else {
            Bases::Stored(v1::StoredBases { object_id: id.0.to_vec().into(), offset, length: len })
        };
        self.run_msm(group, bases, len, 0, scalars.into(), options).await
    }

    fn run_msm<'a>(
        &'a self,
        group: Group,
        bases: Bases,
        len: u64,
        inline_bytes: u64,
        scalars: ScalarInput<'a>,
        options: MsmOptions,
    ) -> CallFuture<'a, EncodedMsmResult> {
        Box::pin(async move {
            let mut call = self.begin_call(options.deadline);
            let spec = v1::MsmSpec {
                group: convert::group(group).into(),
                bases: Some(bases),
                batch: options.batch,
                reduce: options.reduce,
                result_encoding: convert::result_encoding(options.result_encoding).into(),
                verify: convert::verify(options.verify).into(),
            };
            let job = MsmCallSpec { spec, len, batch: options.batch.max(1).into(), inline_bytes };
            let (result, upload) = match scalars.into_payload() {
                Err(id) => {
                    let scalars = Scalars::UploadId(id.0.to_vec().into());
                    (self.call_msm(&job, scalars, &mut call).await?, Some(Duration::ZERO))
                }
                Ok((encoding, payload)) => {
                    job.check_length(encoding, payload.len())?;
                    if payload.len() + job.inline_bytes <= self.inner.message_bytes {
                        let encoding = convert::scalar_encoding(encoding)?.into();
                        let inline = v1::InlineVector {
                            encoding,
                            data: payload.as_single_chunk(&self.inner.copies),
                        };
                        let scalars = Scalars::Inline(inline);
                        (self.call_msm(&job, scalars, &mut call).await?, None)
                    } else {
                        let upload = self.chunk_queue(payload, options.progress);
                        let result = self.msm_streamed(&job, encoding, &upload, &mut call).await?;
                        (result, Some(upload.elapsed()))
                    }
                }
            };
            let mut timing = convert::timing(result.timing);
            timing.total = call.elapsed();
            timing.upload = upload.unwrap_or_else(|| timing.unaccounted());
            Ok(EncodedMsmResult {
                bytes: result.points,
                timing,
                execution: convert::execution(result.execution, options.verify)?,
            })
        })
    }

    async fn call_msm(
        &self,
        job: &MsmCallSpec,
        scalars: Scalars,
        call: &mut CallBudget,
    ) -> Result<v1::MsmResult> {
        loop {
            let (spec, scalars) = (Some(job.spec.clone()), Some(scalars.clone()));
            let request = call.request(v1::MsmRequest { spec, scalars });
            match call.response(self.compute().msm(request)).await {
                Ok(answer) => {
                    return answer.result.ok_or(ClientError::invalid_response("no result"));
                }
                Err(error) => call.wait_before_retry(error).await?,
            }
        }
    }

    /// Sends the scalars over the job's stream and further ones.
    async fn msm_streamed(
        &self,
        job: &MsmCallSpec,
        encoding: ScalarEncoding,
        upload: &ChunkQueue<'_>,
        call: &mut CallBudget,
    ) -> Result<v1::MsmResult> {
        let mut id = UploadKey::random()?;
        let mut lanes = self.lane_count(upload.len());
        // If the job is refused, a stripe may already have opened the upload.
        let mut guard = ReleaseOnDrop::new(self, id);
        loop {
            let vector = v1::VectorUpload {
                upload_id: id.0.to_vec().into(),
                encoding: convert::scalar_encoding(encoding)?.into(),
                count: job.len * job.batch,
                streams: u32::try_from(lanes).unwrap_or(u32::MAX),
            };
            let work = self.msm_lanes(job, vector, id, upload, call);
            let error = match call.until_deadline(work).await {
                Ok(result) => {
                    // The upload ended with its job.
                    guard.disarm();
                    return Ok(result);
                }
                Err(error) => error,
            };
            call.wait_before_retry(error).await?;
            lanes = self.resume(&mut id, upload, call).await?;
            guard.set_id(id);
        }
    }

    async fn msm_lanes(
        &self,
        job: &MsmCallSpec,
        vector: v1::VectorUpload,
        id: UploadKey,
        upload: &ChunkQueue<'_>,
        call: &CallBudget,
    ) -> Result<v1::MsmResult> {
        let lanes = vector.streams as usize;
        let header = PutHeader::Vector(vector.clone());
        let main = async {
            let header =
                v1::MsmStreamHeader { spec: Some(job.spec.clone()), scalars: Some(vector) };
            let header = v1::MsmStreamRequest { message: Some(Message::Header(header)) };
            let wrap = |chunk| v1::MsmStreamRequest { message: Some(Message::Chunk(chunk)) };
            let mut compute = self.compute_on(0);
            let job = async |stream| {
                let answer = compute.msm_stream(call.request(stream)).await;
                Ok(answer?.into_inner())
            };
            let answer = upload.stream(header, None, wrap, &mut Vec::new(), job).await?;
            answer.result.ok_or(ClientError::invalid_response("no result"))
        };
        let stripes = (1..lanes).map(|lane| {
            let header = &header;
            async move {
                self.run_lane(lane, header, id, upload, call).await?;
                // A stripe has no result: only its failure matters.
                std::future::pending().await
            }
            .boxed()
        });
        first_response(std::iter::once(main.boxed()).chain(stripes).collect()).await
    }
}

impl MsmCallSpec {
    /// Checks the number of scalars before anything is sent.
    fn check_length(&self, encoding: ScalarEncoding, bytes: u64) -> Result<()> {
        let got = convert::element_count("scalars", bytes, encoding.width())?;
        let expected = self.len.saturating_mul(self.batch);
        if got == expected { Ok(()) } else { Err(ClientError::length("scalars", expected, got)) }
    }
}

fn decode<A: CurvePoint>(
    sums: EncodedMsmResult,
    encoding: crate::curve::points::SumEncoding,
) -> Result<MsmResult<A>> {
    let points = decode_sums::<A>(encoding, &sums.bytes).map_err(|bad| {
        ClientError::invalid_response(format!("sum {} is {}", bad.index, bad.problem))
    })?;
    Ok(MsmResult { points, timing: sums.timing, execution: sums.execution })
}

fn single_sum<A: CurvePoint>(msm: MsmResult<A>) -> Result<A::Group> {
    match msm.points.as_slice() {
        [sum] => Ok(*sum),
        _ => Err(ClientError::invalid_response("expected exactly one sum")),
    }
}
