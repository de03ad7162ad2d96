//! How much memory a decoder allocates on its thread.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct MeasuringAllocator;

// SAFETY: `System` allocates; only sizes are counted.
unsafe impl GlobalAlloc for MeasuringAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as isize - layout.size() as isize);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static MEASURING: MeasuringAllocator = MeasuringAllocator;

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
