//! The exact size of the heap in use: the resident set also depends on past peaks.

#[path = "../common/counting_allocator.rs"]
mod counting_allocator;

use std::sync::atomic::{AtomicIsize, Ordering};

use counting_allocator::CountingAllocator;

static BYTES: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator(add);

fn add(bytes: isize) {
    BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// Bytes that are allocated and not yet freed.
pub fn bytes() -> isize {
    BYTES.load(Ordering::Relaxed)
}
