//! Chunks in pieces. A chunk whose end has not arrived is not collected: its bytes are passed on as
//! they arrive, so that they wait in the memory of their payload, which is admitted.

use std::mem;

use bytes::Buf;
use tonic::Status;

use super::{
    super::v1,
    DecodedMessage, MessageReader, SHARED_BYTES_MIN,
    envelope::{ENVELOPE_BYTES_MAX, Envelope, read_envelope},
};

/// A message of a streamed request, which may hold a chunk.
pub trait ChunkedRequest: DecodedMessage {
    /// Where a chunk's data lies in the message: the number of the field of each level.
    const DATA_PATH: &'static [u32];

    /// The message that holds `chunk`, for the input with this index if the message names one.
    fn of_chunk(input: u32, chunk: v1::Chunk) -> Self;
}

impl ChunkedRequest for v1::PutRequest {
    const DATA_PATH: &'static [u32] = &[3, 2];

    fn of_chunk(_: u32, chunk: v1::Chunk) -> Self {
        Self { message: Some(v1::put_request::Message::Chunk(chunk)) }
    }
}

impl ChunkedRequest for v1::MsmStreamRequest {
    const DATA_PATH: &'static [u32] = &[2, 2];

    fn of_chunk(_: u32, chunk: v1::Chunk) -> Self {
        Self { message: Some(v1::msm_stream_request::Message::Chunk(chunk)) }
    }
}

impl ChunkedRequest for v1::NttStreamRequest {
    const DATA_PATH: &'static [u32] = &[2, 2];

    fn of_chunk(_: u32, chunk: v1::Chunk) -> Self {
        Self { message: Some(v1::ntt_stream_request::Message::Chunk(chunk)) }
    }
}

impl ChunkedRequest for v1::RunRequest {
    const DATA_PATH: &'static [u32] = &[2, 2, 2];

    fn of_chunk(input: u32, chunk: v1::Chunk) -> Self {
        let chunk = v1::RunInputChunk { input, chunk: Some(chunk) };
        Self { message: Some(v1::run_request::Message::Chunk(chunk)) }
    }
}

impl<M: ChunkedRequest> MessageReader<M> {
    /// Like [`Self::admitted_message`], but a chunk that lies in several frames is returned in
    /// pieces, as several messages, and needs no `admit`.
    ///
    /// Errors: those of [`Self::admitted_message`].
    pub async fn piece(
        &mut self,
        admit: impl FnOnce(usize) -> Result<(), Status>,
    ) -> Result<Option<M>, Status> {
        self.read(Self::decode_piece, admit).await
    }

    /// Bytes of the last chunk that follow the piece that was returned.
    pub fn chunk_rest(&self) -> u64 {
        self.chunk.as_ref().map_or(0, |chunk| chunk.len as u64)
    }

    fn decode_piece(&mut self) -> Result<Option<M>, Status> {
        if self.chunk.is_none() && self.begin_chunk()? == Envelope::Incomplete {
            self.begun.extend_from_slice(&mem::take(&mut self.frame));
            return Ok(None);
        }
        let Some(chunk) = &mut self.chunk else { return self.decode() };
        if self.frame.is_empty() {
            return Ok(None);
        }
        let data = self.frame.split_to(chunk.len.min(self.frame.len()));
        let (input, piece) = (chunk.input, chunk.take(data));
        if chunk.len == 0 {
            self.chunk = None;
        }
        Ok(Some(M::of_chunk(input, piece)))
    }

    /// Skips the envelope of a large chunk whose end has not arrived.
    fn begin_chunk(&mut self) -> Result<Envelope, Status> {
        let Some(len) = self.read_prefix()? else { return Ok(Envelope::Other) };
        let begun = self.begun.len();
        let is_whole = begun + self.frame.len() >= len;
        if is_whole || len < SHARED_BYTES_MIN || begun >= ENVELOPE_BYTES_MAX {
            return Ok(Envelope::Other);
        }
        let mut head = [0; ENVELOPE_BYTES_MAX];
        let arrived = ENVELOPE_BYTES_MAX.min(begun + self.frame.len());
        head[..begun].copy_from_slice(&self.begun);
        head[begun..arrived].copy_from_slice(&self.frame[..arrived - begun]);
        let envelope = read_envelope(M::DATA_PATH, &head[..arrived], len);
        match envelope {
            Envelope::Whole { data_start, ref chunk } => {
                self.frame.advance(data_start - begun);
                self.begun.clear();
                (self.len, self.chunk) = (None, Some(*chunk));
            }
            // No encoder writes so long an envelope.
            Envelope::Incomplete if arrived == ENVELOPE_BYTES_MAX => return Ok(Envelope::Other),
            _ => {}
        }
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::*, *};

