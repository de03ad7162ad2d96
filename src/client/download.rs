//! Downloads of objects over several connections.

use std::{
    mem,
    sync::{Mutex, PoisonError},
};

use futures_util::stream::{FuturesUnordered, TryStreamExt};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{
    Client, Progress,
    call::CallBudget,
    copy_pool::CopyPool,
    error::{ClientError, Result},
};
use crate::wire::v1::{self, get_request::Id};

/// Bytes requested by one `Get`: small enough to spread the load and to lose little if it breaks.
const PIECE_BYTES: usize = 8 << 20;

/// Messages per lane that wait to be copied to the output.
const QUEUED_MESSAGES: usize = 8;

/// Reports progress of received bytes, in addition to bytes that were sent before.
pub(crate) struct DownloadProgress {
    progress: Option<Progress>,
    done: Mutex<u64>,
    total: u64,
}

impl DownloadProgress {
    /// `before` bytes of `total` were transferred before the download.
    pub fn new(progress: Option<Progress>, before: u64, total: u64) -> Self {
        Self { progress, done: Mutex::new(before), total }
    }

    pub fn add(&self, bytes: u64) {
        if let Some(progress) = &self.progress {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += bytes;
            progress((*done).min(self.total), self.total);
        }
    }
}

/// A range of an object's elements and their encoding.
pub(crate) struct ObjectRange {
    pub id: Id,
    pub encoding: Option<v1::PointEncoding>,
    /// The first element.
    pub offset: u64,
    /// Bytes of one element.
    pub width: usize,
}

impl Client {
    /// Fills `out` with the elements that start at `span.offset`.
    pub(crate) async fn download(
        &self,
        span: &ObjectRange,
        out: &mut [u8],
        received: &DownloadProgress,
        deadline: &CallBudget,
    ) -> Result<()> {
        let lanes = self.lane_count(out.len() as u64);
        let width = span.width;
        let piece_bytes = (PIECE_BYTES / width).max(1) * width;
        let per_lane = out.len().div_ceil(lanes).next_multiple_of(width);
        let piece_bytes = piece_bytes.min(per_lane.max(width));
        let pieces = Mutex::new(out.chunks_mut(piece_bytes).enumerate());
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let (next, per_piece) = (&next, (piece_bytes / width) as u64);
        let lanes: FuturesUnordered<_> = (0..lanes)
            .map(|lane| async move {
                while let Some((number, piece)) = next() {
                    let offset = span.offset + number as u64 * per_piece;
                    self.get_piece(lane, span, offset, piece, received, deadline).await?;
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
        span: &ObjectRange,
        offset: u64,
        out: &mut [u8],
        received: &DownloadProgress,
        deadline: &CallBudget,
    ) -> Result<()> {
        let mut retry = self.begin_call(None);
        let mut filled = 0;
        loop {
            let start = filled - filled % span.width;
            let request = v1::GetRequest {
                id: Some(span.id.clone()),
                encoding: span.encoding.map(|encoding| encoding as i32),
                offset: offset + (start / span.width) as u64,
                length: ((out.len() - start) / span.width) as u64,
            };
            filled = start;
            let mut store = self.store_on(lane);
            let error = match store.get(deadline.request(request)).await {
                Ok(stream) => {
                    let rest = &mut out[start..];
                    let (stream, copies) = (stream.into_inner(), &self.inner.copies);
                    match receive_piece(stream, copies, rest, &mut filled, received).await {
                        Ok(()) => return Ok(()),
                        Err(error) => error,
                    }
                }
                Err(status) => status.into(),
            };
            retry.wait_before_retry(error).await?;
        }
    }
}

/// Reads chunks until `out` is full and the stream has ended; adds their bytes to `filled`.
async fn receive_piece(
    stream: Streaming<v1::GetResponse>,
    threads: &CopyPool,
    out: &mut [u8],
    filled: &mut usize,
    received: &DownloadProgress,
) -> Result<()> {
    let mut messages = spawn_decoder(stream);
    let (mut at, mut rest, mut some) = (0, out, Vec::with_capacity(QUEUED_MESSAGES));
    while messages.recv_many(&mut some, QUEUED_MESSAGES).await > 0 {
        let (begun, mut copies, mut end) = (at, Vec::new(), Result::Ok(()));
        for message in some.drain(..) {
            let chunk = match message {
                Ok(message) => message.chunk.unwrap_or_default(),
                Err(status) => {
                    end = Err(ClientError::from(status));
                    break;
                }
            };
            let place = mem::take(&mut rest).split_at_mut_checked(chunk.data.len());
            let Some((place, later)) = place.filter(|_| chunk.offset == at as u64) else {
                return Err(misplaced_chunk());
            };
            at += place.len();
            rest = later;
            copies.push((place, chunk.data));
        }
        threads.map(at - begun, copies, |(place, data)| place.copy_from_slice(&data));
        *filled += at - begun;
        received.add((at - begun) as u64);
        end?;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(ClientError::ConnectionLost("the download ended early".into()))
    }
}

/// Decodes `stream` in a task, in parallel with other lanes. The task ends with its receiver.
fn spawn_decoder<T: Send + 'static>(mut stream: Streaming<T>) -> mpsc::Receiver<Result<T, Status>> {
    let (sender, messages) = mpsc::channel(QUEUED_MESSAGES);
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = stream.message() => next.transpose(),
                () = sender.closed() => None,
            };
            let Some(next) = next else { return };
            let last = next.is_err();
            if sender.send(next).await.is_err() || last {
                return;
            }
        }
    });
    messages
}

fn misplaced_chunk() -> ClientError {
    ClientError::invalid_response("a chunk has the wrong offset or length")
}

/// Writes `chunk`, which must begin at `at`, to `out`. Returns the offset of the next chunk.
pub(crate) fn copy_chunk(chunk: &v1::Chunk, out: &mut [u8], at: usize) -> Result<usize> {
    let end = at + chunk.data.len();
    if chunk.offset != at as u64 || end > out.len() {
        return Err(misplaced_chunk());
    }
    out[at..end].copy_from_slice(&chunk.data);
    Ok(end)
}
