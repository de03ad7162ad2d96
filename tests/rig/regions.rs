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
        self.memory.bytes_mut()[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        &self.memory.bytes()[offset..][..len]
    }

    pub fn vector(&self, offset: u64, encoding: v1::ScalarEncoding) -> v1::RegionVector {
        let (region_id, encoding) = (self.id.clone(), encoding as i32);
        v1::RegionVector { region_id, offset, encoding }
    }
}
