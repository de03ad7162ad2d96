//! The kernels of `kernels/ntt`, ready for every tile that a pass may have.

use std::collections::HashMap;

use super::{
    Element, Pass, TransformLimits, Way,
    planner::{MERGED, MERGED_ROWS, MERGED_SPREAD},
};
use crate::device::{Block, Context, Fault, Kernel, Module, Ptr, Unusable};

/// in, out, tables, rows, border, lg_block, lg_r, lg_c, lg_low, flags.
pub(super) type Columns = Kernel<(P, P, P, P, P, u32, u32, u32, u32, u32)>;
/// in, out, tables, rows, lg_n, lg_r, lg_c, flags, count.
pub(super) type Rows = Kernel<(P, P, P, P, u32, u32, u32, u32, u64)>;
/// in, out, tables, border, lg_n, lg_block, flags.
pub(super) type Merged = Kernel<(P, P, P, P, u32, u32, u32)>;
/// in, out, tables, lg_n, flags.
pub(super) type MergedRows = Kernel<(P, P, P, u32, u32)>;
/// from, to, count.
pub(super) type Copy = Kernel<(P, P, u64)>;

type P = Ptr<Element>;

/// `flags` of the passes' kernels, as `kernels/ntt/steps.cuh` numbers them.
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

/// log2 of the elements that shared memory is laid out for at a time: `place` of tile.cuh.
const LG_TILE_MIN: u32 = 3;
/// Threads of a block at most, as the kernels are compiled.
const THREADS_MAX: u32 = 512;
/// Threads of a block of the kernel that copies.
pub(super) const THREADS: u32 = 128;

/// Pairs of lg_e and kept multiples of borders that there are columns' kernels of.
const COLUMNS: [(u32, u32); 5] = [(1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];
/// The same of rows' kernels: lg_e.
const ROWS: [u32; 2] = [1, 2];

/// Tiles that there are columns' kernels of one shape for: `kernels/ntt/descend_shaped.cu`.
const SHAPED_COLUMNS: [Pass; 5] = [
    Pass { lg_r: 5, lg_c: 1, lg_e: 1, kept: 2, merged: false },
    Pass { lg_r: 6, lg_c: 2, lg_e: 2, kept: 1, merged: false },
    Pass { lg_r: 6, lg_c: 2, lg_e: 2, kept: 2, merged: false },
    Pass { lg_r: 8, lg_c: 1, lg_e: 1, kept: 2, merged: false },
    Pass { lg_r: 8, lg_c: 2, lg_e: 2, kept: 2, merged: false },
];
/// The same of rows' kernels.
const SHAPED_ROWS: [Pass; 5] = [
    Pass { lg_r: 5, lg_c: 1, lg_e: 1, kept: 0, merged: false },
    Pass { lg_r: 6, lg_c: 2, lg_e: 2, kept: 0, merged: false },
    Pass { lg_r: 8, lg_c: 0, lg_e: 1, kept: 0, merged: false },
    Pass { lg_r: 8, lg_c: 0, lg_e: 2, kept: 0, merged: false },
    Pass { lg_r: 10, lg_c: 0, lg_e: 2, kept: 0, merged: false },
];
/// log2 of the row that these take for a whole transform, too.
const LG_ALONE: u32 = 10;
/// One more, downward.
const SHAPED_SPREAD: Pass = Pass { lg_r: 8, lg_c: 1, lg_e: 2, kept: 0, merged: false };

/// The names of the kernels, by what they take.
mod name {
    use super::{Pass, Way};

    pub const fn of_way(way: Way) -> &'static str {
        match way {
            Way::Descend => "descend",
            Way::Ascend => "ascend",
        }
    }

    pub fn columns(way: Way, lg_e: u32, kept: u32) -> String {
        format!("ntt_{}_columns_e{lg_e}_b{kept}", of_way(way))
    }

    pub fn rows(way: Way, lg_e: u32) -> String {
        format!("ntt_{}_rows_e{lg_e}", of_way(way))
    }

    pub fn shaped_columns(way: Way, Pass { lg_r, lg_c, lg_e, kept, .. }: Pass) -> String {
        format!("ntt_{}_columns_r{lg_r}_c{lg_c}_e{lg_e}_b{kept}", of_way(way))
    }

    pub fn shaped_rows(way: Way, Pass { lg_r, lg_c, lg_e, .. }: Pass) -> String {
        format!("ntt_{}_rows_r{lg_r}_c{lg_c}_e{lg_e}", of_way(way))
    }

    pub fn merged(way: Way, Pass { lg_r, lg_c, kept, .. }: Pass) -> String {
        format!("ntt_{}_merged_r{lg_r}_c{lg_c}_b{kept}", of_way(way))
    }

    pub fn merged_rows(way: Way, Pass { lg_r, lg_c, kept, .. }: Pass) -> String {
        format!("ntt_{}_merged_r{lg_r}_c{lg_c}_l{kept}", of_way(way))
    }
}

