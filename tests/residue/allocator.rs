//! An allocator that searches every freed block for markers.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    backtrace::Backtrace,
    cell::Cell,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

pub static ARMED: AtomicBool = AtomicBool::new(false);
pub static MARKERS: OnceLock<[[u64; 4]; 3]> = OnceLock::new();
pub static FOUND: Mutex<Option<String>> = Mutex::new(None);

thread_local! {
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

struct SearchingAllocator;

// SAFETY: `System` allocates; a block is read before it is freed, within its layout.
unsafe impl GlobalAlloc for SearchingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= 32 && block.cast::<u64>().is_aligned() && ARMED.load(Ordering::Relaxed)
        {
            // SAFETY: the block is live until `System.dealloc`, aligned to words, and of this size.
            // Reads are volatile, because they include words that were never written.
            search(layout.size(), |word| unsafe { block.cast::<u64>().add(word).read_volatile() });
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static SNIFFER: SearchingAllocator = SearchingAllocator;

fn search(bytes: usize, word: impl Fn(usize) -> u64) {
    let Some(markers) = MARKERS.get() else { return };
    let found = (0..=bytes / 8 - 4).find(|at| {
        let first = word(*at);
        markers.iter().any(|m| m[0] == first && (1..4).all(|i| word(at + i) == m[i]))
    });
    let Some(at) = found else { return };
    let reporting = REPORTING.try_with(|reporting| reporting.replace(true)).unwrap_or(true);
    if !reporting {
        let mut first = FOUND.lock().unwrap_or_else(|poison| poison.into_inner());
        first.get_or_insert_with(|| {
            format!("word {at} of {bytes} bytes\n{}", Backtrace::force_capture())
        });
        drop(first);
        REPORTING.with(|reporting| reporting.set(false));
    }
}
