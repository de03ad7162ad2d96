//! Limits the header block of a request. The transport holds the frames of a block until the last
//! one has arrived, also those of a peer that is not authenticated.

/// Bytes of a block, encoded: twice what its fields may take once they are decoded.
const BLOCK_BYTES_MAX: u32 = 32 << 10;

/// Bytes of the head of a frame (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;

/// Types of frames that hold a header block, and the flag of the last one.
const HEADERS: u8 = 1;
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
}

impl HeaderBlockLimit {
    /// Notes what was received, after the preface. False if a block is too large.
    pub fn accepts(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.rest_bytes.min(bytes.len());
            self.rest_bytes -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return true;
            }
            let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head_bytes));
            self.head[self.head_bytes..][..head.len()].copy_from_slice(head);
            self.head_bytes += head.len();
            bytes = rest;
            if self.head_bytes < HEAD_BYTES {
                return true;
            }
            self.head_bytes = 0;
            if !self.begin_frame() {
                return false;
            }
        }
    }

    fn begin_frame(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.rest_bytes = length as usize;
        match kind {
            HEADERS => self.block_bytes = length,
            CONTINUATION => self.block_bytes = self.block_bytes.saturating_add(length),
            _ => return true,
        }
        let is_accepted = self.block_bytes <= BLOCK_BYTES_MAX;
        if flags & END_HEADERS != 0 {
            self.block_bytes = 0;
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
                let accepts = sent.chunks(piece).all(|bytes| limit.accepts(bytes));
                assert_eq!(accepts, accepted, "{} frames in pieces of {piece}", frames.len());
            }
        }
    }

    #[test]
    fn a_block_is_refused_at_the_head_of_the_frame_that_makes_it_too_large() {
        let mut limit = HeaderBlockLimit::default();
        assert!(limit.accepts(&frame(HEADERS, 0, BLOCK_BYTES_MAX as usize)));
        assert!(!limit.accepts(&frame(CONTINUATION, 0, 1)[..HEAD_BYTES]));
    }
}
