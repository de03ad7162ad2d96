//! Messages of a call, decoded from the frames of an HTTP/2 body.
//!
//! tonic's decoder copies all frames into one buffer. Here, the `bytes` fields of a large message
//! share the memory of the frame that ends it, so a chunk that lies in one frame is not copied
//! until it reaches its payload (`benches/experiments/transport.md`). The server reads a chunk that
//! lies in several frames in pieces, so that it need not hold what has arrived. The client sends
//! the data of a chunk as a separate frame, so its uploads are copied neither when they are encoded
//! nor when they are decoded. The generated clients and servers still do the rest; the bodies pass
//! them in extensions of the request.

mod envelope;
mod pieces;

pub use self::pieces::ChunkedRequest;

use std::{future::poll_fn, marker::PhantomData, mem, pin::Pin};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as _;
use prost::Message;
use tonic::{Code, Status, body::Body};

/// Bytes of the compression flag and the length before each message.
const PREFIX_BYTES: usize = 5;
/// Smaller messages are copied: their fields must not keep the memory of a whole frame.
const SHARED_BYTES_MIN: usize = 16 << 10;
/// A message that begins with at least this much in earlier frames is joined: a field that lies in
/// two frames is copied anyway.
const JOINED_BYTES_MIN: usize = 64;

/// Reads the messages of a request or response. Holds the rest of one frame and a part of one
/// message at most; of large chunks that a server receives, only the frame.
pub struct MessageReader<M> {
    body: Body,
    /// The beginning of a message whose end has not arrived.
    begun: BytesMut,
    /// What follows in the last frame.
    frame: Bytes,
    /// Bytes of the next message, once its prefix has arrived.
    len: Option<usize>,
    /// Whether bytes of a message that lies in several frames were collected.
    is_collected: bool,
    /// The chunk of which some pieces have been read.
    chunk: Option<envelope::UnreadChunk>,
    len_max: usize,
    is_request: bool,
    message: PhantomData<fn() -> M>,
}

/// A message that [`MessageReader`] decodes: any generated one.
pub trait DecodedMessage: Message + Default + 'static {}

impl<M: Message + Default + 'static> DecodedMessage for M {}

impl<M> MessageReader<M> {
    /// Reads messages of at most `len_max` bytes from the body of a request. A request that its
    /// sender cancels ends.
    pub fn of_request(body: Body, len_max: usize) -> Self {
        Self { is_request: true, ..Self::of_response(body, len_max) }
    }

    /// Reads messages of at most `len_max` bytes from the body of a response.
    pub fn of_response(body: Body, len_max: usize) -> Self {
        let (begun, frame, len, message) = Default::default();
        Self {
            body,
            begun,
            frame,
            len,
            is_collected: false,
            chunk: None,
            len_max,
            is_request: false,
            message,
        }
    }
}

impl<M: DecodedMessage> MessageReader<M> {
    /// The next message; `None` at the end. If the future is dropped, no message is lost.
    ///
    /// Errors: `Internal` for bytes that are not a message; `OutOfRange` for a message that is too
    /// long; the status in the trailers of a response; those of the transport. After an error, the
    /// rest cannot be read.
    pub async fn message(&mut self) -> Result<Option<M>, Status> {
        self.admitted_message(|_| Ok(())).await
    }

    /// Like [`Self::message`], but calls `admit` with the message's length before bytes of it are
    /// collected from several frames.
    ///
    /// Errors: those of `admit`.
    pub async fn admitted_message(
        &mut self,
        admit: impl FnOnce(usize) -> Result<(), Status>,
    ) -> Result<Option<M>, Status> {
        self.read(Self::decode, admit).await
    }

