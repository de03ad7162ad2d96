//! Regions, opened and mapped by hand.

use std::{
    io::{self, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
};

use bytes::Bytes;
use capstan::{
    region::{SharedMemory, receive_descriptor, socket_path},
    wire::v1,
};
use tonic::{Status, transport::Channel};

use super::store;

/// A region that this process has mapped. Dropping it closes its connection.
pub struct TestRegion {
    pub id: Bytes,
    pub file: OwnedFd,
    pub memory: SharedMemory,
    pub connection: UnixStream,
}

pub async fn open(channel: &Channel, bytes: u64) -> Result<v1::OpenRegionResponse, Status> {
    let opened = store(channel).open_region(v1::OpenRegionRequest { bytes }).await;
    opened.map(tonic::Response::into_inner)
}

/// Sends `request` to the socket that hands out regions, and receives a descriptor.
pub fn ask(server: &Path, request: &[u8]) -> io::Result<(UnixStream, OwnedFd)> {
    let mut connection = UnixStream::connect(socket_path(server))?;
    connection.write_all(request)?;
    let file = receive_descriptor(&connection)?;
    Ok((connection, file))
}

pub fn map(server: &Path, opened: &v1::OpenRegionResponse) -> io::Result<TestRegion> {
    let (connection, file) = ask(server, &[&opened.region_id[..], &opened.token].concat())?;
    let memory = SharedMemory::map(file.try_clone()?, opened.bytes as usize)?;
    Ok(TestRegion { id: opened.region_id.clone(), file, memory, connection })
}

/// A region of at least `bytes` bytes.
pub async fn mapped(channel: &Channel, server: &Path, bytes: u64) -> TestRegion {
    let opened = open(channel, bytes).await.expect("within the limit");
    map(server, &opened).expect("a good token")
}

impl TestRegion {
    /// Writes `bytes` at `offset`, as the client.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.memory.write(offset, bytes);
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(offset, &mut bytes);
        bytes
    }

    pub fn vector(&self, offset: u64, encoding: v1::ScalarEncoding) -> v1::RegionVector {
        let (region_id, encoding) = (self.id.clone(), encoding as i32);
        v1::RegionVector { region_id, offset, encoding }
    }

    pub fn place(&self, offset: u64) -> v1::RegionPlace {
        v1::RegionPlace { region_id: self.id.clone(), offset }
    }

    /// A vector of `count` canonical elements, to be written during the call.
    pub fn upload(&self, offset: u64, count: u64) -> v1::RegionUpload {
        let encoding = v1::ScalarEncoding::Canonical as i32;
        v1::RegionUpload { region_id: self.id.clone(), offset, encoding, count }
    }
}

/// An NTT whose rows the client writes to a region in the parts `written`.
pub fn ntt(header: v1::NttStreamHeader, written: &[(u64, u64)]) -> Vec<v1::NttStreamRequest> {
    use v1::ntt_stream_request::Message;
    let parts = written.iter();
    let parts = parts.map(|(offset, length)| written_range(*offset, *length)).map(Message::Written);
    let messages = std::iter::once(Message::Header(header)).chain(parts);
    messages.map(|message| v1::NttStreamRequest { message: Some(message) }).collect()
}

/// An MSM whose scalars the client writes to a region in the parts `written`.
pub fn msm(header: v1::MsmStreamHeader, written: &[(u64, u64)]) -> Vec<v1::MsmStreamRequest> {
    use v1::msm_stream_request::Message;
    let parts = written.iter();
    let parts = parts.map(|(offset, length)| written_range(*offset, *length)).map(Message::Written);
    let messages = std::iter::once(Message::Header(header)).chain(parts);
    messages.map(|message| v1::MsmStreamRequest { message: Some(message) }).collect()
}

pub fn written_range(offset: u64, length: u64) -> v1::WrittenRange {
    v1::WrittenRange { offset, length }
}
