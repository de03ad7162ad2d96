//! Bases in the store: put once, used by id.

use std::{
    mem,
    ops::{Bound, Range, RangeBounds},
    sync::Arc,
};

use capstan_math::{
    curve::{
        Group,
        layout::points_as_bytes,
        points::{PointEncoding, content_hash, content_hasher, decode},
    },
    error::FieldProblem,
};

use super::held::{HeldContent, HeldObject};
use crate::wire::v1::{self, get_request, release_request, stat_request, stat_response::Status};
use crate::{
    BasesHandle, BasesId, BasesInfo, BasesResidency, Client, CurvePoint, PutOptions,
    ResidencyAction,
    call::CallFuture,
    connection::affinity::{AffinityKey, CallRoute},
    convert,
    error::{ClientError, Result},
    transfer::{
        download::{DownloadProgress, DownloadSource},
        payload::OutgoingBytes,
        striped_upload::PutHeader,
    },
    types::UploadKey,
};

/// Points in the memory of this process.
#[derive(Clone, Copy)]
struct PointBytes<'a> {
    group: Group,
    encoding: PointEncoding,
    bytes: &'a [u8],
    /// `None` in encodings that must be decoded for it, which is left to the server.
    id: Option<BasesId>,
}

impl PointBytes<'_> {
    /// Errors: `InvalidResponse` if the server's bases have another group, number or id.
    fn require_same(&self, info: &BasesInfo) -> Result<()> {
        let bytes = info.count.checked_mul(self.encoding.point_bytes(self.group) as u64);
        if info.group != self.group || bytes != Some(self.bytes.len() as u64) {
            return Err(ClientError::invalid_response("the server answered with other points"));
        }
        self.id.map_or(Ok(()), |id| convert::require_id(&info.id.0, &id.0))
    }
}

/// Bytes hashed between two yields to other tasks.
const HASH_BYTES: usize = 4 << 20;

impl Client {
    /// Puts bases. If the server already has them, only their id is sent.
    ///
    /// Encoding: Montgomery limbs from the caller's memory, without conversion.
    /// Errors: `Refused` with reason `NOT_ON_CURVE` or `NOT_IN_SUBGROUP` and the first invalid
    /// point's index, or with code `RESOURCE_EXHAUSTED` if the store is full.
    pub async fn put_bases<A: CurvePoint>(&self, points: &[A]) -> Result<BasesHandle<A>> {
        self.put_bases_with(PutOptions::default(), points).await
    }

