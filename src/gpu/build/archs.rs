//! Which GPU architectures the kernels are compiled for.

/// A100; A10, RTX 3090; L4, RTX 4090; H100, H200; B200; RTX 5090.
pub const ALL: [u32; 6] = [80, 86, 89, 90, 100, 120];

/// Groups of architectures that share one PTX: making PTX takes most of a build's time, so it is
/// made once, for the oldest of a group. sm_90 is alone: from its PTX, `g1_tree_level` would have
/// 12 % more instructions on sm_100.
pub const SAME_PTX: [&[u32]; 2] = [&[80, 86, 89], &[100, 120]];

/// The groups for [`COLD`] modules, whose speed does not depend on the PTX.
pub const SAME_PTX_COLD: [&[u32]; 2] = [&[80, 86, 89], &[90, 100, 120]];

/// Modules that run rarely and take long to compile.
pub const COLD: [&str; 4] = ["check/points", "msm/tables", "selftest", "selftest_curve"];

/// Modules that need PTX of each architecture, because they include `multiprocessor.cuh`.
pub const OWN_PTX: [&str; 1] = ["msm/sort"];

/// Architectures for which the same PTX gives the same machine code. The oldest one's runs on all.
pub const SAME_CODE: [u32; 2] = [86, 89];

/// The architectures of `archs` that need machine code of their own.
pub fn with_own_code(archs: &[u32]) -> impl Iterator<Item = u32> {
    let oldest = SAME_CODE.iter().find(|arch| archs.contains(arch));
    let has_own = move |arch: &u32| !SAME_CODE.contains(arch) || oldest == Some(arch);
    archs.iter().copied().filter(has_own)
}

/// The architecture whose PTX becomes the machine code of `arch` in a build of `module` for
/// `archs`.
pub fn ptx_of(module: &str, arch: u32, archs: &[u32]) -> u32 {
    let groups = if COLD.contains(&module) { SAME_PTX_COLD } else { SAME_PTX };
    let same = groups.iter().find(|group| group.contains(&arch) && !OWN_PTX.contains(&module));
    let oldest = same.and_then(|group| group.iter().find(|other| archs.contains(other)));
    oldest.copied().unwrap_or(arch)
}

/// The architectures to build `module` for, of those of a build, ascending: for kernels that only
/// tests and benchmarks launch, one of which we have GPUs, otherwise the newest.
pub fn of_module<'a>(module: &str, archs: &'a [u32]) -> &'a [u32] {
    if !module.starts_with("bench/") && !module.starts_with("test/") {
        return archs;
    }
    let place = archs.iter().position(|arch| *arch == MEASURED);
    let first = place.unwrap_or(archs.len().saturating_sub(1));
    archs.get(first..=first).unwrap_or_default()
}

/// H100 and H200, on which the tests of kernels and the benchmarks run.
const MEASURED: u32 = 90;

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