    async fn read(
        &mut self,
        decode: fn(&mut Self) -> Result<Option<M>, Status>,
        admit: impl FnOnce(usize) -> Result<(), Status>,
    ) -> Result<Option<M>, Status> {
        let mut admit = Some(admit);
        loop {
            if let Some(message) = decode(self)? {
                return Ok(Some(message));
            }
            if let Some(len) = self.len.filter(|_| self.is_collected)
                && let Some(admit) = admit.take()
            {
                admit(len)?;
            }
            let frame = match poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await {
                None => return self.end(),
                Some(Ok(frame)) => frame,
                Some(Err(status)) if status.code() == Code::Cancelled && self.is_request => {
                    return Ok(None);
                }
                Some(Err(status)) => return Err(status),
            };
            match frame.into_data() {
                Ok(data) => self.frame = data,
                Err(other) => {
                    self.body = Body::empty();
                    let trailers = other.into_trailers().unwrap_or_default();
                    let status = Status::from_header_map(&trailers).filter(|_| !self.is_request);
                    if let Some(status) = status.filter(|status| status.code() != Code::Ok) {
                        return Err(status);
                    }
                }
            }
        }
    }

    /// Bytes of the next message that have arrived.
    pub fn begun_bytes(&self) -> u64 {
        self.begun.len() as u64
    }

    pub fn len_max(&self) -> usize {
        self.len_max
    }

    fn end(&self) -> Result<Option<M>, Status> {
        match self.len {
            None if self.begun.is_empty() && self.chunk.is_none() => Ok(None),
            _ => Err(Status::internal("the stream ended within a message")),
        }
    }

    /// Decodes the next message, or sets the frame aside if it does not end one.
    fn decode(&mut self) -> Result<Option<M>, Status> {
        let Some(len) = self.read_prefix()? else {
            self.begun.extend_from_slice(&mem::take(&mut self.frame));
            return Ok(None);
        };
        let missing = len - self.begun.len();
        if self.frame.len() < missing {
            self.begun.reserve(missing);
            self.begun.extend_from_slice(&mem::take(&mut self.frame));
            self.is_collected = true;
            return Ok(None);
        }
        (self.len, self.is_collected) = (None, false);
        let mut rest = self.frame.split_to(missing);
        let is_shared = rest.len() >= SHARED_BYTES_MIN && self.begun.len() < JOINED_BYTES_MIN;
        if !is_shared {
            self.begun.extend_from_slice(&mem::take(&mut rest));
        }
        super::check_lists::<M>([&self.begun, &rest]).map_err(super::input_status)?;
        let decoded = M::decode((&mut self.begun).chain(rest));
        decoded.map(Some).map_err(|error| Status::internal(error.to_string()))
    }

    /// The length of the next message; `None` if its prefix is incomplete.
    fn read_prefix(&mut self) -> Result<Option<usize>, Status> {
        let mut unread = (&mut self.begun).chain(&mut self.frame);
        if self.len.is_none() && unread.remaining() >= PREFIX_BYTES {
            let (is_compressed, len) = (unread.get_u8() != 0, unread.get_u32() as usize);
            if is_compressed {
                return Err(Status::unimplemented("a message is compressed"));
            }
            if len > self.len_max {
                let max = self.len_max;
                let problem = format!("a message of {len} bytes exceeds the limit of {max} bytes");
                return Err(Status::out_of_range(problem));
            }
            self.len = Some(len);
        }
        Ok(self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        task::{Context, Poll},
    };

    use http_body::Frame;
    use tonic::codegen::http::HeaderMap;

    use super::*;
    use crate::v1::{Chunk, PutRequest, VectorUpload, put_request::Message as Put};

    const LEN_MAX: usize = 1 << 20;

    struct Frames(VecDeque<Result<Frame<Bytes>, Status>>);

    impl http_body::Body for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    pub(super) fn reader(frames: impl IntoIterator<Item = Bytes>) -> MessageReader<PutRequest> {
        let frames = frames.into_iter().map(|data| Ok(Frame::data(data))).collect();
        MessageReader::of_request(Body::new(Frames(frames)), LEN_MAX)
    }

    pub(super) fn header() -> PutRequest {
        PutRequest { message: Some(Put::Vector(VectorUpload { count: 3, ..Default::default() })) }
    }

    pub(super) fn chunk(len: usize) -> PutRequest {
        let data = (0..len).map(|i| (i % 251) as u8).collect();
        PutRequest { message: Some(Put::Chunk(Chunk { offset: 7, data })) }
    }

    pub(super) fn encoded(messages: &[PutRequest]) -> Bytes {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.push(0);
            bytes.extend((message.encoded_len() as u32).to_be_bytes());
            message.encode(&mut bytes).unwrap();
        }
        bytes.into()
    }

