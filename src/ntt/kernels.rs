//! Loads the kernels of `kernels/ntt` for every tile of a pass.

use std::collections::HashMap;

use super::{
    Element, Pass, TransformLimits, Way,
    planner::{MERGED, MERGED_ROWS, MERGED_SPREAD},
};
use crate::device::{Block, Context, Fault, Kernel, Module, Ptr, Unusable};

/// Parameters: in, out, tables, rows, border, lg_block, lg_r, lg_c, lg_low, flags.
pub(super) type Columns = Kernel<(P, P, P, P, P, u32, u32, u32, u32, u32)>;
/// Parameters: in, out, tables, rows, lg_n, lg_r, lg_c, flags, count.
pub(super) type Rows = Kernel<(P, P, P, P, u32, u32, u32, u32, u64)>;
/// Parameters: in, out, tables, border, lg_n, lg_block, flags.
pub(super) type Merged = Kernel<(P, P, P, P, u32, u32, u32)>;
/// Parameters: in, out, tables, lg_n, flags.
pub(super) type MergedRows = Kernel<(P, P, P, u32, u32)>;
/// Parameters: from, to, count.
pub(super) type Copy = Kernel<(P, P, u64)>;

type P = Ptr<Element>;

/// The `flags` of the passes' kernels, as in `kernels/ntt/steps.cuh`.
pub(super) mod flag {
    pub const INVERSE: u32 = 1;
    pub const ROWS_FIRST: u32 = 2;
    pub const ROWS_LAST: u32 = 4;
    pub const WHOLE: u32 = 8;
    pub const CANONICAL: u32 = 16;
    pub const TURNED: u32 = 32;
    pub const PLAIN: u32 = 64;
    pub const DIVIDED: u32 = 128;
}

/// log2 of the granularity of the shared memory layout: `place` of tile.cuh.
const LG_TILE_MIN: u32 = 3;
/// The most threads per block, as the kernels are compiled.
const THREADS_MAX: u32 = 512;
/// Threads per block of the copy kernel.
pub(super) const THREADS: u32 = 128;

/// Pairs of lg_e and inter-pass twiddle multiples with columns' kernels.
const COLUMNS: [(u32, u32); 5] = [(1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];
/// Values of lg_e with rows' kernels.
const ROWS: [u32; 2] = [1, 2];

/// Tiles with specialised columns' kernels: `kernels/ntt/descend_shaped.cu`.
const SHAPED_COLUMNS: [Pass; 5] = [
    Pass { lg_r: 5, lg_c: 1, lg_e: 1, multiples: 2, fused: false },
    Pass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 1, fused: false },
    Pass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 2, fused: false },
    Pass { lg_r: 8, lg_c: 1, lg_e: 1, multiples: 2, fused: false },
    Pass { lg_r: 8, lg_c: 2, lg_e: 2, multiples: 2, fused: false },
];
/// Tiles with specialised rows' kernels.
const SHAPED_ROWS: [Pass; 5] = [
    Pass { lg_r: 5, lg_c: 1, lg_e: 1, multiples: 0, fused: false },
    Pass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 0, fused: false },
    Pass { lg_r: 8, lg_c: 0, lg_e: 1, multiples: 0, fused: false },
    Pass { lg_r: 8, lg_c: 0, lg_e: 2, multiples: 0, fused: false },
    Pass { lg_r: 10, lg_c: 0, lg_e: 2, multiples: 0, fused: false },
];
/// log2 of the row that is also specialised as a whole transform.
const LG_ALONE: u32 = 10;
/// One more tile with a rows' kernel, DIF only.
const SHAPED_SPREAD: Pass = Pass { lg_r: 8, lg_c: 1, lg_e: 2, multiples: 0, fused: false };

/// Kernels by way, lg_e, kept, lg_tile; specialised kernels by way and shape.
pub(super) struct Kernels {
    columns: HashMap<(Way, u32, u32, u32), Columns>,
    rows: HashMap<(Way, u32, u32), Rows>,
    shaped_columns: HashMap<(Way, Pass), Columns>,
    shaped_rows: HashMap<(Way, Pass), Rows>,
    merged: HashMap<(Way, Pass), Merged>,
    merged_rows: HashMap<(Way, Pass), MergedRows>,
    pub copy: Copy,
}

impl Kernels {
    pub fn load(context: &Context) -> Result<Self, Unusable> {
        let index = context.identity().index;
        let failed = |fault| Unusable::Device { index, fault };
        let TransformLimits { lg_tile_max, .. } = TransformLimits::of(&context.identity().limits);
        let blocks = |lg_e| blocks(lg_e, lg_tile_max);
        let (mut columns, mut rows) = (HashMap::new(), HashMap::new());
        for (way, name) in [(Way::Dif, "descend"), (Way::Dit, "ascend")] {
            let module = Module::load(context, &format!("ntt/{name}"))?;
            for (lg_e, kept) in COLUMNS {
                let name = format!("ntt_{name}_columns_e{lg_e}_b{kept}");
                for (lg_tile, block) in blocks(lg_e) {
                    let kernel = module.kernel(&name, block).map_err(failed)?;
                    columns.insert((way, lg_e, kept, lg_tile), kernel.starting_early());
                }
            }
            for lg_e in ROWS {
                let name = format!("ntt_{name}_rows_e{lg_e}");
                for (lg_tile, block) in blocks(lg_e) {
                    let kernel = module.kernel(&name, block).map_err(failed)?;
                    rows.insert((way, lg_e, lg_tile), kernel.starting_early());
                }
            }
        }
        let (shaped_columns, shaped_rows) = load_shaped(context)?;
        let (merged, merged_rows) = load_merged(context)?;
        let module = Module::load(context, "ntt/tables")?;
        let copy = module.kernel("ntt_copy", Block::of(THREADS)).map_err(failed)?;
        Ok(Self { columns, rows, shaped_columns, shaped_rows, merged, merged_rows, copy })
    }

