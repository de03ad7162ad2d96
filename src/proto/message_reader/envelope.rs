//! What precedes the data of a chunk in a message.

use super::super::v1;

/// More bytes than any encoder needs for it.
pub(super) const ENVELOPE_BYTES_MAX: usize = 64;

/// Levels of messages around the data of a chunk.
const LEVELS_MAX: usize = 3;

const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

/// A chunk of which not all bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnreadChunk {
    /// Index of the input that it belongs to, in messages that name one.
    pub input: u32,
    /// Where its unread bytes belong in the payload.
    pub offset: u64,
    /// Number of unread bytes.
    pub len: usize,
}

/// The beginning of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// The rest of the message, from byte `data_start` on, is the data of a chunk.
    Whole { data_start: usize, chunk: UnreadChunk },
    /// More bytes may tell.
    Incomplete,
    /// The message holds no chunk, or its fields have another order.
    Other,
}

/// Reads the beginning `head` of a message of `len` bytes, of which a chunk's data lies at
/// `data_path`: the number of the field of each level. At each level but the outermost, an integer
/// may precede that field, as its field number 1: the offset of the data, or the input.
pub(super) fn read_envelope(data_path: &[u32], head: &[u8], len: usize) -> Envelope {
    read_chunk(data_path, head, len).unwrap_or_else(|unreadable| unreadable)
}

fn read_chunk(data_path: &[u32], head: &[u8], len: usize) -> Result<Envelope, Envelope> {
    let mut unread = head;
    let mut integers = [0; LEVELS_MAX];
    for (level, number) in data_path.iter().enumerate() {
        let mut key = read_varint(&mut unread)?;
        if level > 0 && key == (1 << 3 | VARINT) {
            integers[level] = read_varint(&mut unread)?;
            key = read_varint(&mut unread)?;
        }
        let field_len = read_varint(&mut unread)?;
        let rest = len.saturating_sub(head.len() - unread.len()) as u64;
        if key != (u64::from(*number) << 3 | LENGTH_DELIMITED) || field_len != rest {
            return Err(Envelope::Other);
        }
    }
    let (input, offset) = match data_path.len() {
        LEVELS_MAX => (integers[1], integers[2]),
        _ => (0, integers[1]),
    };
    let input = u32::try_from(input).map_err(|_| Envelope::Other)?;
    let data_start = head.len() - unread.len();
    let chunk = UnreadChunk { input, offset, len: len - data_start };
    Ok(Envelope::Whole { data_start, chunk })
}

fn read_varint(unread: &mut &[u8]) -> Result<u64, Envelope> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = unread.split_first() else { return Err(Envelope::Incomplete) };
        *unread = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(Envelope::Other);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Envelope::Other)
}

impl UnreadChunk {
    /// The next bytes of the data, with their place.
    pub fn take(&mut self, data: bytes::Bytes) -> v1::Chunk {
        let chunk = v1::Chunk { offset: self.offset, data };
        self.len -= chunk.data.len();
        // The receiver refuses a chunk whose end overflows.
        self.offset = self.offset.saturating_add(chunk.data.len() as u64);
        chunk
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    const LEN: usize = 1000;

    fn run(input: u32, offset: u64) -> Vec<u8> {
        use v1::run_request::Message;
        let chunk = Some(v1::Chunk { offset, data: vec![7; LEN].into() });
        let message = Message::Chunk(v1::RunInputChunk { input, chunk });
        v1::RunRequest { message: Some(message) }.encode_to_vec()
    }

    fn put(offset: u64) -> Vec<u8> {
        use v1::put_request::Message;
        let chunk = v1::Chunk { offset, data: vec![7; LEN].into() };
        v1::PutRequest { message: Some(Message::Chunk(chunk)) }.encode_to_vec()
    }

    #[test]
    fn the_encoding_of_a_chunk_is_read_as_soon_as_its_data_begins() {
        for offset in [0, 1, 300, u64::MAX] {
            for input in [0, 5, u32::MAX] {
                let chunk = UnreadChunk { input, offset, len: LEN };
                check(&[2, 2, 2], &run(input, offset), chunk);
            }
            check(&[3, 2], &put(offset), UnreadChunk { input: 0, offset, len: LEN });
        }
    }

    fn check(path: &[u32], message: &[u8], chunk: UnreadChunk) {
        let data_start = message.len() - LEN;
        assert!(data_start <= ENVELOPE_BYTES_MAX);
        for end in 0..data_start {
            assert_eq!(read_envelope(path, &message[..end], message.len()), Envelope::Incomplete);
        }
        let read = read_envelope(path, &message[..data_start + 3], message.len());
        assert_eq!(read, Envelope::Whole { data_start, chunk });
    }

    #[test]
    fn what_is_not_a_chunk_up_to_the_end_of_the_message_is_left_to_the_decoder() {
        let other = |message: &[u8], len| {
            assert_eq!(read_envelope(&[3, 2], message, len), Envelope::Other, "{message:?}");
        };
        let whole = put(9);
        // A message that is longer or shorter than the chunk says; another field; a header.
        other(&whole, whole.len() + 1);
        other(&whole, whole.len() - 1);
        other(&[5 << 3 | 2, 10], 12);
        let header = v1::put_request::Message::Vector(v1::VectorUpload::default());
        let header = v1::PutRequest { message: Some(header) }.encode_to_vec();
        other(&header, header.len());
        // Data before the offset, and the offset twice.
        other(&[3 << 3 | 2, 8, 2 << 3 | 2, 4, 0, 0, 0, 0, 8, 1], 10);
        other(&[3 << 3 | 2, 10, 8, 1, 8, 1, 2 << 3 | 2, 4, 0, 0, 0, 0], 12);
        // Integers that are too long.
        other(&[0xff; 11], 100);
        other(&[3 << 3 | 2, 98, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], 100);
        // An input that is no index.
        let mut wide = run(5, 0);
        assert_eq!(wide[3..6], [1 << 3, 5, 2 << 3 | 2], "the place of the input");
        wide.splice(4..5, [0xff, 0xff, 0xff, 0xff, 0x7f]);
        wide[1] += 4;
        let read = read_envelope(&[2, 2, 2], &wide, wide.len());
        assert_eq!(read, Envelope::Other);
    }
}