    pub(super) fn data_of(message: PutRequest) -> Bytes {
        let Some(Put::Chunk(chunk)) = message.message else { panic!("no chunk") };
        chunk.data
    }

    #[tokio::test]
    async fn reads_the_same_messages_however_they_are_framed() {
        let messages = [header(), chunk(100_000), chunk(0), PutRequest::default(), chunk(20_000)];
        let bytes = encoded(&messages);
        for frame in [1, 3, 7, 4096, 70_000, 110_000, bytes.len()] {
            let starts = (0..bytes.len()).step_by(frame);
            let end = |start: usize| bytes.len().min(start + frame);
            let mut reader = reader(starts.map(|start| bytes.slice(start..end(start))));
            for message in &messages {
                assert_eq!(reader.message().await.unwrap().as_ref(), Some(message), "{frame}");
            }
            assert_eq!(reader.message().await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn a_chunk_in_one_frame_is_not_copied_and_a_small_one_does_not_keep_its_frame() {
        let (large, small) = (encoded(&[chunk(30_000)]), encoded(&[chunk(9)]));
        let data = |frame: &Bytes, len| frame[frame.len() - len..].as_ptr();
        let envelope = large.len() - 30_000;
        let split = [large.slice(..envelope), large.slice(envelope..), small.clone()];
        let mut reader = reader([large.clone()].into_iter().chain(split));
        for _ in 0..2 {
            let chunk = data_of(reader.message().await.unwrap().unwrap());
            assert_eq!((chunk.as_ptr(), chunk.len()), (data(&large, 30_000), 30_000));
        }
        let chunk = data_of(reader.message().await.unwrap().unwrap());
        assert_ne!(chunk.as_ptr(), data(&small, 9));
    }

    #[tokio::test]
    async fn refuses_what_is_no_message() {
        let whole = encoded(&[chunk(100)]);
        let too_long = [&[0][..], &(LEN_MAX as u32 + 1).to_be_bytes()].concat();
        let rows = [
            (Bytes::from_static(&[1, 0, 0, 0, 0]), Code::Unimplemented),
            (Bytes::from_static(&[0, 0, 0, 0, 1, 0xff]), Code::Internal),
            (too_long.into(), Code::OutOfRange),
            (whole.slice(..4), Code::Internal),
            (whole.slice(..50), Code::Internal),
        ];
        for (bytes, code) in rows {
            assert_eq!(reader([bytes]).message().await.unwrap_err().code(), code);
        }
    }

    #[tokio::test]
    async fn a_cancelled_request_ends_and_a_cancelled_response_fails() {
        let body = || Body::new(Frames([Err(Status::cancelled(""))].into()));
        let mut request = MessageReader::<PutRequest>::of_request(body(), LEN_MAX);
        assert_eq!(request.message().await.unwrap(), None);
        let mut response = MessageReader::<PutRequest>::of_response(body(), LEN_MAX);
        assert_eq!(response.message().await.unwrap_err().code(), Code::Cancelled);
    }

    #[tokio::test]
    async fn a_status_in_the_trailers_is_an_error_unless_it_is_ok() {
        for code in ["0", "5"] {
            let trailers =
                HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())]);
            let frames = [Ok(Frame::data(encoded(&[chunk(1)]))), Ok(Frame::trailers(trailers))];
            let body = Body::new(Frames(frames.into()));
            let mut reader = MessageReader::<PutRequest>::of_response(body, LEN_MAX);
            assert!(reader.message().await.unwrap().is_some());
            let end = reader.message().await;
            assert_eq!(
                end.err().map(|status| status.code()),
                (code == "5").then_some(Code::NotFound)
            );
        }
    }
}