/// The passes that there are rows' kernels of one shape for.
fn all_shaped_rows(way: Way) -> impl Iterator<Item = Pass> {
    SHAPED_ROWS.into_iter().chain((way == Way::Descend).then_some(SHAPED_SPREAD))
}

/// Whether a pass of rows may use a kernel of one shape. `alone`: it is a whole transform.
fn may_be_shaped(way: Way, pass: &Pass, flags: u32, alone: bool) -> bool {
    // What kernels of one shape heed: kernels.cuh.
    let unheeded = match way {
        Way::Descend => flag::ROWS_FIRST,
        Way::Ascend => flag::ROWS_LAST,
    };
    !alone || (pass.lg_r == LG_ALONE && flags & unheeded == 0)
}

/// The name of the kernel that [`Kernels`] has for a pass; `is_rows`: its blocks are its rows.
pub(super) fn name_of(way: Way, pass: &Pass, flags: u32, is_rows: bool, alone: bool) -> String {
    match (pass.merged, is_rows) {
        (true, true) => name::merged_rows(way, *pass),
        (true, false) => name::merged(way, *pass),
        (false, false) if SHAPED_COLUMNS.contains(pass) => name::shaped_columns(way, *pass),
        (false, false) => name::columns(way, pass.lg_e, pass.kept),
        (false, true) => {
            let found = all_shaped_rows(way).any(|shape| shape == *pass);
            match found && may_be_shaped(way, pass, flags, alone) {
                true => name::shaped_rows(way, *pass),
                false => name::rows(way, pass.lg_e),
            }
        }
    }
}

/// Kernels by way, lg_e, kept, lg_tile; those of one shape by way and shape.
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
        for way in [Way::Descend, Way::Ascend] {
            let module = Module::load(context, &format!("ntt/{}", name::of_way(way)))?;
            for (lg_e, kept) in COLUMNS {
                let name = name::columns(way, lg_e, kept);
                for (lg_tile, block) in blocks(lg_e) {
                    let kernel = module.kernel(&name, block).map_err(failed)?;
                    columns.insert((way, lg_e, kept, lg_tile), kernel.starting_early());
                }
            }
            for lg_e in ROWS {
                let name = name::rows(way, lg_e);
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
        let any = || self.columns.get(&(way, pass.lg_e, pass.kept, pass.lg_tile()));
        self.shaped_columns.get(&(way, *pass)).or_else(any).ok_or_else(|| missing(pass))
    }

    pub fn merged(&self, way: Way, pass: &Pass) -> Result<&Merged, Fault> {
        self.merged.get(&(way, *pass)).ok_or_else(|| missing(pass))
    }

    pub fn merged_rows(&self, way: Way, pass: &Pass) -> Result<&MergedRows, Fault> {
        self.merged_rows.get(&(way, *pass)).ok_or_else(|| missing(pass))
    }

    /// `alone`: the pass is a whole transform.
    pub fn rows(&self, way: Way, pass: &Pass, flags: u32, alone: bool) -> Result<&Rows, Fault> {
        let is_shaped = may_be_shaped(way, pass, flags, alone);
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
    for way in [Way::Descend, Way::Ascend] {
        let module = Module::load(context, &format!("ntt/{}_shaped", name::of_way(way)))?;
        for pass in SHAPED_COLUMNS {
            let name = name::shaped_columns(way, pass);
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            columns.insert((way, pass), kernel.starting_early());
        }
        for pass in all_shaped_rows(way) {
            let name = name::shaped_rows(way, pass);
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
    for way in [Way::Descend, Way::Ascend] {
        let module = Module::load(context, &format!("ntt/{}_merged", name::of_way(way)))?;
        for pass in MERGED {
            let name = name::merged(way, pass);
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            merged.insert((way, pass), kernel.starting_early());
        }
        let spread = (way == Way::Descend).then_some(MERGED_SPREAD);
        for pass in MERGED_ROWS.into_iter().chain(spread) {
            let name = name::merged_rows(way, pass);
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

/// Every tile of kernels with 2^lg_e elements a thread, and its block. Larger ones come later: the
/// last one says how much shared memory a kernel may be given.
fn blocks(lg_e: u32, lg_tile_max: u32) -> impl Iterator<Item = (u32, Block)> {
    let tiles = (lg_e..=lg_tile_max).map(move |lg_tile| (lg_tile, block(lg_tile, lg_e)));
    tiles.filter(|(_, block)| block.threads <= THREADS_MAX)
}

fn missing(pass: &Pass) -> Fault {
    Fault::Kernel { kernel: "ntt".into(), problem: format!("none for {pass:?}") }
}