    /// Reads all messages, and joins the pieces of chunks.
    async fn join(mut reader: MessageReader<v1::PutRequest>) -> Vec<v1::PutRequest> {
        use v1::put_request::Message::Chunk;
        let mut messages = Vec::<v1::PutRequest>::new();
        let mut rest = 0;
        let admit = |len| {
            assert!(len < SHARED_BYTES_MIN, "a large chunk is collected");
            Ok(())
        };
        while let Some(message) = reader.piece(admit).await.unwrap() {
            match (message.message, messages.last_mut().and_then(|last| last.message.as_mut())) {
                (Some(Chunk(piece)), Some(Chunk(chunk))) if rest > 0 => {
                    assert_eq!(piece.offset, chunk.offset + chunk.data.len() as u64);
                    assert_eq!(rest, piece.data.len() as u64 + reader.chunk_rest());
                    chunk.data = [&chunk.data[..], &piece.data].concat().into();
                }
                (message, _) => messages.push(v1::PutRequest { message }),
            }
            rest = reader.chunk_rest();
        }
        messages
    }

    #[tokio::test]
    async fn the_pieces_of_chunks_join_to_the_messages_however_they_are_framed() {
        let messages = [header(), chunk(50_000), chunk(0), v1::PutRequest::default(), chunk(5000)];
        let bytes = encoded(&messages);
        for frame in [1, 3, 7, 100, 4096, 49_000, 60_000, bytes.len()] {
            let starts = (0..bytes.len()).step_by(frame);
            let end = |start: usize| bytes.len().min(start + frame);
            let reader = reader(starts.map(|start| bytes.slice(start..end(start))));
            assert!(join(reader).await == messages, "frames of {frame} bytes");
        }
    }

    #[tokio::test]
    async fn pieces_share_the_memory_of_their_frames() {
        let large = encoded(&[chunk(30_000)]);
        let data = large.len() - 30_000;
        let frames = [large.slice(..data), large.slice(data..20_000), large.slice(20_000..)];
        let mut reader = reader(frames.clone());
        for frame in &frames[1..] {
            let piece = data_of(reader.piece(|_| panic!("is collected")).await.unwrap().unwrap());
            assert_eq!((piece.as_ptr(), piece.len()), (frame.as_ptr(), frame.len()));
        }
        assert_eq!((reader.chunk_rest(), reader.piece(|_| Ok(())).await.unwrap()), (0, None));
    }

    #[tokio::test]
    async fn a_large_message_of_another_form_is_collected_if_it_is_admitted() {
        // A field that nobody knows precedes the chunk.
        let mut message = vec![0xf8, 0x7f, 1];
        message.extend_from_slice(&encoded(&[chunk(30_000)])[5..]);
        let prefix = [&[0][..], &(message.len() as u32).to_be_bytes()].concat();
        let bytes = bytes::Bytes::from([prefix, message].concat());
        let frames = || [bytes.slice(..20_000), bytes.slice(20_000..)];
        let mut admitted = 0;
        let admit = |len| {
            admitted = len;
            Ok(())
        };
        let message = reader(frames()).piece(admit).await.unwrap();
        assert_eq!((message, admitted), (Some(chunk(30_000)), bytes.len() - 5));
        let full = reader(frames()).piece(|_| Err(Status::resource_exhausted(""))).await;
        assert_eq!(full.unwrap_err().code(), tonic::Code::ResourceExhausted);
    }

    #[tokio::test]
    async fn a_stream_that_ends_within_a_chunk_fails() {
        let large = encoded(&[chunk(30_000)]);
        let mut reader = reader([large.slice(..20_000)]);
        let admit = |_| Ok(());
        assert!(reader.piece(admit).await.unwrap().is_some());
        assert_eq!(reader.piece(admit).await.unwrap_err().code(), tonic::Code::Internal);
    }
}
