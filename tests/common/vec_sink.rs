//! Keeps a result in memory.

use std::sync::Mutex;

use capstan::{
    buffer::{ByteSink, ByteSource},
    error::Result,
};

pub struct VecSink(Mutex<Vec<u8>>);

impl VecSink {
    pub fn new(length: usize) -> Self {
        Self(Mutex::new(vec![0; length]))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

impl ByteSource for VecSink {
    fn read(&self, at: u64, out: &mut [u8]) {
        out.copy_from_slice(&self.0.lock().unwrap()[at as usize..][..out.len()]);
    }

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for VecSink {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.0.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
