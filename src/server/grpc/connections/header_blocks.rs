//! Limits the header block of a request. The transport holds the frames of a block until the last
//! one has arrived, also those of a peer that is not authenticated.

/// Bytes of a block, encoded: twice what its fields may take once they are decoded.
const BLOCK_BYTES_MAX: u32 = 32 << 10;

/// Bytes of the head of a frame (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;

/// Types of frames that hold a header block, and the flag of the last one. A client that pushes
/// breaks the protocol.
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// What a peer has sent of a frame and of a header block.
#[derive(Debug, Default)]
pub struct HeaderBlockLimit {
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that have been received.
    head_bytes: usize,
    /// Bytes of the frame that follow its head, and have not been received.
    rest_bytes: usize,
    /// Bytes of the frames of a block that is not complete.
    block_bytes: u32,
    /// Whether the frame completes the header block of a call.
    completes_call: bool,
    /// The last stream of a client that has begun. Later blocks of a stream are trailers.
    last_stream: u32,
}

/// What received bytes contain.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceivedBlocks {
    /// No complete header block of a call.
    None,
    /// The header block of a call. The bytes that follow it are not noted.
    Call {
        /// Bytes up to the end of the block.
        end: usize,
    },
    /// A block is too large, or is one that clients do not send.
    TooLarge,
}

impl HeaderBlockLimit {
    /// Notes what was received, after the preface, up to the end of the next header block of a
    /// call.
    pub fn receive(&mut self, bytes: &[u8]) -> ReceivedBlocks {
        let mut noted = 0;
        loop {
            let skipped = self.rest_bytes.min(bytes.len() - noted);
            self.rest_bytes -= skipped;
            noted += skipped;
            if self.rest_bytes == 0 && std::mem::take(&mut self.completes_call) {
                return ReceivedBlocks::Call { end: noted };
            }
            if noted == bytes.len() {
                return ReceivedBlocks::None;
            }
            let head = &bytes[noted..bytes.len().min(noted + HEAD_BYTES - self.head_bytes)];
            self.head[self.head_bytes..][..head.len()].copy_from_slice(head);
            self.head_bytes += head.len();
            noted += head.len();
            if self.head_bytes == HEAD_BYTES {
                self.head_bytes = 0;
                if !self.begin_frame() {
                    return ReceivedBlocks::TooLarge;
                }
            }
        }
    }

