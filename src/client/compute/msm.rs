//! Multi-scalar multiplication.

use std::{sync::Arc, time::Duration};

use crate::wire::v1::{
    self, msm_request::Scalars, msm_spec::Bases, msm_stream_request::Message, program_input::Source,
};
use crate::{
    BasesHandle, BasesId, Client, CurvePoint, EncodedMsmResult, MsmOptions, MsmResult, ScalarInput,
    call::CallFuture,
    connection::affinity::{AffinityKey, CallRoute},
    convert,
    error::{ClientError, Result},
    objects::{held::HeldObject, put_again::HeldObjects},
    options::{ElementSource, UploadedScalars, VectorInput},
    transfer::{
        frames,
        payload::OutgoingBytes,
        vector_call::{
            CallLane, CallTransfer, SentCall, StreamOf, StreamPart, StreamedInput, VectorCall,
        },
    },
};
use bytes::Bytes;
use capstan_math::{
    curve::{
        Group,
        layout::points_as_bytes,
        points::{SumEncoding, decode_sums},
        scalars::ScalarEncoding,
    },
    error::FieldProblem,
    program::InputSpec,
};

/// An MSM on its way to the server.
struct MsmCall {
    spec: v1::MsmSpec,
    /// Whether scalars on the server are all of a vector, whose length is checked.
    is_whole_vector: bool,
}

/// The bases of an MSM.
struct MsmBases<'a> {
    bases: Bases,
    len: u64,
    /// The object that they are part of, if this process holds it.
    held: &'a [Arc<HeldObject>],
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
        let operand = MsmBases {
            bases: stored_or_none(bases.id(), bases.offset, bases.len),
            len: bases.len,
            held: bases.held.as_slice(),
        };
        let sums = self.run_msm(A::GROUP, operand, scalars.into(), options).await?;
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
        let max = self.inner.message_bytes / A::GROUP.affine_bytes() as u64;
        let len = bases.len() as u64;
        if len > max {
            return Err(ClientError::input("bases", FieldProblem::TooLarge { max }));
        }
        let bases = inline(Bytes::copy_from_slice(points_as_bytes(bases)));
        let encoding = options.result_encoding;
        let operand = MsmBases { bases, len, held: &[] };
        let sums = self.run_msm(A::GROUP, operand, scalars.into(), options).await?;
        decode(sums, encoding)
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
        let operand = MsmBases { bases: stored_or_none(id, offset, len), len, held: &[] };
        self.run_msm(group, operand, scalars.into(), options).await
    }

    fn run_msm<'a>(
        &'a self,
        group: Group,
        operand: MsmBases<'a>,
        scalars: ScalarInput<'a>,
        options: MsmOptions,
    ) -> CallFuture<'a, EncodedMsmResult> {
        let MsmBases { bases, len, held } = operand;
        Box::pin(async move {
            let mut call = self.begin_call(options.deadline)?;
            let spec = v1::MsmSpec {
                group: v1::Group::from(group).into(),
                bases: Some(bases),
                batch: options.batch,
                reduce: options.reduce,
                result_encoding: v1::ResultEncoding::from(options.result_encoding).into(),
                verify: v1::Verify::from(options.verify).into(),
            };
            let route = &self.msm_route(&spec, &scalars);
            let is_whole_vector = matches!(scalars, ScalarInput::Upload(_));
            let input = msm_input(scalars, len, &options)?;
            let is_on_server = matches!(
                input.source,
                ElementSource::Named(_) | ElementSource::Local(OutgoingBytes::Region { .. })
            );
            let transfer = CallTransfer {
                client: self,
                call: &MsmCall { spec, is_whole_vector },
                inputs: &[input],
                outputs: &[],
                route,
                progress: options.progress.as_ref(),
            };
            let mut held = HeldObjects::new(held.to_vec());
            let SentCall { reply, memory, upload } = loop {
                match transfer.send(&mut call).await {
                    Ok(sent) => break sent,
                    Err(error) => held.put_again(error, self, route, &call).await?,
                }
            };
            let upload = upload.or(is_on_server.then_some(Duration::ZERO));
            if let Some(vectors) = memory {
                vectors.memory.release();
            }
            let total = call.deadline.elapsed();
            Ok(EncodedMsmResult {
                bytes: reply.points,
                timing: convert::timing(reply.timing, upload, Duration::ZERO, total),
                execution: convert::execution(reply.execution, options.verify)?,
            })
        })
    }

    /// A vector on the server decides, since the client cannot put it again; then the bases.
    fn msm_route(&self, spec: &v1::MsmSpec, scalars: &ScalarInput<'_>) -> CallRoute {
        match (scalars, &spec.bases) {
            (ScalarInput::Upload(id) | ScalarInput::UploadFrom { id, .. }, _) => {
                self.vector_route(*id)
            }
            (_, Some(Bases::Stored(bases))) => {
                self.route(|| AffinityKey::of_object(&bases.object_id))
            }
            _ => self.free_route(),
        }
    }
}