    /// Like [`Self::put_bases`], with a label, persistence, progress or a deadline.
    pub async fn put_bases_with<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: &[A],
    ) -> Result<BasesHandle<A>> {
        if options.hold {
            return self.put_shared_bases(options, points.into()).await;
        }
        self.check_process()?;
        let id = BasesId(content_hash(points));
        let route = self.route(|| AffinityKey::of_bases(id));
        BasesHandle::new(self.put_bases_as(id, points, options, route).await?)
    }

    /// Like [`Self::put_bases_with`] and `options.hold`, without a copy of the points.
    pub async fn put_shared_bases<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: Arc<[A]>,
    ) -> Result<BasesHandle<A>> {
        let range = 0..points.len();
        self.put_shared_range(options, points, range).await
    }

    /// Puts a range of points as one object.
    pub(crate) async fn put_shared_range<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: Arc<[A]>,
        range: Range<usize>,
    ) -> Result<BasesHandle<A>> {
        self.check_process()?;
        let id = BasesId(content_hash(&points[range.clone()]));
        let route = self.route(|| AffinityKey::of_bases(id));
        let put = self.put_bases_as(id, &points[range.clone()], options.clone(), route);
        let mut handle = BasesHandle::new(put.await?)?;
        let PutOptions { label, persist, .. } = options;
        let content = HeldContent::points(points, range);
        handle.held = Some(Arc::new(HeldObject { id: id.0, content, label, persist }));
        Ok(handle)
    }

    /// Puts the points with this id, unless the server has them.
    pub(crate) async fn put_bases_as<A: CurvePoint>(
        &self,
        id: BasesId,
        points: &[A],
        options: PutOptions,
        route: CallRoute,
    ) -> Result<BasesInfo> {
        let bytes = points_as_bytes(points);
        let hash = match self.stat_id(id, route.clone()).await {
            Ok(info) if info.persisted || !options.persist => return Ok(info),
            // Known but not on disk: with the hash, the server may not need the payload.
            Ok(_) => hash(bytes).await,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let (group, encoding, id) = (A::GROUP, PointEncoding::Montgomery, Some(id));
        self.put_points(PointBytes { group, encoding, bytes, id }, hash, options, route).await
    }

    /// Puts points that are already encoded, such as those of a file. Their id is known afterwards
    /// only: behind a proxy that chooses one of several servers for each call, name the client's
    /// affinity ([`Self::with_affinity`]), so that later calls reach the server that has them.
    ///
    /// Errors: `InvalidInput` if `bytes` is not a whole number of points; `InvalidResponse` if the
    /// server answers with another number of points, or for Montgomery limbs with another id; those
    /// of [`Self::put_bases`].
    pub async fn put_encoded(
        &self,
        group: Group,
        encoding: PointEncoding,
        bytes: &[u8],
        options: PutOptions,
    ) -> Result<BasesInfo> {
        self.check_process()?;
        let hash = hash(bytes).await;
        let payload = v1::Payload {
            hash: hash.clone().into(),
            encoding: v1::PointEncoding::from(encoding).into(),
        };
        let route = self.route(|| AffinityKey::of_object(&hash));
        let id = match encoding {
            PointEncoding::Montgomery => {
                Some(BasesId(hash_with(content_hasher(group), bytes).await.into()))
            }
            PointEncoding::Compressed | PointEncoding::Uncompressed => None,
        };
        let points = PointBytes { group, encoding, bytes, id };
        match self.stat_by(stat_request::Id::Payload(payload), route.clone()).await {
            Ok(info) if info.group == group && (info.persisted || !options.persist) => {
                points.require_same(&info)?;
                return Ok(info);
            }
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        self.put_points(points, hash, options, route).await
    }

    fn put_points<'a>(
        &'a self,
        points: PointBytes<'a>,
        hash: Vec<u8>,
        options: PutOptions,
        route: CallRoute,
    ) -> CallFuture<'a, BasesInfo> {
        let PointBytes { group, encoding, bytes, .. } = points;
        Box::pin(async move {
            let count =
                convert::element_count("points", bytes.len() as u64, encoding.point_bytes(group))?;
            if count == 0 {
                return Err(ClientError::input("points", FieldProblem::Zero));
            }
            let header = PutHeader::Bases(v1::BasesUpload {
                group: v1::Group::from(group).into(),
                encoding: v1::PointEncoding::from(encoding).into(),
                count,
                payload_hash: hash.into(),
                persist: options.persist,
                label: options.label,
                ..Default::default()
            });
            let mut call = self.begin_call(options.deadline)?;
            let upload = self.chunk_queue(OutgoingBytes::Public(bytes), options.progress);
            let put =
                self.put_payload(header, UploadKey::random()?, &upload, &mut call, route).await?;
            let info = convert::object_bases(put.object, &[])?;
            points.require_same(&info)?;
            Ok(info)
        })
    }

    /// Returns a handle to bases on the server.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`; `InvalidSetting` if the bases are of the other
    /// group.
    pub async fn bases<A: CurvePoint>(&self, id: BasesId) -> Result<BasesHandle<A>> {
        BasesHandle::new(self.stat(id).await?)
    }

    /// Returns the metadata of bases.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn stat(&self, id: BasesId) -> Result<BasesInfo> {
        let route = self.route(|| AffinityKey::of_bases(id));
        self.stat_id(id, route).await
    }

    async fn stat_id(&self, id: BasesId, route: CallRoute) -> Result<BasesInfo> {
        let info = self.stat_by(stat_request::Id::ObjectId(id.to_bytes()), route).await?;
        convert::require_id(&info.id.0, &id.0)?;
        Ok(info)
    }

    fn stat_by(&self, id: stat_request::Id, route: CallRoute) -> CallFuture<'_, BasesInfo> {
        Box::pin(async move {
            let route = &route;
            let send = |request| async move { self.store(route).stat(request).await };
            let request = v1::StatRequest { id: Some(id) };
            let found = self.begin_call(None)?.unary(request, send).await?;
            let object = match found.status {
                Some(Status::Object(object)) => Some(object),
                _ => None,
            };
            convert::object_bases(object, &found.unknown_devices)
        })
    }

    /// Lists all bases, or those of one group, oldest first.
    pub async fn list(&self, group: Option<Group>) -> Result<Vec<BasesInfo>> {
        let list = self.list_objects(group).await?;
        let unknown = list.unknown_devices;
        list.bases.into_iter().map(|bases| convert::bases(bases, &unknown)).collect()
    }

    /// Warms, pins, unpins or evicts bases on devices, and waits until that is done. Returns what
    /// each device holds then; nothing if the server has no GPUs. `devices` are numbers of GPUs, as
    /// [`Self::info`] reports them; empty means all that serve.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`; with code `RESOURCE_EXHAUSTED` and reason
    /// `DEVICE_MEMORY`, `PINNED_BASES` or `TENANT_QUOTA` if there is no room; with code
    /// `INVALID_ARGUMENT` for a device that the server does not have.
    pub async fn set_residency(
        &self,
        id: BasesId,
        action: ResidencyAction,
        devices: &[u32],
    ) -> Result<Vec<BasesResidency>> {
        let changed: CallFuture<'_, v1::SetResidencyResponse> = Box::pin(async move {
            let route = &self.route(|| AffinityKey::of_bases(id));
            let send = |request| async move { self.store(route).set_residency(request).await };
            let request = v1::SetResidencyRequest {
                object_id: id.to_bytes(),
                action: action.into(),
                devices: devices.to_vec(),
            };
            self.begin_call(None)?.unary(request, send).await
        });
        Ok(changed.await?.devices)
    }

    /// Removes bases from the server and its disk. Running jobs keep the bases that they use.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`.
    pub async fn release(&self, id: BasesId) -> Result<()> {
        let route = self.route(|| AffinityKey::of_bases(id));
        self.release_by(release_request::Id::ObjectId(id.to_bytes()), route).await
    }

    pub(crate) fn release_by(
        &self,
        id: release_request::Id,
        route: CallRoute,
    ) -> CallFuture<'_, ()> {
        Box::pin(async move {
            let route = &route;
            let send = |request| async move { self.store(route).release(request).await };
            let request = v1::ReleaseRequest { id: Some(id) };
            self.begin_call(None)?.unary(request, send).await.map(drop)
        })
    }

    /// Downloads bases, or a range of them, and checks every point again. The hash of all points is
    /// compared with the id.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`; `InvalidSetting` if the bases are of the other
    /// group; `InvalidInput` if the range is out of bounds; `InvalidResponse` if the points are
    /// others.
    pub async fn get_bases<A: CurvePoint>(
        &self,
        id: BasesId,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<A>> {
        let info = BasesHandle::<A>::new(self.stat(id).await?)?.info;
        let range = resolve_range(range, info.count)?;
        let is_whole = range == (0..info.count);
        let bytes = self.read_bases(&info, PointEncoding::Montgomery, range).await?;
        let points: Vec<A> = decode(PointEncoding::Montgomery, &bytes).map_err(|bad| {
            ClientError::invalid_response(format!("point {} is {}", bad.index, bad.problem))
        })?;
        if is_whole {
            convert::require_id(&content_hash(&points), &id.0)?;
        }
        Ok(points)
    }

    /// Downloads bases, or a range of them, in the given encoding.
    ///
    /// Errors: `Refused` with code `NOT_FOUND`; `InvalidInput` if the range is out of bounds.
    pub async fn get_encoded(
        &self,
        id: BasesId,
        encoding: PointEncoding,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        let info = self.stat(id).await?;
        let range = resolve_range(range, info.count)?;
        self.read_bases(&info, encoding, range).await
    }

    fn read_bases<'a>(
        &'a self,
        info: &'a BasesInfo,
        encoding: PointEncoding,
        range: Range<u64>,
    ) -> CallFuture<'a, Vec<u8>> {
        Box::pin(async move {
            let width = encoding.point_bytes(info.group);
            let mut out =
                mem::take(&mut *convert::zeros::<u8>("range", range.end - range.start, width)?);
            let request = v1::GetRequest {
                id: Some(get_request::Id::ObjectId(info.id.to_bytes())),
                encoding: Some(v1::PointEncoding::from(encoding).into()),
                offset: range.start,
                ..Default::default()
            };
            let received = DownloadProgress::new(None, 0, out.len() as u64);
            let deadline = self.begin_call(None)?.deadline;
            let route = self.route(|| AffinityKey::of_bases(info.id));
            let source = DownloadSource { request, width, route };
            self.download(&source, &mut out, &received, deadline).await?;
            Ok(out)
        })
    }
}

