//! Messages over a Unix socket, each with at most one file descriptor: a header of the length and
//! the number of descriptors, then the message in postcard's format.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net,
};
use serde::{Serialize, de::DeserializeOwned};

/// The length as 32 bits, and the number of descriptors.
const HEADER_BYTES: usize = 5;

/// A longer message is a fault of the sender: a program of the most steps takes a few megabytes.
const MESSAGE_BYTES_MAX: u32 = 256 << 20;

/// A message with the descriptor that came with it.
pub struct Received<T> {
    pub message: T,
    pub file: Option<OwnedFd>,
}

/// Sends a message; fails like a write to the socket.
pub fn send(
    mut socket: &UnixStream,
    message: &impl Serialize,
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut bytes = append(message, vec![0; HEADER_BYTES])?;
    let length = u32::try_from(bytes.len() - HEADER_BYTES).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4] = file.is_some().into();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = net::SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() {
        ancillary.push(net::SendAncillaryMessage::ScmRights(files));
    }
    let flags = net::SendFlags::NOSIGNAL;
    let sent = net::sendmsg(socket.as_fd(), &[IoSlice::new(&bytes)], &mut ancillary, flags)?;
    socket.write_all(&bytes[sent..])
}

/// Receives a message. Fails like a read: with "unexpected end of file" if the other side has
/// closed the socket, and with "would block" if no message begins within its read timeout.
pub fn receive<T: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<Received<T>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = net::RecvAncillaryBuffer::new(&mut space);
    let mut header = [0; HEADER_BYTES];
    let mut slices = [IoSliceMut::new(&mut header)];
    let flags = net::RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match net::recvmsg(socket.as_fd(), &mut slices, &mut ancillary, flags) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let file = ancillary.drain().find_map(|message| match message {
        net::RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    read_all(socket, &mut header[received..])?;
    let [l0, l1, l2, l3, files] = header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    if length > MESSAGE_BYTES_MAX || usize::from(files) != file.as_slice().len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    read_all(&mut socket, &mut bytes)?;
    Ok(Received { message: decode(&bytes)?, file })
}

/// Appends a message without its header.
pub fn append(message: &impl Serialize, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    postcard::to_extend(message, bytes).map_err(io::Error::other)
}

/// Decodes a message without its header.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

/// Whether a message or the end has arrived.
pub fn is_readable(socket: &UnixStream) -> bool {
    let polled = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&Timespec::default()));
    polled.is_ok_and(|ready| ready > 0)
}

/// Reads the rest of a message that has begun, whatever the socket's timeout is.
fn read_all(mut socket: impl Read, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error)
                if [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock]
                    .contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, pipe},
    };

    use super::*;
    use crate::{
        curve::Fr,
        field::Prime31,
        ops::{ConstantStep, DivideByLinearStep, Operation},
        program::{Constant, ValueId},
    };

    #[test]
    fn steps_have_a_short_form_that_is_not_text() {
        let (field, elements) = (Prime31::BabyBear.into(), vec![Constant::Word(7)]);
        let constant = Operation::from(ConstantStep { field, elements });
        let (input, point) = (ValueId(3), -Fr::from(5));
        let division = Operation::from(DivideByLinearStep { input, point });
        let [of_constant, of_division] =
            [&constant, &division].map(|step| append(step, Vec::new()).unwrap());
        // The kinds, the prime among the fields, a list of one word; a value and an element.
        assert_eq!(of_constant, [1, 1, 5, 1, 1, 7]);
        assert_eq!((of_division.len(), &of_division[..3]), (35, &[10, 3, 32][..]));
        assert_eq!(decode::<Operation>(&of_constant).unwrap(), constant);
        assert_eq!(decode::<Operation>(&of_division).unwrap(), division);
    }

    #[test]
    fn messages_keep_their_order_and_their_descriptors() {
        let (one, other) = UnixStream::pair().unwrap();
        let (reader, mut writer) = pipe().unwrap();
        let long = vec![7_u64; 100_000];
        let sender = std::thread::spawn(move || {
            send(&one, &"first", None).unwrap();
            send(&one, &"second", Some(reader.as_fd())).unwrap();
            send(&one, &long, None).unwrap();
        });
        let first = receive::<String>(&other).unwrap();
        assert_eq!((first.message.as_str(), first.file.is_none()), ("first", true));
        let second = receive::<String>(&other).unwrap();
        assert_eq!(second.message, "second");
        assert_eq!(receive::<Vec<u64>>(&other).unwrap().message, vec![7; 100_000]);
        sender.join().unwrap();
        writer.write_all(b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        File::from(second.file.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        let end = receive::<String>(&other).err().unwrap();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_wait_for_a_message_ends_with_the_timeout() {
        let (_one, other) = UnixStream::pair().unwrap();
        other.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
        assert_eq!(receive::<u8>(&other).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    }
}
