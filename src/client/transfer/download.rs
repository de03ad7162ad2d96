//! Downloads of objects over several connections.

use std::mem;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::{Request, Status};

use super::frames::{self, FrameChannel, RESPONSE_BYTES_MAX};
use crate::wire::{
    DecodedMessage, MessageReader,
    v1::{self, store_client::StoreClient},
};
use crate::{
    Client, Progress,
    call::CallDeadline,
    connection::affinity::CallRoute,
    error::{ClientError, Result},
};

/// Bytes requested by one `Get`: small enough to spread the load and to lose little if it breaks.
const PIECE_BYTES: usize = 8 << 20;

/// Messages per lane that wait to be copied to the output.
const QUEUED_MESSAGES: usize = 8;

/// What is downloaded.
#[derive(Clone)]
pub(crate) struct DownloadSource {
    /// The object, and the first element.
    pub request: v1::GetRequest,
    /// Bytes of an element.
    pub width: usize,
    pub route: CallRoute,
}

/// Reports progress of received bytes, in addition to bytes that were sent before.
pub(crate) struct DownloadProgress {
    progress: Option<Progress>,
    done: Mutex<u64>,
    total: u64,
}

impl DownloadProgress {
    pub fn new(progress: Option<Progress>, sent: u64, total: u64) -> Self {
        Self { progress, done: Mutex::new(sent), total }
    }

    pub fn add(&self, bytes: u64) {
        if let Some(progress) = &self.progress {
            let mut done = self.done.lock();
            *done += bytes;
            progress((*done).min(self.total), self.total);
        }
    }
}

impl Client {
    /// Fills `out` with the elements of `source` from its offset on.
    pub(crate) async fn download(
        &self,
        source: &DownloadSource,
        out: &mut [u8],
        received: &DownloadProgress,
        deadline: CallDeadline,
    ) -> Result<()> {
        let DownloadSource { request, width, .. } = source;
        let lanes = self.lane_count(out.len() as u64) as usize;
        let elements_per_lane = (out.len() / *width).div_ceil(lanes);
        let elements = elements_per_lane.min(PIECE_BYTES / *width).max(1);
        let pieces = Mutex::new(out.chunks_mut(elements * *width).enumerate());
        let next = &|| pieces.lock().next();
        let lanes: FuturesUnordered<_> = (0..lanes)
            .map(|lane| async move {
                while let Some((number, piece)) = next() {
                    let offset = request.offset + (number * elements) as u64;
                    let request = v1::GetRequest { offset, ..request.clone() };
                    let piece_source = DownloadSource { request, ..source.clone() };
                    self.get_piece(lane, piece_source, piece, received, deadline).await?;
                }
                Ok(())
            })
            .collect();
        deadline.until_deadline(lanes.try_collect()).await
    }

    /// Downloads one piece; resumes it if its stream breaks.
    async fn get_piece(
        &self,
        lane: usize,
        source: DownloadSource,
        out: &mut [u8],
        received: &DownloadProgress,
        deadline: CallDeadline,
    ) -> Result<()> {
        let DownloadSource { request, width, route } = source;
        let mut store = self.store_on(lane, &route);
        let mut retry = self.begin_call(None)?;
        let mut filled = 0;
        loop {
            filled -= filled % width;
            let rest_request = v1::GetRequest {
                offset: request.offset + (filled / width) as u64,
                length: ((out.len() - filled) / width) as u64,
                ..request.clone()
            };
            let (rest, rest_request) = (&mut out[filled..], deadline.request(rest_request));
            match self.receive_piece(&mut store, rest_request, rest, &mut filled, received).await {
                Ok(()) => return Ok(()),
                Err(error) => retry.wait_before_retry(error).await?,
            }
            // The connection may be another one.
            store = self.store_on(lane, &route);
        }
    }

    /// Reads chunks until `out` is full and the stream has ended; adds their bytes to `filled`.
    async fn receive_piece(
        &self,
        store: &mut StoreClient<FrameChannel>,
        mut request: Request<v1::GetRequest>,
        out: &mut [u8],
        filled: &mut usize,
        received: &DownloadProgress,
    ) -> Result<()> {
        let kept = frames::keep_response(&mut request);
        let response = store.get(request).await?;
        let mut messages = spawn_decoder(kept.messages(response, RESPONSE_BYTES_MAX).await?);
        let (mut offset, mut rest, mut batch) = (0, out, Vec::with_capacity(QUEUED_MESSAGES));
        while messages.recv_many(&mut batch, QUEUED_MESSAGES).await > 0 {
            let (mut bytes, mut copies, mut outcome) = (0, Vec::new(), Result::Ok(()));
            for message in batch.drain(..) {
                let chunk = match message {
                    Ok(message) => message.chunk.unwrap_or_default(),
                    Err(status) => {
                        outcome = Err(status);
                        break;
                    }
                };
                let parts = mem::take(&mut rest).split_at_mut_checked(chunk.data.len());
                let Some((target, remaining)) = parts.filter(|_| chunk.offset == offset) else {
                    return Err(misplaced_chunk());
                };
                offset += chunk.data.len() as u64;
                bytes += chunk.data.len();
                rest = remaining;
                copies.push((target, chunk.data));
            }
            let copy = |(target, data): (&mut [u8], Bytes)| target.copy_from_slice(&data);
            self.inner.copies.map(bytes, copies, copy);
            *filled += bytes;
            received.add(bytes as u64);
            outcome?;
        }
        let early_end = || ClientError::ConnectionLost("the download ended early".into());
        rest.is_empty().then_some(()).ok_or_else(early_end)
    }
}

/// Decodes `stream` in a task, in parallel with other lanes. The task ends with its receiver.
fn spawn_decoder<M: DecodedMessage + 'static>(
    mut stream: MessageReader<M>,
) -> mpsc::Receiver<Result<M, Status>> {
    let (sender, messages) = mpsc::channel(QUEUED_MESSAGES);
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = stream.message() => next.transpose(),
                () = sender.closed() => None,
            };
            let Some(next) = next else { return };
            let has_failed = next.is_err();
            if sender.send(next).await.is_err() || has_failed {
                return;
            }
        }
    });
    messages
}

fn misplaced_chunk() -> ClientError {
    ClientError::invalid_response("a chunk has the wrong offset or length")
}

/// Writes `chunk`, which must begin at `offset`, to `out`. Returns the offset of the next chunk.
pub(crate) fn copy_chunk(chunk: &v1::Chunk, out: &mut [u8], offset: usize) -> Result<usize> {
    let end = offset + chunk.data.len();
    let target = out.get_mut(offset..end).filter(|_| chunk.offset == offset as u64);
    target.ok_or_else(misplaced_chunk)?.copy_from_slice(&chunk.data);
    Ok(end)
}
