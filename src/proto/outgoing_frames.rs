//! Encodes the messages of a request into the frames of an HTTP/2 body.
//!
//! tonic's encoder copies every message into its buffer. Here, the data of a chunk is a separate
//! frame, which shares the chunk's memory (`benches/experiments/transport.md`).

use bytes::{BufMut, Bytes};
use prost::Message;

use super::v1;

/// Less data than this is copied: a separate frame would cost more.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// A message of a streamed request.
pub trait ChunkMessage: Message {
    /// The chunk in this message, with the encoding of all that precedes its data; `None` for a
    /// header. The data is the end of the message.
    fn chunk(&self) -> Option<(Vec<u8>, &v1::Chunk)>;
}

/// One message: a frame, and the data that follows in another one.
pub struct OutgoingFrames {
    pub first: Bytes,
    pub data: Option<Bytes>,
}

impl OutgoingFrames {
    pub fn new(message: &impl ChunkMessage) -> Self {
        let chunk = message.chunk().filter(|(_, chunk)| chunk.data.len() >= SHARED_BYTES_MIN);
        let (first, data) = match chunk {
            Some((head, chunk)) => (head, Some(chunk.data.clone())),
            None => (message.encode_to_vec(), None),
        };
        let bytes = first.len() + data.as_ref().map_or(0, Bytes::len);
        let mut frame = Vec::with_capacity(5 + first.len());
        // Not compressed.
        frame.put_u8(0);
        frame.put_u32(u32::try_from(bytes).expect("messages are smaller than 4 GiB"));
        frame.extend(first);
        Self { first: frame.into(), data }
    }
}

/// A message field that ends with `data_bytes` bytes of data, without them: `before` are the fields
/// before it, `head` is its own beginning.
fn enclosed(mut before: Vec<u8>, tag: u8, head: &[u8], data_bytes: usize) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    before.put_u8(tag << 3 | LENGTH_DELIMITED);
    put_varint(&mut before, head.len() + data_bytes);
    before.extend(head);
    before
}

/// A field of an unsigned integer; nothing for 0.
fn unsigned(tag: u8, value: u64) -> Vec<u8> {
    let mut field = Vec::new();
    if value > 0 {
        field.put_u8(tag << 3);
        put_varint(&mut field, value as usize);
    }
    field
}

fn put_varint(out: &mut Vec<u8>, value: usize) {
    prost::encode_length_delimiter(value, out).expect("vectors grow");
}

fn chunk_head(chunk: &v1::Chunk) -> Vec<u8> {
    enclosed(unsigned(1, chunk.offset), 2, &[], chunk.data.len())
}

impl ChunkMessage for v1::PutRequest {
    fn chunk(&self) -> Option<(Vec<u8>, &v1::Chunk)> {
        let Some(v1::put_request::Message::Chunk(chunk)) = &self.message else { return None };
        Some((enclosed(Vec::new(), 3, &chunk_head(chunk), chunk.data.len()), chunk))
    }
}

impl ChunkMessage for v1::MsmStreamRequest {
    fn chunk(&self) -> Option<(Vec<u8>, &v1::Chunk)> {
        let Some(v1::msm_stream_request::Message::Chunk(chunk)) = &self.message else {
            return None;
        };
        Some((enclosed(Vec::new(), 2, &chunk_head(chunk), chunk.data.len()), chunk))
    }
}

impl ChunkMessage for v1::NttStreamRequest {
    fn chunk(&self) -> Option<(Vec<u8>, &v1::Chunk)> {
        let Some(v1::ntt_stream_request::Message::Chunk(chunk)) = &self.message else {
            return None;
        };
        Some((enclosed(Vec::new(), 2, &chunk_head(chunk), chunk.data.len()), chunk))
    }
}

impl ChunkMessage for v1::RunRequest {
    fn chunk(&self) -> Option<(Vec<u8>, &v1::Chunk)> {
        let Some(v1::run_request::Message::Chunk(piece)) = &self.message else { return None };
        let chunk = piece.chunk.as_ref()?;
        let bytes = chunk.data.len();
        let head = enclosed(unsigned(1, piece.input.into()), 2, &chunk_head(chunk), bytes);
        Some((enclosed(Vec::new(), 2, &head, bytes), chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &impl ChunkMessage) {
        let OutgoingFrames { first, data } = OutgoingFrames::new(message);
        let expected = message.encode_to_vec();
        let prefix = [&[0][..], &(expected.len() as u32).to_be_bytes()].concat();
        let sent = [&first[..], &data.unwrap_or_default()].concat();
        assert!(sent == [prefix, expected].concat(), "{} bytes", sent.len());
    }

    #[test]
    fn frames_are_the_encoded_message() {
        use v1::{msm_stream_request as msm, ntt_stream_request as ntt, put_request, run_request};
        check(&v1::PutRequest::default());
        let vector = v1::VectorUpload { count: 300, ..Default::default() };
        check(&v1::PutRequest { message: Some(put_request::Message::Vector(vector)) });
        check(&v1::RunRequest { message: Some(run_request::Message::Chunk(Default::default())) });
        for offset in [0, 1, 300, u64::MAX] {
            for len in [0, 1, SHARED_BYTES_MIN - 1, SHARED_BYTES_MIN, 300_000] {
                let chunk = v1::Chunk { offset, data: vec![7; len].into() };
                check(&v1::PutRequest {
                    message: Some(put_request::Message::Chunk(chunk.clone())),
                });
                check(&v1::MsmStreamRequest { message: Some(msm::Message::Chunk(chunk.clone())) });
                check(&v1::NttStreamRequest { message: Some(ntt::Message::Chunk(chunk.clone())) });
                for input in [0, 5, u32::MAX] {
                    let piece = v1::RunInputChunk { input, chunk: Some(chunk.clone()) };
                    check(&v1::RunRequest { message: Some(run_request::Message::Chunk(piece)) });
                }
            }
        }
    }

    #[test]
    fn large_data_is_not_copied() {
        let data = Bytes::from(vec![7; SHARED_BYTES_MIN]);
        let chunk = v1::Chunk { offset: 0, data: data.clone() };
        let message = v1::PutRequest { message: Some(v1::put_request::Message::Chunk(chunk)) };
        let sent = OutgoingFrames::new(&message).data.unwrap();
        assert_eq!(sent.as_ptr(), data.as_ptr());
    }
}