    pub fn columns(&self, way: Way, pass: &Pass) -> Result<&Columns, Fault> {
        let any = || self.columns.get(&(way, pass.lg_e, pass.multiples, pass.lg_tile()));
        self.shaped_columns.get(&(way, *pass)).or_else(any).ok_or_else(|| missing(pass))
    }

    pub fn merged(&self, way: Way, pass: &Pass) -> Result<&Merged, Fault> {
        self.merged.get(&(way, *pass)).ok_or_else(|| missing(pass))
    }

    pub fn merged_rows(&self, way: Way, pass: &Pass) -> Result<&MergedRows, Fault> {
        self.merged_rows.get(&(way, *pass)).ok_or_else(|| missing(pass))
    }

    /// The kernel of a rows' pass; `alone` if it is a whole transform.
    pub fn rows(&self, way: Way, pass: &Pass, flags: u32, alone: bool) -> Result<&Rows, Fault> {
        // Specialised kernels ignore this flag: kernels.cuh.
        let ignored = match way {
            Way::Dif => flag::ROWS_FIRST,
            Way::Dit => flag::ROWS_LAST,
        };
        let is_shaped = !alone || (pass.lg_r == LG_ALONE && flags & ignored == 0);
        let any = || self.rows.get(&(way, pass.lg_e, pass.lg_tile()));
        let shaped = self.shaped_rows.get(&(way, *pass)).filter(|_| is_shaped);
        shaped.or_else(any).ok_or_else(|| missing(pass))
    }
}

type Shaped = (HashMap<(Way, Pass), Columns>, HashMap<(Way, Pass), Rows>);

fn load_shaped(context: &Context) -> Result<Shaped, Unusable> {
    let index = context.identity().index;
    let failed = |fault| Unusable::Device { index, fault };
    let (mut columns, mut rows) = (HashMap::new(), HashMap::new());
    for (way, name) in [(Way::Dif, "descend"), (Way::Dit, "ascend")] {
        let module = Module::load(context, &format!("ntt/{name}_shaped"))?;
        for pass in SHAPED_COLUMNS {
            let Pass { lg_r, lg_c, lg_e, multiples: kept, .. } = pass;
            let name = format!("ntt_{name}_columns_r{lg_r}_c{lg_c}_e{lg_e}_b{kept}");
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            columns.insert((way, pass), kernel.starting_early());
        }
        let spread = (way == Way::Dif).then_some(SHAPED_SPREAD);
        for pass in SHAPED_ROWS.into_iter().chain(spread) {
            let Pass { lg_r, lg_c, lg_e, .. } = pass;
            let name = format!("ntt_{name}_rows_r{lg_r}_c{lg_c}_e{lg_e}");
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            rows.insert((way, pass), kernel.starting_early());
        }
    }
    Ok((columns, rows))
}

type AllMerged = (HashMap<(Way, Pass), Merged>, HashMap<(Way, Pass), MergedRows>);

fn load_merged(context: &Context) -> Result<AllMerged, Unusable> {
    let index = context.identity().index;
    let failed = |fault| Unusable::Device { index, fault };
    let (mut merged, mut merged_rows) = (HashMap::new(), HashMap::new());
    for (way, name) in [(Way::Dif, "descend"), (Way::Dit, "ascend")] {
        let module = Module::load(context, &format!("ntt/{name}_merged"))?;
        for pass in MERGED {
            let Pass { lg_r, lg_c, multiples: kept, .. } = pass;
            let name = format!("ntt_{name}_merged_r{lg_r}_c{lg_c}_b{kept}");
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            merged.insert((way, pass), kernel.starting_early());
        }
        let spread = (way == Way::Dif).then_some(MERGED_SPREAD);
        for pass in MERGED_ROWS.into_iter().chain(spread) {
            let Pass { lg_r, lg_c, multiples: kept, .. } = pass;
            let name = format!("ntt_{name}_merged_r{lg_r}_c{lg_c}_l{kept}");
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            merged_rows.insert((way, pass), kernel.starting_early());
        }
    }
    Ok((merged, merged_rows))
}

fn block_of(pass: &Pass) -> Block {
    block(pass.lg_tile(), pass.lg_e)
}

fn block(lg_tile: u32, lg_e: u32) -> Block {
    let shared_bytes = (size_of::<Element>() as u32) << lg_tile.max(LG_TILE_MIN);
    Block { threads: 1 << (lg_tile - lg_e), shared_bytes }
}

/// Every tile for kernels with 2^lg_e elements per thread, and its block. Ascending: the last one
/// loaded sets the shared memory limit of a kernel.
fn blocks(lg_e: u32, lg_tile_max: u32) -> impl Iterator<Item = (u32, Block)> {
    let tiles = (lg_e..=lg_tile_max).map(move |lg_tile| (lg_tile, block(lg_tile, lg_e)));
    tiles.filter(|(_, block)| block.threads <= THREADS_MAX)
}

fn missing(pass: &Pass) -> Fault {
    Fault::KernelMismatch { kernel: "ntt".into(), problem: format!("no kernel for {pass:?}") }
}
