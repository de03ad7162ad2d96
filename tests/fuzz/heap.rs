//! How much memory a decoder allocates on its thread.

#[path = "../common/counting_allocator.rs"]
mod counting_allocator;

use std::cell::Cell;

use counting_allocator::CountingAllocator;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static MEASURING: CountingAllocator = CountingAllocator(add);

fn add(bytes: isize) {
    // Fails while the thread ends.
    let _ended = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(now.get())));
    });
}

/// The most bytes that `call` held at a time on this thread, in addition to those of before.
pub fn peak_of(call: impl FnOnce()) -> usize {
    let before = NOW.get();
    PEAK.set(before);
    call();
    PEAK.get().abs_diff(before)
}