    /// False if the frame's block is too large, or is one that clients do not send.
    fn begin_frame(&mut self) -> bool {
        let [high, middle, low, kind, flags, stream @ ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.rest_bytes = length as usize;
        match kind {
            HEADERS => self.block_bytes = length,
            CONTINUATION => self.block_bytes = self.block_bytes.saturating_add(length),
            PUSH_PROMISE => return false,
            _ => return true,
        }
        let is_accepted = self.block_bytes <= BLOCK_BYTES_MAX;
        if flags & END_HEADERS != 0 {
            self.block_bytes = 0;
            // The first bit is reserved: receivers ignore it, so a peer may set it.
            let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
            // The streams of clients are odd. h2 may refuse an even one without closing the
            // connection, and accepts odd ones below it afterwards.
            self.completes_call = stream % 2 == 1 && stream > self.last_stream;
            if self.completes_call {
                self.last_stream = stream;
            }
        }
        is_accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [_, length_bytes @ ..] = (length as u32).to_be_bytes();
        [&length_bytes[..], &[kind, flags, 0, 0, 0, 1], &vec![0xff; length]].concat()
    }

    fn accepts(limit: &mut HeaderBlockLimit, mut bytes: &[u8]) -> bool {
        loop {
            match limit.receive(bytes) {
                ReceivedBlocks::None => return true,
                ReceivedBlocks::Call { end } => bytes = &bytes[end..],
                ReceivedBlocks::TooLarge => return false,
            }
        }
    }

    #[test]
    fn the_block_of_each_call_ends_where_its_last_frame_ends() {
        let of_stream = |mut frame: Vec<u8>, stream| {
            frame[HEAD_BYTES - 1] = stream;
            frame
        };
        let first = of_stream(frame(HEADERS, END_HEADERS, 20), 1);
        let data = of_stream(frame(0, 0, 30), 1);
        let trailers = of_stream(frame(HEADERS, END_HEADERS, 5), 1);
        let begun = of_stream(frame(HEADERS, 0, 7), 3);
        let ended = of_stream(frame(CONTINUATION, END_HEADERS, 0), 3);
        let sent = [first, data, trailers, begun, ended, frame(6, 0, 8)].concat();
        for piece in [1, 8, 9, 10, sent.len()] {
            let mut limit = HeaderBlockLimit::default();
            let mut ends = Vec::new();
            let mut noted = 0;
            for bytes in sent.chunks(piece) {
                let mut rest = bytes;
                while let ReceivedBlocks::Call { end } = limit.receive(rest) {
                    ends.push(noted + bytes.len() - rest.len() + end);
                    rest = &rest[end..];
                }
                noted += bytes.len();
            }
            assert_eq!(ends, [29, 29 + 39 + 14 + 16 + 9], "pieces of {piece}");
        }
    }

    /// A complete block of 20 bytes.
    fn block_of_stream(stream: u32) -> Vec<u8> {
        let mut frame = frame(HEADERS, END_HEADERS, 20);
        frame[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&stream.to_be_bytes());
        frame
    }

    #[test]
    fn the_reserved_bit_of_a_stream_does_not_hide_later_calls() {
        let mut limit = HeaderBlockLimit::default();
        for stream in [1 << 31 | 1, 3, 1 << 31 | 5, 7] {
            assert_eq!(limit.receive(&block_of_stream(stream)), ReceivedBlocks::Call { end: 29 });
        }
        // The same stream without the bit: trailers.
        assert_eq!(limit.receive(&block_of_stream(5)), ReceivedBlocks::None);
    }

    #[test]
    fn an_even_stream_does_not_hide_later_calls() {
        let mut limit = HeaderBlockLimit::default();
        for stream in [(1 << 31) - 2, 0] {
            assert_eq!(limit.receive(&block_of_stream(stream)), ReceivedBlocks::None);
        }
        for stream in [1, 3] {
            assert_eq!(limit.receive(&block_of_stream(stream)), ReceivedBlocks::Call { end: 29 });
        }
    }

    #[test]
    fn blocks_are_limited_however_they_are_divided() {
        let max = BLOCK_BYTES_MAX as usize;
        let rows: [(bool, &[Vec<u8>]); 6] = [
            (true, &[frame(HEADERS, END_HEADERS, max), frame(HEADERS, END_HEADERS, max)]),
            (false, &[frame(HEADERS, END_HEADERS, max + 1)]),
            (true, &[frame(0, 0, 10 * max), frame(HEADERS, 0, max), frame(4, 0, 6)]),
            (false, &[frame(HEADERS, 0, max), frame(CONTINUATION, END_HEADERS, 1)]),
            (false, &[frame(HEADERS, 0, max / 2), frame(CONTINUATION, 0, max / 2 + 1)]),
            (
                true,
                &[
                    frame(HEADERS, 0, max / 2),
                    frame(CONTINUATION, END_HEADERS, max / 2),
                    frame(HEADERS, END_HEADERS, 7),
                ],
            ),
        ];
        for (accepted, frames) in rows {
            let sent = frames.concat();
            for piece in [1, 5, 8, 9, 10, 16_384, sent.len()] {
                let mut limit = HeaderBlockLimit::default();
                let accepts = sent.chunks(piece).all(|bytes| accepts(&mut limit, bytes));
                assert_eq!(accepts, accepted, "{} frames in pieces of {piece}", frames.len());
            }
        }
    }

    #[test]
    fn a_block_is_refused_at_the_head_of_the_frame_that_makes_it_too_large() {
        let mut limit = HeaderBlockLimit::default();
        assert!(accepts(&mut limit, &frame(HEADERS, 0, BLOCK_BYTES_MAX as usize)));
        assert!(!accepts(&mut limit, &frame(CONTINUATION, 0, 1)[..HEAD_BYTES]));
        let mut limit = HeaderBlockLimit::default();
        assert!(!accepts(&mut limit, &frame(PUSH_PROMISE, 0, 40)[..HEAD_BYTES]));
    }
}
