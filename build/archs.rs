//! Which GPU architectures the kernels are compiled for.

/// A100; A10, RTX 3090; L4, RTX 4090; H100, H200; B200; RTX 5090.
pub const ALL: [u32; 6] = [80, 86, 89, 90, 100, 120];

/// Machine code for `of` is compiled from the PTX of `from`.
#[derive(Hash)]
pub struct SharedPtx {
    pub of: u32,
    pub from: u32,
}

/// The kernels do not distinguish these, and compiling them to PTX takes two thirds of the time.
/// sm_100 needs its PTX: with that of sm_90, `g1_tree_level` has 12 % more instructions.
pub const SHARED_PTX: [SharedPtx; 1] = [SharedPtx { of: 89, from: 86 }];

/// The kernels copy asynchronously to shared memory, which needs this.
const OLDEST: u32 = 80;

/// The architectures to build for on a host with GPUs of the compute capabilities `host`, such as
/// 89, if nvcc compiles for `known`: those that are new enough. `None` if no GPU qualifies or
/// nvcc does not support one: its driver needs the PTX of a build for [`ALL`].
pub fn of_host(host: &[u32], known: &[u32]) -> Option<Vec<u32>> {
    let mut wanted: Vec<_> = host.iter().copied().filter(|arch| *arch >= OLDEST).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let is_known = wanted.iter().all(|arch| known.contains(arch));
    (is_known && !wanted.is_empty()).then_some(wanted)
}

/// A list such as "80, 90", ascending. `None` if it is empty or holds anything but numbers.
pub fn parse(list: &str) -> Option<Vec<u32>> {
    let archs: Result<Vec<u32>, _> = list.split(',').map(|arch| arch.trim().parse()).collect();
    let mut archs = archs.ok()?;
    archs.sort_unstable();
    archs.dedup();
    Some(archs)
}
