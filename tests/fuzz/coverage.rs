//! Which code an input reaches, if the crate was built with `-C instrument-coverage`.

/// A counter counts as another one once it has been reached 2, 3, 4, 8, 16, 32 and 128 times.
#[cfg(coverage_guided)]
fn bucket(count: u64) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..8 => 8,
        8..16 => 16,
        16..32 => 32,
        32..128 => 64,
        _ => 128,
    }
}

/// What all inputs so far have reached.
#[derive(Default)]
pub struct Coverage {
    #[cfg(coverage_guided)]
    seen: Vec<u8>,
}

#[cfg(coverage_guided)]
impl Coverage {
    pub const IS_GUIDED: bool = true;

    pub fn begin(&mut self) {
        counters().fill(0);
    }

    /// Whether the code since [`Self::begin`] reached anything new.
    pub fn is_new(&mut self) -> bool {
        let counters = counters();
        self.seen.resize(counters.len(), 0);
        let mut is_new = false;
        for (seen, count) in self.seen.iter_mut().zip(counters.iter()) {
            let reached = bucket(*count);
            is_new |= reached & !*seen != 0;
            *seen |= reached;
        }
        is_new
    }

    /// The number of counters that were reached.
    pub fn reached(&self) -> usize {
        self.seen.iter().filter(|seen| **seen != 0).count()
    }
}

#[cfg(coverage_guided)]
fn counters() -> &'static mut [u64] {
    // Of LLVM's runtime for `-C instrument-coverage`.
    unsafe extern "C" {
        fn __llvm_profile_begin_counters() -> *mut u64;
        fn __llvm_profile_end_counters() -> *mut u64;
    }
    // SAFETY: the counters are one array of this program. Targets run one at a time; helper threads
    // that still count only change a count.
    unsafe {
        let (begin, end) = (__llvm_profile_begin_counters(), __llvm_profile_end_counters());
        std::slice::from_raw_parts_mut(begin, end.offset_from(begin) as usize)
    }
}

#[cfg(not(coverage_guided))]
impl Coverage {
    pub const IS_GUIDED: bool = false;

    pub fn begin(&mut self) {}

    pub fn is_new(&mut self) -> bool {
        false
    }

    pub fn reached(&self) -> usize {
        0
    }
}
