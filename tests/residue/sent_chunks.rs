//! Chunks for the transport, which outlive their payload.

use std::sync::Arc;

use capstan::{
    buffer::{RegionSlice, SharedRegion, UploadBuffer},
    curve::scalars::ScalarEncoding,
    region::SharedMemory,
};

use crate::{JobRunner, payload};

pub fn run(bench: &JobRunner) {
    let bytes = payload(ScalarEncoding::Montgomery);
    bench.assert_wiped("lent chunks", |counter| {
        let upload = bench.upload(&bytes, counter);
        let chunks = [upload.bytes(0, 9 * 32), upload.bytes(9 * 32, bytes.len() - 9 * 32)];
        drop(upload);
        bench.wait_until_freed();
        assert_eq!(counter.used(), 1, "the payload was freed");
        let is_equal = chunks[0] == bytes[..9 * 32] && chunks[1] == bytes[9 * 32..];
        assert!(is_equal);
    });
    bench.assert_wiped("copied chunks", |counter| {
        let memory = Arc::new(SharedMemory::create(2 << 20).expect("memory"));
        memory.write(0, &bytes);
        let permits = vec![counter.acquire(2).expect("within the limit")];
        let region = SharedRegion::new(memory, None, permits, bench.pool.wiper().clone());
        let slice = RegionSlice::new(Arc::new(region), 0, bytes.len() as u64).expect("inside");
        let upload = Arc::new(UploadBuffer::in_region(&bench.pool, slice));
        assert!(upload.bytes(0, bytes.len()) == bytes[..]);
    });
}
