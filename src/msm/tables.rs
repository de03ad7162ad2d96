//! Tables of multiples of bases: `kernels/msm/tables.cu`.

use crate::{
    curve::Group,
    device::{Block, Context, Fault, Kernel, Module, Ptr, Span, Stream, Unusable},
};

/// Points that share an inversion: it is worth two doublings, and a point takes some twenty.
const CHAIN: u32 = 16;
/// Elements of shared memory a thread.
const SHARED_ELEMENTS: u32 = 6;
/// Elements that a thread keeps in scratch, a point.
const KEPT: u64 = 2;

/// out, in, scratch, n, doublings, chain.
type NextTable = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, u32, u32, u32)>;

/// Makes tables.
pub struct Tables {
    g1: NextTable,
    g2: NextTable,
    units: u32,
}

/// Where tables lie: one after the other, the first of them the bases themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout<'a> {
    /// The group of the points.
    pub group: Group,
    /// Points of a table.
    pub points: u32,
    /// Points from one table's start to the next one's, `points` at least.
    pub stride: usize,
    /// Table t holds 2^(offsets[t]) times the bases. Offsets grow, and the first is 0.
    pub offsets: &'a [u32],
}

impl Layout<'_> {
    /// Bytes from the first table's start to the last one's end.
    pub fn bytes(&self) -> usize {
        let before = self.offsets.len().saturating_sub(1) * self.stride;
        (before + self.points as usize) * self.group.affine_bytes()
    }
}

/// Threads of a block and blocks of a multiprocessor.
const fn shape(group: Group) -> (u32, u32) {
    match group {
        Group::G1 => (128, 4),
        Group::G2 => (64, 4),
    }
}

impl Tables {
    /// Loads the kernels.
    pub fn load(context: &Context) -> Result<Self, Unusable> {
        let index = context.identity().index;
        let module = Module::load(context, "msm/tables")?;
        let kernel = |group: Group| {
            let threads = shape(group).0;
            let shared_bytes = SHARED_ELEMENTS * group.coordinate_bytes() as u32 * threads;
            module
                .kernel(&format!("{}_next_table", group.name()), Block { threads, shared_bytes })
                .map_err(|fault| Unusable::Device { index, fault })
        };
        let units = context.identity().units;
        Ok(Self { g1: kernel(Group::G1)?, g2: kernel(Group::G2)?, units })
    }

    fn grid(&self, group: Group, points: u32) -> u32 {
        let (threads, blocks) = shape(group);
        points.div_ceil(threads).min(self.units * blocks)
    }

    /// Bytes of scratch for tables of `points` points: 104 MB on an H200 for many.
    pub fn scratch_bytes(&self, group: Group, points: u32) -> u64 {
        let threads = u64::from(self.grid(group, points) * shape(group).0);
        KEPT * threads * u64::from(CHAIN) * group.coordinate_bytes() as u64
    }

    /// Fills table 1 and all after it, each from the one before: a launch each.
    ///
    /// Shape: `tables` has [`Layout::bytes`], with the bases at its start, affine, canonical,
    /// infinity zeros; so are the tables. `scratch` has [`Tables::scratch_bytes`], which may hold
    /// anything. Both begin at multiples of 16 bytes. Time: the doublings of all points at some
    /// 4 G/s on an H200 in G1.
    /// Errors: `Kernel` where a span is too short; what the driver says.
    pub fn run(
        &self,
        stream: &Stream,
        layout: &Layout<'_>,
        tables: Span<'_, u8>,
        scratch: Span<'_, u8>,
    ) -> Result<(), Fault> {
        let Layout { group, points, stride, offsets } = *layout;
        let (kernel, name) = match group {
            Group::G1 => (&self.g1, "g1_next_table"),
            Group::G2 => (&self.g2, "g2_next_table"),
        };
        let short = || Fault::Kernel {
            kernel: name.to_owned(),
            problem: "tables or scratch are shorter than their layout".to_owned(),
        };
        let width = group.affine_bytes();
        let table =
            |t: usize| tables.part(t * stride * width, points as usize * width).ok_or_else(short);
        let scratch_bytes = self.scratch_bytes(group, points) as usize;
        let scratch = scratch.part(0, scratch_bytes).ok_or_else(short)?;
        for (t, pair) in offsets.windows(2).enumerate() {
            let doublings = pair[1] - pair[0];
            let given = (table(t + 1)?, table(t)?, scratch, points, doublings, CHAIN);
            kernel.launch(stream, self.grid(group, points), given)?;
        }
        Ok(())
    }
}
