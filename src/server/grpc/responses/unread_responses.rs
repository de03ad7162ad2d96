//! Responses that wait for their readers. The transport asks for a part of a response when the
//! reader has room for it. A reader that takes nothing must not keep the response in memory while
//! its connection stays open.

use std::{
    mem,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tonic::{Status, body::Body, codegen::http::HeaderMap};

use super::transport_parts::{FRAME_BYTES_MAX, PIECE_BYTES, TransportParts};
use crate::error::EngineError;
use crate::grpc::{calls::status::status_of, connections::pace::PeerPace};

/// All responses of a server.
#[derive(Default)]
pub struct UnreadResponses {
    bodies: Mutex<Vec<Weak<Mutex<ResponseState>>>>,
    parts: Mutex<Vec<Weak<TransportParts>>>,
}

/// A response body that can be dropped while the transport holds it.
pub struct DroppableBody(Arc<Mutex<ResponseState>>);

struct ResponseState {
    content: ResponseContent,
    /// The rest of a frame.
    rest: Bytes,
    /// When the transport took the last part; `None` while it waits for the next one.
    waits_since: Option<Instant>,
    pace: PeerPace,
    /// `None` once the response is dropped.
    parts: Option<Arc<TransportParts>>,
}

enum ResponseContent {
    Body(Body),
    /// Dropped because its reader was idle for too long. The reader does not know it yet.
    Dropped(DroppedResponse),
    Ended,
}

/// What a reader that was too slow gets instead of the rest.
struct DroppedResponse {
    idle: Duration,
    /// The transport holds a part, so the reader cannot get the error: its stream is reset.
    resets_stream: bool,
}

impl UnreadResponses {
    /// Makes `body` part of the responses that [`Self::drop_idle`] drops, unless its reader is at
    /// least as fast as `parts` demands. The transport holds it as `parts`.
    pub fn add(&self, body: Body, parts: Arc<TransportParts>) -> DroppableBody {
        self.parts.lock().push(Arc::downgrade(&parts));
        let state = Arc::new(Mutex::new(ResponseState {
            content: ResponseContent::Body(body),
            rest: Bytes::new(),
            waits_since: Some(Instant::now()),
            pace: PeerPace::new(parts.min),
            parts: Some(parts),
        }));
        self.bodies.lock().push(Arc::downgrade(&state));
        DroppableBody(state)
    }

    /// Closes the connections that keep parts of responses for too long; returns their number.
    /// `late` is how late the server is: as much time does not count.
    pub fn close_stalled(&self, late: Duration) -> usize {
        let all = open(&self.parts);
        all.iter().filter(|parts| parts.close_if_stalled(late)).count()
    }

    /// Drops the responses whose readers are too slow. `late` is how late the server is: as much
    /// time does not count.
    pub fn drop_idle(&self, late: Duration) {
        for state in open(&self.bodies) {
            let mut state = state.lock();
            let now = Instant::now();
            state.waits_since = state.waits_since.map(|since| now.min(since + late));
            let time_left = state.pace.time_left();
            if state.waits_since.is_some_and(|since| now - since > time_left)
                && let ResponseContent::Body(_) = &state.content
            {
                let idle = state.pace.min().window;
                let parts = state.parts.take();
                let resets_stream = parts.as_ref().is_some_and(|parts| parts.give_up());
                let dropped = ResponseContent::Dropped(DroppedResponse { idle, resets_stream });
                let content = mem::replace(&mut state.content, dropped);
                let rest = mem::take(&mut state.rest);
                drop(state);
                drop((content, rest, parts));
            }
        }
    }
}

/// Those of `all` that exist. Forgets the others.
fn open<T>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    let mut open = Vec::new();
    all.lock().retain(|one| one.upgrade().map(|one| open.push(one)).is_some());
    open
}

impl ResponseState {
    /// The transport takes a part, which the reader has room for.
    fn take(&mut self, part: Bytes) -> Frame<Bytes> {
        self.pace.takes(part.len() as u64);
        Frame::data(match &self.parts {
            Some(parts) => parts.add(part),
            None => part,
        })
    }

    /// The next piece of a long frame.
    fn cut(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        self.take(Bytes::copy_from_slice(&piece))
    }

    /// The transport asks for the next part.
    fn end_wait(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.pace.waited(since.elapsed());
        }
    }
}

