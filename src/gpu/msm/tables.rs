//! Tables of precomputed multiples of bases: `kernels/msm/tables.cu`.

use crate::{
    curve::Group,
    device::{
        BlockShape, DeviceContext, DeviceFault, DeviceLimits, DevicePtr, DeviceSlice,
        GpuUnavailable, Kernel, KernelModule, Stream,
    },
    msm::launch::{PerGroup, kernel_fault},
};

/// The most multiples of a point that share an inversion; each has a bit of a word. The inversion
/// costs as much as 32 doublings, and each multiple adds about one to its own doublings, of which
/// fixed windows have about twenty and sliding windows one.
const CHAIN_MAX: usize = 31;
/// Elements of shared memory per thread.
const SHARED_ELEMENTS: u32 = 6;

/// Parameters: tables, scratch, n, stride, count, doublings, short_doublings, short_mask, adds.
type MakeTablesKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u32, u32)>;

pub struct TableBuilder {
    kernels: PerGroup<MakeTablesKernel>,
    limits: DeviceLimits,
}

/// The layout of tables in memory: one after the other, starting with the bases themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLayout<'a> {
    pub group: Group,
    pub points: u32,
    /// Points from one table's start to the next one's; at least `points`.
    pub stride: usize,
    /// Table t holds `factor^t 2^offsets[t]` times the bases. Offsets start at 0 and never fall.
    pub offsets: &'a [u32],
    /// 1 for powers of two. Other factors should be small: after the leading bit, each bit costs a
    /// doubling and each set bit an addition, for each point of each table.
    pub factor: u32,
}

impl TableLayout<'_> {
    /// Bytes from the first table's start to the last one's end.
    pub fn bytes(&self) -> usize {
        let last_start = self.offsets.len().saturating_sub(1) * self.stride;
        (last_start + self.points as usize) * self.group.affine_bytes()
    }
}

pub(super) fn kernel_name(group: Group) -> String {
    format!("{}_tables", group.name())
}

fn block(group: Group) -> BlockShape {
    let threads = PerGroup { g1: 128, g2: 64 }.of(group);
    let shared_bytes = SHARED_ELEMENTS * group.coordinate_bytes() as u32 * threads;
    BlockShape { threads, shared_bytes }
}

/// Resident blocks of the device; registers allow four per multiprocessor.
fn blocks(group: Group, limits: &DeviceLimits) -> u32 {
    limits.multiprocessors * limits.resident_blocks(block(group)).clamp(1, 4)
}

fn grid(group: Group, points: u32, limits: &DeviceLimits) -> u32 {
    points.div_ceil(block(group).threads).min(blocks(group, limits))
}

/// Bytes of scratch for tables of `points` points.
pub fn scratch_bytes(group: Group, points: u32, limits: &DeviceLimits) -> u64 {
    let threads = u64::from(grid(group, points, limits) * block(group).threads);
    threads * CHAIN_MAX as u64 * group.coordinate_bytes() as u64
}

impl TableBuilder {
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let index = context.identity().index;
        let module = KernelModule::load(context, "msm/tables")?;
        let kernels = PerGroup::load(|group| module.kernel(&kernel_name(group), block(group)));
        let kernels = kernels.map_err(|fault| GpuUnavailable::Device { index, fault })?;
        Ok(Self { kernels, limits: context.identity().limits })
    }

    pub fn scratch_bytes(&self, group: Group, points: u32) -> u64 {
        scratch_bytes(group, points, &self.limits)
    }

    /// Fills table 1 and all later ones. One launch builds consecutive tables with at most two
    /// different distances, for as many points as the device holds threads.
    ///
    /// Shape: `tables` has [`TableLayout::bytes`] and starts with the bases, affine, canonical,
    /// infinity as zeros; the other tables have the same form. With a factor above 1, the points
    /// must be in the subgroup of prime order: the multiples of points of small order may be wrong.
    /// `scratch` has [`TableBuilder::scratch_bytes`], with any contents. Both begin at multiples of
    /// 16 bytes. Time (rates: `benches/experiments/msm.md`): the doublings; for each point of each
    /// table one more, and up to 1.5 for an addition; and 32 for each point of each launch.
    ///
    /// Errors: `KernelMismatch` if a span is too short or the factor is 0; driver errors.
    pub fn run(
        &self,
        stream: &Stream,
        layout: &TableLayout<'_>,
        tables: DeviceSlice<'_, u8>,
        scratch: DeviceSlice<'_, u8>,
    ) -> Result<(), DeviceFault> {
        let TableLayout { group, points, stride, offsets, factor } = *layout;
        let kernel = self.kernels.get(group);
        let name = kernel_name(group);
        let short = || kernel_fault(&name, "tables or scratch are shorter than their layout");
        let factor_doublings =
            factor.checked_ilog2().ok_or_else(|| kernel_fault(&name, "the factor is 0"))?;
        // A bit is set if the kernel adds the point itself after a doubling. The lowest one belongs
        // to the first doubling: the bit reversal of the factor without its leading bit.
        let adds = factor.reverse_bits() >> factor.leading_zeros() >> 1;
        let width = group.affine_bytes();
        let scratch =
            scratch.slice(0, self.scratch_bytes(group, points) as usize).ok_or_else(short)?;
        let distances: Vec<u32> =
            offsets.windows(2).map(|pair| factor_doublings + pair[1] - pair[0]).collect();
        let points_max = blocks(group, &self.limits) * block(group).threads;
        let mut done = 0;
        while done < distances.len() {
            let TableChain { count, doublings, short_doublings, short_mask } =
                next_chain(&distances[done..]);
            for first in (0..points).step_by(points_max as usize) {
                let n = points_max.min(points - first);
                let begin = (done * stride + first as usize) * width;
                let bytes = (count as usize * stride + n as usize) * width;
                let tables = tables.slice(begin, bytes).ok_or_else(short)?;
                let stride = stride as u32;
                #[rustfmt::skip]
                let given = (
                    tables, scratch, n, stride, count, doublings, short_doublings, short_mask, adds,
                );
                kernel.launch(stream, grid(group, n, &self.limits), given)?;
            }
            done += count as usize;
        }
        Ok(())
    }
}

/// The tables that one launch builds, as the kernel takes them.
struct TableChain {
    count: u32,
    doublings: u32,
    short_doublings: u32,
    short_mask: u32,
}

/// The most tables that one launch can build, by each one's distance from the previous.
fn next_chain(distances: &[u32]) -> TableChain {
    let ends = |count: usize| {
        let own = distances[..count].iter().copied();
        (own.clone().min().unwrap_or(0), own.max().unwrap_or(0))
    };
    let has_two_distances = |&count: &usize| {
        let (shortest, longest) = ends(count);
        distances[..count].iter().all(|own| [shortest, longest].contains(own))
    };
    let count = (1..=distances.len().min(CHAIN_MAX)).take_while(has_two_distances).count();
    let (short_doublings, doublings) = ends(count);
    let short = (1..).zip(&distances[..count]).filter(|(_, own)| **own < doublings);
    let short_mask = short.fold(0, |mask, (table, _)| mask | 1 << table);
    TableChain { count: count as u32, doublings, short_doublings, short_mask }
}