fn resolve_range(range: impl RangeBounds<u64>, count: u64) -> Result<Range<u64>> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(previous) => previous.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => count,
    };
    if start > end || end > count {
        return Err(ClientError::input("range", FieldProblem::TooLarge { max: count }));
    }
    Ok(start..end)
}

/// BLAKE3 of `bytes`; yields to other tasks in between.
pub(crate) async fn hash(bytes: &[u8]) -> Vec<u8> {
    hash_with(blake3::Hasher::new(), bytes).await.as_bytes().to_vec()
}

/// The hash of the bytes that `hasher` has hashed and of `bytes`, like [`hash`].
async fn hash_with(mut hasher: blake3::Hasher, bytes: &[u8]) -> blake3::Hash {
    for chunk in bytes.chunks(HASH_BYTES) {
        hasher.update(chunk);
        tokio::task::yield_now().await;
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::resolve_range;

    #[test]
    fn refuses_ranges_that_exceed_the_count() {
        assert_eq!(resolve_range(.., 5).ok(), Some(0..5));
        assert_eq!(resolve_range(2..4, 5).ok(), Some(2..4));
        assert_eq!(resolve_range(1..=4, 5).ok(), Some(1..5));
        assert_eq!(resolve_range(5.., 5).ok(), Some(5..5));
        assert!(resolve_range(3..6, 5).is_err());
        assert!(resolve_range(6.., 5).is_err());
    }
}
