//! Multi-scalar multiplication.

use std::{future, sync::Arc, time::Duration};

use bytes::Bytes;
use capstan_math::{
    curve::{
        Group,
        layout::points_as_bytes,
        points::{SumEncoding, decode_sums},
    },
    error::FieldProblem,
};

use crate::wire::v1::{self, msm_request::Scalars, msm_spec::Bases, msm_stream_request::Message};
use crate::{
    BasesHandle, BasesId, Client, CurvePoint, EncodedMsmResult, MsmOptions, MsmResult, Progress,
    ScalarInput, UploadKey,
    call::{CallBudget, CallDeadline, CallFuture},
    connection::affinity::{AffinityKey, CallRoute},
    convert,
    error::{ClientError, Result},
    objects::{held::HeldObject, put_again::HeldObjects},
    options::{ScalarPayload, UploadedScalars},
    transfer::{
        frames,
        payload::OutgoingBytes,
        staged_transfer::StagedUpload,
        striped_upload::{PutHeader, UploadLane, UploadStripes},
        upload::{ChunkQueue, MessageSender, send_copied},
    },
};

/// Scalars in this process.
struct LocalScalars<'a> {
    bytes: OutgoingBytes<'a>,
    encoding: i32,
    count: u64,
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
            let mut held = HeldObjects::new(held.to_vec());
            let (result, upload_time) = loop {
                let sent = self.send_msm(&spec, len, scalars.clone(), &options, &mut call, route);
                match sent.await {
                    Ok(sent) => break sent,
                    Err(error) => held.put_again(error, self, route, &call).await?,
                }
            };
            let total = call.deadline.elapsed();
            Ok(EncodedMsmResult {
                bytes: result.points,
                timing: convert::timing(result.timing, upload_time, Duration::ZERO, total),
                execution: convert::execution(result.execution, options.verify)?,
            })
        })
    }

    /// Sends an MSM. Returns the time of the upload, too, unless the scalars were in the first
    /// message.
    async fn send_msm(
        &self,
        spec: &v1::MsmSpec,
        len: u64,
        scalars: ScalarInput<'_>,
        options: &MsmOptions,
        call: &mut CallBudget,
        route: &CallRoute,
    ) -> Result<(v1::MsmResult, Option<Duration>)> {
        let ScalarPayload { encoding, bytes } = match scalars.into_payload() {
            Ok(payload) => payload,
            Err(UploadedScalars { id, first }) => {
                let upload_id = id.to_bytes();
                let scalars = match first {
                    None => Scalars::UploadId(upload_id),
                    Some(offset) => Scalars::Stored(v1::StoredVector { upload_id, offset }),
                };
                let result = self.msm_unary(spec, scalars, call, route).await?;
                return Ok((result, Some(Duration::ZERO)));
            }
        };
        let count = convert::element_count("scalars", bytes.len(), encoding.width())?;
        let expected = len.saturating_mul(options.batch.max(1).into());
        if count != expected {
            return Err(ClientError::length("scalars", expected, count));
        }
        let encoding = convert::scalar_encoding(encoding)?;
        let scalars = LocalScalars { bytes, encoding, count };
        if let Some((result, upload_time)) =
            self.msm_in_region(spec, &scalars, &options.progress, call).await?
        {
            return Ok((result, Some(upload_time)));
        }
        let LocalScalars { bytes, .. } = scalars;
        let inline_bytes = match &spec.bases {
            Some(Bases::Inline(bases)) => bases.data.len() as u64,
            _ => 0,
        };
        if bytes.len() + inline_bytes <= self.inner.message_bytes {
            let data = bytes.as_single_chunk(&self.inner.copies);
            let scalars = Scalars::Inline(v1::InlineVector { encoding, data });
            return Ok((self.msm_unary(spec, scalars, call, route).await?, None));
        }
        let scalars = v1::VectorUpload { encoding, count, ..Default::default() };
        let upload = self.chunk_queue(bytes, options.progress.clone());
        let result = self.msm_streamed(spec, scalars, &upload, call, route).await?;
        Ok((result, Some(upload.elapsed())))
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

    async fn msm_unary(
        &self,
        spec: &v1::MsmSpec,
        scalars: Scalars,
        call: &mut CallBudget,
        route: &CallRoute,
    ) -> Result<v1::MsmResult> {
        let request = v1::MsmRequest { spec: Some(spec.clone()), scalars: Some(scalars) };
        let send = |request| async move { self.compute(route).msm(request).await };
        required_result(call.unary(request, send).await?.result)
    }

    /// Computes an MSM whose scalars travel through shared memory. Returns the time of the upload,
    /// too. `None` if there is no such memory, or no longer.
    async fn msm_in_region(
        &self,
        spec: &v1::MsmSpec,
        scalars: &LocalScalars<'_>,
        progress: &Option<Progress>,
        call: &mut CallBudget,
    ) -> Result<Option<(v1::MsmResult, Duration)>> {
        let &LocalScalars { ref bytes, encoding, count } = scalars;
        if let OutgoingBytes::Region { region, .. } = bytes {
            let region_id = Bytes::copy_from_slice(&region.id);
            let header = v1::RegionUpload { region_id, offset: 0, encoding, count };
            let all = |send: &(dyn Fn(v1::WrittenRange) + Sync)| {
                send(v1::WrittenRange { offset: 0, length: bytes.len() });
                false
            };
            let result = self.msm_shared(spec, header, 1, all, call.deadline).await;
            return match result {
                Ok(result) => Ok(Some((result, Duration::ZERO))),
                Err(error) => call.wait_before_messages(error).await.map(|()| None),
            };
        }
        let Some(memory) = self.staged_memory(bytes.len()) else { return Ok(None) };
        let upload = StagedUpload::new(bytes, &memory, 0, &self.inner.copies);
        let mut upload = upload.with_progress(progress.clone(), bytes.len());
        let (header, pieces) = (upload.header(encoding, count), upload.announcements());
        let copy = |send: &(dyn Fn(v1::WrittenRange) + Sync)| upload.copy_batch(send);
        match self.msm_shared(spec, header, pieces, copy, call.deadline).await {
            Ok(result) => {
                let elapsed = upload.elapsed();
                memory.release();
                Ok(Some((result, elapsed)))
            }
            Err(error) => {
                if matches!(error, ClientError::Refused(_)) {
                    // The job has ended, and wrote nothing here.
                    memory.release();
                }
                call.wait_before_messages(error).await.map(|()| None)
            }
        }
    }

    /// Sends the ranges that `copy` has written, as [`send_copied`] does.
    async fn msm_shared(
        &self,
        spec: &v1::MsmSpec,
        scalars: v1::RegionUpload,
        pieces: usize,
        mut copy: impl FnMut(&(dyn Fn(v1::WrittenRange) + Sync)) -> bool,
        deadline: CallDeadline,
    ) -> Result<v1::MsmResult> {
        let (spec, region_scalars) = (Some(spec.clone()), Some(scalars));
        let header = v1::MsmStreamHeader { spec, scalars: None, region_scalars };
        let header = v1::MsmStreamRequest { message: Some(Message::Header(header)) };
        let wrap = |range| v1::MsmStreamRequest { message: Some(Message::Written(range)) };
        let copy = |sender: &MessageSender<_>| copy(&|range| sender.send(wrap(range)));
        // Memory is shared with one server, without a proxy.
        let mut compute = self.compute(&self.free_route());
        let job = async |stream| {
            let request = frames::send(deadline.request(stream));
            Ok(compute.msm_stream(request).await?.into_inner())
        };
        let response = send_copied(header, pieces, copy, job);
        required_result(deadline.until_deadline(response).await?.result)
    }

    /// Sends the scalars over the job's stream and further ones.
    async fn msm_streamed(
        &self,
        spec: &v1::MsmSpec,
        scalars: v1::VectorUpload,
        upload: &ChunkQueue<'_>,
        call: &mut CallBudget,
        route: &CallRoute,
    ) -> Result<v1::MsmResult> {
        let deadline = call.deadline;
        let (scalars, put_header) = (&scalars, &PutHeader::Vector(scalars.clone()));
        let run_lane = |lane: UploadLane| async move {
            if lane.number > 0 {
                self.run_lane(lane, put_header, upload, deadline).await?;
                // Only the first lane has a result; the others matter only if they fail.
                return future::pending().await;
            }
            let UploadStripes { id, count } = lane.streams();
            let (upload_id, streams) = (id.to_bytes(), count);
            let scalars = v1::VectorUpload { upload_id, streams, ..scalars.clone() };
            let (spec, scalars) = (Some(spec.clone()), Some(scalars));
            let header = v1::MsmStreamHeader { spec, scalars, region_scalars: None };
            let header = v1::MsmStreamRequest { message: Some(Message::Header(header)) };
            let wrap = |chunk| v1::MsmStreamRequest { message: Some(Message::Chunk(chunk)) };
            let mut compute = self.compute_on(lane.number, &lane.route);
            let job = async |stream| {
                let request = frames::send(deadline.request(stream));
                Ok(compute.msm_stream(request).await?.into_inner())
            };
            required_result(upload.stream(header, None, wrap, &mut Vec::new(), job).await?.result)
        };
        let id = UploadKey::random()?;
        // Bases in the header do not say where to go, but all lanes must go there.
        let own = || CallRoute::from(AffinityKey::of_upload(id));
        let route = if route.affinity.is_some() { route.clone() } else { own() };
        self.upload_over_lanes(&route, vec![id], &[upload], call, run_lane).await
    }
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

fn single_sum<A: CurvePoint>(msm: MsmResult<A>) -> Result<A::Group> {
    match msm.points.as_slice() {
        [sum] => Ok(*sum),
        _ => Err(ClientError::invalid_response("expected exactly one sum")),
    }
}