impl http_body::Body for DroppableBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut state = self.0.lock();
        if let Some(parts) = &state.parts {
            ready!(parts.poll_sent(context));
        }
        state.end_wait();
        if !state.rest.is_empty() {
            state.waits_since = Some(Instant::now());
            return Poll::Ready(Some(Ok(state.cut())));
        }
        let frame = match &mut state.content {
            ResponseContent::Body(body) => Pin::new(body).poll_frame(context),
            &mut ResponseContent::Dropped(DroppedResponse { idle, resets_stream }) => {
                let status = status_of(EngineError::Idle(idle));
                let mut trailers = HeaderMap::new();
                state.content = ResponseContent::Ended;
                if resets_stream {
                    return Poll::Ready(Some(Err(status)));
                }
                let added = status.add_header(&mut trailers);
                return Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))));
            }
            ResponseContent::Ended => return Poll::Ready(None),
        };
        state.waits_since = frame.is_ready().then(Instant::now);
        match frame {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.len() > FRAME_BYTES_MAX => {
                    state.rest = data;
                    Poll::Ready(Some(Ok(state.cut())))
                }
                Ok(data) => Poll::Ready(Some(Ok(state.take(data)))),
                Err(frame) => Poll::Ready(Some(Ok(frame))),
            },
            Poll::Ready(None) => {
                state.content = ResponseContent::Ended;
                Poll::Ready(None)
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.lock();
        match &state.content {
            ResponseContent::Body(body) => state.rest.is_empty() && body.is_end_stream(),
            ResponseContent::Dropped(_) => false,
            ResponseContent::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body::Body as _;
    use tonic::Code;

    use super::*;
    use crate::grpc::{
        connections::{connection_calls::ConnectionCalls, pace::MinRate},
        responses::transport_parts::PartsCost,
    };

    /// Yields one frame, whose memory is that of `0`.
    struct OneFrame(Option<Bytes>);

    impl http_body::Body for OneFrame {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    async fn next(body: &mut DroppableBody) -> Option<Frame<Bytes>> {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        frame.map(|frame| frame.expect("the body does not fail"))
    }

    /// A response of one frame of these bytes, and a reference to their memory. `connection` is
    /// `None` if callers share it.
    fn response(
        responses: &UnreadResponses,
        connection: Option<ConnectionCalls>,
        bytes: Vec<u8>,
    ) -> (DroppableBody, Weak<Vec<u8>>) {
        let bytes = Arc::new(bytes);
        let memory = Arc::downgrade(&bytes);
        struct Shared(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        let frame = OneFrame(Some(Bytes::from_owner(Shared(bytes))));
        let min = MinRate { window: Duration::from_millis(1), bytes_per_second: 1 << 40 };
        let parts = TransportParts::new(PartsCost::Charged(vec![]), connection, min);
        (responses.add(Body::new(frame), parts), memory)
    }

    #[tokio::test]
    async fn a_response_that_is_read_arrives_whole() {
        let responses = UnreadResponses::default();
        for len in [1, PIECE_BYTES, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, 3 * FRAME_BYTES_MAX] {
            for connection in [None, Some(ConnectionCalls::default())] {
                let sent: Vec<_> = (0..len).map(|i| (i % 251) as u8).collect();
                let (mut body, memory) = response(&responses, connection, sent.clone());
                let mut received = Vec::new();
                while let Some(frame) = next(&mut body).await {
                    received.extend_from_slice(frame.data_ref().expect("no trailers"));
                }
                assert!(received == sent, "{len} bytes");
                responses.drop_idle(Duration::ZERO);
                assert!(memory.upgrade().is_none());
            }
        }
    }

    #[tokio::test]
    async fn a_response_that_nobody_reads_is_dropped_and_its_reader_is_told() {
        let responses = UnreadResponses::default();
        for begun in [false, true] {
            let connection = Some(ConnectionCalls::default());
            let (mut body, memory) = response(&responses, connection, vec![1; 3 * FRAME_BYTES_MAX]);
            // The transport holds a piece.
            let _piece = if begun { next(&mut body).await } else { None };
            assert!(memory.upgrade().is_some());
            tokio::time::sleep(Duration::from_millis(2)).await;
            responses.drop_idle(Duration::ZERO);
            assert!(memory.upgrade().is_none(), "kept, begun: {begun}");
            let told = next(&mut body).await.and_then(|frame| frame.into_trailers().ok());
            assert!(told.expect("trailers").contains_key("grpc-status"));
            assert!(next(&mut body).await.is_none());
        }
        assert_eq!(responses.bodies.lock().len(), 1, "responses that have ended are forgotten");
    }

    #[tokio::test]
    async fn a_stream_that_shares_its_connection_is_reset_while_the_transport_holds_a_part() {
        let responses = UnreadResponses::default();
        let (mut body, memory) = response(&responses, None, vec![1; 3 * FRAME_BYTES_MAX]);
        let piece = next(&mut body).await;
        let waits =
            poll_fn(|context| Poll::Ready(Pin::new(&mut body).poll_frame(context).is_pending()));
        assert!(waits.await, "the transport has a second piece");
        drop(piece);
        let piece = next(&mut body).await;
        let waiting = tokio::spawn(async move {
            poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        });
        tokio::time::sleep(Duration::from_millis(2)).await;
        responses.drop_idle(Duration::ZERO);
        assert!(memory.upgrade().is_none());
        let reset = waiting.await.expect("no panic").expect("the body does not end well");
        assert_eq!(reset.expect_err("a reset").code(), Code::DeadlineExceeded);
        drop(piece);
        // Without a part in the transport, the reader can be told.
        let (mut body, _memory) = response(&responses, None, vec![1; 3 * FRAME_BYTES_MAX]);
        tokio::time::sleep(Duration::from_millis(2)).await;
        responses.drop_idle(Duration::ZERO);
        let told = next(&mut body).await.and_then(|frame| frame.into_trailers().ok());
        assert!(told.expect("trailers").contains_key("grpc-status"));
    }
}