impl VectorCall for MsmCall {
    type Message = v1::MsmStreamRequest;
    type Reply = v1::MsmResult;

    fn inline_bytes_max(&self, message_bytes: u64) -> Option<u64> {
        match &self.spec.bases {
            Some(Bases::Inline(bases)) => message_bytes.checked_sub(bases.data.len() as u64),
            _ => Some(message_bytes),
        }
    }

    fn message(&self, part: StreamPart<'_>) -> v1::MsmStreamRequest {
        let message = match part {
            StreamPart::Header(inputs, _) => {
                let StreamedInput { upload, region_upload } = inputs.into();
                Message::Header(v1::MsmStreamHeader {
                    spec: Some(self.spec.clone()),
                    scalars: upload,
                    region_scalars: region_upload,
                })
            }
            StreamPart::Chunk(_, chunk) => Message::Chunk(chunk),
            StreamPart::Written(_, range) => Message::Written(range),
        };
        v1::MsmStreamRequest { message: Some(message) }
    }

    async fn send_stream(
        &self,
        lane: CallLane<'_>,
        stream: StreamOf<Self>,
    ) -> Result<v1::MsmResult> {
        let CallLane { mut compute, deadline, .. } = lane;
        let response = compute.msm_stream(frames::send(deadline.request(stream))).await?;
        required_result(response.into_inner().result)
    }

    async fn send_message(&self, lane: CallLane<'_>, inputs: Vec<Source>) -> Result<v1::MsmResult> {
        let CallLane { mut compute, deadline, .. } = lane;
        let scalars = inputs.into_iter().find_map(|input| match input {
            Source::Inline(scalars) => Some(Scalars::Inline(scalars)),
            Source::Stored(vector) if self.is_whole_vector => {
                Some(Scalars::UploadId(vector.upload_id))
            }
            Source::Stored(vector) => Some(Scalars::Stored(vector)),
            _ => None,
        });
        let request = v1::MsmRequest { spec: Some(self.spec.clone()), scalars };
        required_result(compute.msm(deadline.request(request)).await?.into_inner().result)
    }
}

/// The scalars of an MSM over `len` bases.
fn msm_input<'a>(
    scalars: ScalarInput<'a>,
    len: u64,
    options: &MsmOptions,
) -> Result<VectorInput<'a>> {
    let expected = len.saturating_mul(options.batch.max(1).into());
    let payload = match scalars.into_payload() {
        Ok(payload) => payload,
        Err(UploadedScalars { id, first }) => {
            // The server checks the length and the encoding.
            let spec = InputSpec::new(ScalarEncoding::Montgomery, expected);
            return Ok(VectorInput::stored(spec, id, first.unwrap_or(0)));
        }
    };
    let input = VectorInput::local("scalars", payload, options.reduce)?;
    if input.spec.count != expected {
        return Err(ClientError::length("scalars", expected, input.spec.count));
    }
    Ok(input)
}

fn required_result(result: Option<v1::MsmResult>) -> Result<v1::MsmResult> {
    result.ok_or(ClientError::invalid_response("no result"))
}

/// A range of stored bases, or no bases.
fn stored_or_none(id: BasesId, offset: u64, len: u64) -> Bases {
    if len == 0 {
        // On the wire, a length of 0 means all bases.
        return inline(Bytes::new());
    }
    Bases::Stored(v1::StoredBases { object_id: id.to_bytes(), offset, length: len })
}

fn inline(data: Bytes) -> Bases {
    let encoding = v1::PointEncoding::Montgomery.into();
    Bases::Inline(v1::InlineBases { encoding, data })
}

fn decode<A: CurvePoint>(sums: EncodedMsmResult, encoding: SumEncoding) -> Result<MsmResult<A>> {
    let points = decode_sums::<A>(encoding, &sums.bytes).map_err(|bad| {
        ClientError::invalid_response(format!("sum {} is {}", bad.index, bad.problem))
    })?;
    Ok(MsmResult { points, timing: sums.timing, execution: sums.execution })
}

pub(crate) fn single_sum<A: CurvePoint>(msm: MsmResult<A>) -> Result<A::Group> {
    match msm.points.as_slice() {
        [sum] => Ok(*sum),
        _ => Err(ClientError::invalid_response("expected exactly one sum")),
    }
}
