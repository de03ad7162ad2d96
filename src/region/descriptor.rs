//! Passes a file descriptor over a Unix socket, together with one byte.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use rustix::net;

/// The byte that is sent with the descriptor.
const GRANTED: u8 = 1;

/// Sends `file`; fails like a write to the socket.
pub fn send_descriptor(socket: impl AsFd, file: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = net::SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    ancillary.push(net::SendAncillaryMessage::ScmRights(&files));
    let bytes = [io::IoSlice::new(&[GRANTED])];
    net::sendmsg(socket, &bytes, &mut ancillary, net::SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a descriptor; fails like a read from the socket, if it was closed instead, or if no
/// descriptor came.
pub fn receive_descriptor(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = net::RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [io::IoSliceMut::new(&mut byte)];
    let flags = net::RecvFlags::CMSG_CLOEXEC;
    if net::recvmsg(socket, &mut bytes, &mut ancillary, flags)?.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let file = ancillary.drain().find_map(|message| match message {
        net::RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    file.filter(|_| byte == [GRANTED]).ok_or(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_descriptor_crosses_a_socket() {
        let (server, client) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send_descriptor(&server, &OwnedFd::from(writer)).unwrap();
        let received = receive_descriptor(&client).unwrap();
        io::Write::write_all(&mut File::from(received), b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn a_closed_socket_and_a_bare_byte_are_refused() {
        let (server, client) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut &server, &[GRANTED]).unwrap();
        drop(server);
        for kind in [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof] {
            assert_eq!(receive_descriptor(&client).unwrap_err().kind(), kind);
        }
    }
}
