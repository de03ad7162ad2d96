//! Loads the kernels of `kernels/ntt` for every tile of a pass.

use std::collections::HashMap;

use super::{
    Decimation, DeviceFr, ElementPtr, NttLimits, NttPass,
    passes::{FUSED_COLUMNS, FUSED_DIF_ROWS, FUSED_ROWS},
};
use crate::device::{BlockShape, DeviceContext, DeviceFault, GpuUnavailable, Kernel, KernelModule};

/// Parameters: in, out, tables, rows, border, lg_block, lg_r, lg_c, lg_low, flags.
pub(super) type ColumnsKernel =
    Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, ElementPtr, u32, u32, u32, u32, u32)>;
/// Parameters: in, out, tables, rows, lg_n, lg_r, lg_c, flags, count.
pub(super) type RowsKernel =
    Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, u32, u32, u32, u32, u64)>;
/// Parameters: in, out, tables, border, lg_n, lg_block, flags.
pub(super) type FusedColumnsKernel =
    Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, u32, u32, u32)>;
/// Parameters: in, out, tables, lg_n, flags.
pub(super) type FusedRowsKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u32, u32)>;
/// Parameters: from, to, count.
pub(super) type CopyKernel = Kernel<(ElementPtr, ElementPtr, u64)>;

/// The `flags` of the passes' kernels, as in `kernels/ntt/steps.cuh`.
pub(super) mod flag {
    pub const INVERSE: u32 = 1;
    pub const ROWS_FIRST: u32 = 2;
    pub const ROWS_LAST: u32 = 4;
    pub const TOP_SCALED: u32 = 8;
    pub const CANONICAL: u32 = 16;
    pub const BIT_REVERSED: u32 = 32;
    pub const UNIT_TWIDDLES: u32 = 64;
    pub const DIVIDE_BY_N: u32 = 128;
}

/// log2 of the granularity of the shared memory layout: `place` of tile.cuh.
const LG_TILE_MIN: u32 = 3;
/// The most threads per block, as the kernels are compiled.
const THREADS_MAX: u32 = 512;
/// Threads per block of the copy kernel.
pub(super) const COPY_THREADS: u32 = 128;

/// Pairs of lg_e and inter-pass twiddle multiples with columns' kernels.
const COLUMNS: [(u32, u32); 5] = [(1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];
/// Values of lg_e with rows' kernels.
const ROWS: [u32; 2] = [1, 2];

/// Tiles with specialised columns' kernels: `kernels/ntt/dif_unrolled.cu`.
const SPECIALISED_COLUMNS: [NttPass; 5] = [
    NttPass { lg_r: 5, lg_c: 1, lg_e: 1, multiples: 2, fused: false },
    NttPass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 1, fused: false },
    NttPass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 2, fused: false },
    NttPass { lg_r: 8, lg_c: 1, lg_e: 1, multiples: 2, fused: false },
    NttPass { lg_r: 8, lg_c: 2, lg_e: 2, multiples: 2, fused: false },
];
/// Tiles with specialised rows' kernels.
const SPECIALISED_ROWS: [NttPass; 5] = [
    NttPass { lg_r: 5, lg_c: 1, lg_e: 1, multiples: 0, fused: false },
    NttPass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 0, fused: false },
    NttPass { lg_r: 8, lg_c: 0, lg_e: 1, multiples: 0, fused: false },
    NttPass { lg_r: 8, lg_c: 0, lg_e: 2, multiples: 0, fused: false },
    NttPass { lg_r: 10, lg_c: 0, lg_e: 2, multiples: 0, fused: false },
];
/// log2 of the row that is also specialised as a whole transform.
const LG_ALONE: u32 = 10;
/// One more tile with a rows' kernel, DIF only.
const SPECIALISED_DIF_ROWS: NttPass =
    NttPass { lg_r: 8, lg_c: 1, lg_e: 2, multiples: 0, fused: false };

/// The names of the kernels.
mod name {
    use super::{Decimation, NttPass};

    pub const fn of_way(way: Decimation) -> &'static str {
        match way {
            Decimation::Dif => "dif",
            Decimation::Dit => "dit",
        }
    }

    pub fn columns(way: Decimation, lg_e: u32, kept: u32) -> String {
        format!("ntt_{}_columns_e{lg_e}_b{kept}", of_way(way))
    }

    pub fn rows(way: Decimation, lg_e: u32) -> String {
        format!("ntt_{}_rows_e{lg_e}", of_way(way))
    }

    pub fn specialised_columns(way: Decimation, pass: NttPass) -> String {
        let NttPass { lg_r, lg_c, lg_e, multiples: kept, .. } = pass;
        format!("ntt_{}_columns_r{lg_r}_c{lg_c}_e{lg_e}_b{kept}", of_way(way))
    }

    pub fn specialised_rows(way: Decimation, pass: NttPass) -> String {
        let NttPass { lg_r, lg_c, lg_e, .. } = pass;
        format!("ntt_{}_rows_r{lg_r}_c{lg_c}_e{lg_e}", of_way(way))
    }

    pub fn fused_columns(way: Decimation, pass: NttPass) -> String {
        let NttPass { lg_r, lg_c, multiples: kept, .. } = pass;
        format!("ntt_{}_fused_r{lg_r}_c{lg_c}_b{kept}", of_way(way))
    }

    pub fn fused_rows(way: Decimation, pass: NttPass) -> String {
        let NttPass { lg_r, lg_c, multiples: kept, .. } = pass;
        format!("ntt_{}_fused_r{lg_r}_c{lg_c}_l{kept}", of_way(way))
    }
}

/// The rows' passes with specialised kernels.
fn specialised_rows(way: Decimation) -> impl Iterator<Item = NttPass> {
    let more = (way == Decimation::Dif).then_some(SPECIALISED_DIF_ROWS);
    SPECIALISED_ROWS.into_iter().chain(more)
}

/// Whether a rows' pass may use a specialised kernel; `alone` if it is a whole transform.
fn may_be_specialised(way: Decimation, pass: &NttPass, flags: u32, alone: bool) -> bool {
    // Specialised kernels ignore this flag: kernels.cuh.
    let ignored = match way {
        Decimation::Dif => flag::ROWS_FIRST,
        Decimation::Dit => flag::ROWS_LAST,
    };
    !alone || (pass.lg_r == LG_ALONE && flags & ignored == 0)
}

/// The name of the kernel that [`NttKernels`] has for a pass; `is_rows` if it is a rows' pass,
/// `alone` if it is a whole transform.
pub(super) fn name_of(
    way: Decimation,
    pass: &NttPass,
    flags: u32,
    is_rows: bool,
    alone: bool,
) -> String {
    match (pass.fused, is_rows) {
        (true, true) => name::fused_rows(way, *pass),
        (true, false) => name::fused_columns(way, *pass),
        (false, false) if SPECIALISED_COLUMNS.contains(pass) => {
            name::specialised_columns(way, *pass)
        }
        (false, false) => name::columns(way, pass.lg_e, pass.multiples),
        (false, true) => {
            let found = specialised_rows(way).any(|shape| shape == *pass);
            match found && may_be_specialised(way, pass, flags, alone) {
                true => name::specialised_rows(way, *pass),
                false => name::rows(way, pass.lg_e),
            }
        }
    }
}

/// Kernels by way, lg_e, kept, lg_tile; specialised kernels by way and shape.
pub(super) struct NttKernels {
    columns: HashMap<(Decimation, u32, u32, u32), ColumnsKernel>,
    rows: HashMap<(Decimation, u32, u32), RowsKernel>,
    shaped_columns: HashMap<(Decimation, NttPass), ColumnsKernel>,
    shaped_rows: HashMap<(Decimation, NttPass), RowsKernel>,
    merged: HashMap<(Decimation, NttPass), FusedColumnsKernel>,
    merged_rows: HashMap<(Decimation, NttPass), FusedRowsKernel>,
    pub copy: CopyKernel,
}

impl NttKernels {
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let index = context.identity().index;
        let failed = |fault| GpuUnavailable::Device { index, fault };
        let NttLimits { lg_tile_max, .. } = NttLimits::of(&context.identity().limits);
        let blocks = |lg_e| blocks(lg_e, lg_tile_max);
        let (mut columns, mut rows) = (HashMap::new(), HashMap::new());
        for way in [Decimation::Dif, Decimation::Dit] {
            let module = KernelModule::load(context, &format!("ntt/{}", name::of_way(way)))?;
            for (lg_e, kept) in COLUMNS {
                let name = name::columns(way, lg_e, kept);
                for (lg_tile, block) in blocks(lg_e) {
                    let kernel = module.kernel(&name, block).map_err(failed)?;
                    columns.insert((way, lg_e, kept, lg_tile), kernel.with_pdl());
                }
            }
            for lg_e in ROWS {
                let name = name::rows(way, lg_e);
                for (lg_tile, block) in blocks(lg_e) {
                    let kernel = module.kernel(&name, block).map_err(failed)?;
                    rows.insert((way, lg_e, lg_tile), kernel.with_pdl());
                }
            }
        }
        let (shaped_columns, shaped_rows) = load_specialised(context)?;
        let (merged, merged_rows) = load_fused(context)?;
        let module = KernelModule::load(context, "ntt/tables")?;
        let copy = module.kernel("ntt_copy", BlockShape::threads(COPY_THREADS)).map_err(failed)?;
        Ok(Self { columns, rows, shaped_columns, shaped_rows, merged, merged_rows, copy })
    }

    pub fn columns(&self, way: Decimation, pass: &NttPass) -> Result<&ColumnsKernel, DeviceFault> {
        let any = || self.columns.get(&(way, pass.lg_e, pass.multiples, pass.lg_tile()));
        self.shaped_columns.get(&(way, *pass)).or_else(any).ok_or_else(|| missing_kernel(pass))
    }

    pub fn merged(
        &self,
        way: Decimation,
        pass: &NttPass,
    ) -> Result<&FusedColumnsKernel, DeviceFault> {
        self.merged.get(&(way, *pass)).ok_or_else(|| missing_kernel(pass))
    }

    pub fn merged_rows(
        &self,
        way: Decimation,
        pass: &NttPass,
    ) -> Result<&FusedRowsKernel, DeviceFault> {
        self.merged_rows.get(&(way, *pass)).ok_or_else(|| missing_kernel(pass))
    }

    /// The kernel of a rows' pass; `alone` if it is a whole transform.
    pub fn rows(
        &self,
        way: Decimation,
        pass: &NttPass,
        flags: u32,
        alone: bool,
    ) -> Result<&RowsKernel, DeviceFault> {
        let is_shaped = may_be_specialised(way, pass, flags, alone);
        let any = || self.rows.get(&(way, pass.lg_e, pass.lg_tile()));
        let shaped = self.shaped_rows.get(&(way, *pass)).filter(|_| is_shaped);
        shaped.or_else(any).ok_or_else(|| missing_kernel(pass))
    }
}

type SpecialisedKernels =
    (HashMap<(Decimation, NttPass), ColumnsKernel>, HashMap<(Decimation, NttPass), RowsKernel>);

fn load_specialised(context: &DeviceContext) -> Result<SpecialisedKernels, GpuUnavailable> {
    let index = context.identity().index;
    let failed = |fault| GpuUnavailable::Device { index, fault };
    let (mut columns, mut rows) = (HashMap::new(), HashMap::new());
    for way in [Decimation::Dif, Decimation::Dit] {
        let module = KernelModule::load(context, &format!("ntt/{}_unrolled", name::of_way(way)))?;
        for pass in SPECIALISED_COLUMNS {
            let name = name::specialised_columns(way, pass);
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            columns.insert((way, pass), kernel.with_pdl());
        }
        for pass in specialised_rows(way) {
            let name = name::specialised_rows(way, pass);
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            rows.insert((way, pass), kernel.with_pdl());
        }
    }
    Ok((columns, rows))
}

type FusedKernels = (
    HashMap<(Decimation, NttPass), FusedColumnsKernel>,
    HashMap<(Decimation, NttPass), FusedRowsKernel>,
);

fn load_fused(context: &DeviceContext) -> Result<FusedKernels, GpuUnavailable> {
    let index = context.identity().index;
    let failed = |fault| GpuUnavailable::Device { index, fault };
    let (mut merged, mut merged_rows) = (HashMap::new(), HashMap::new());
    for way in [Decimation::Dif, Decimation::Dit] {
        let module = KernelModule::load(context, &format!("ntt/{}_fused", name::of_way(way)))?;
        for pass in FUSED_COLUMNS {
            let name = name::fused_columns(way, pass);
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            merged.insert((way, pass), kernel.with_pdl());
        }
        let spread = (way == Decimation::Dif).then_some(FUSED_DIF_ROWS);
        for pass in FUSED_ROWS.into_iter().chain(spread) {
            let name = name::fused_rows(way, pass);
            let kernel = module.kernel(&name, block_of(&pass)).map_err(failed)?;
            merged_rows.insert((way, pass), kernel.with_pdl());
        }
    }
    Ok((merged, merged_rows))
}

fn block_of(pass: &NttPass) -> BlockShape {
    block(pass.lg_tile(), pass.lg_e)
}

fn block(lg_tile: u32, lg_e: u32) -> BlockShape {
    let shared_bytes = (size_of::<DeviceFr>() as u32) << lg_tile.max(LG_TILE_MIN);
    BlockShape { threads: 1 << (lg_tile - lg_e), shared_bytes }
}

/// Every tile for kernels with 2^lg_e elements per thread, and its block. Ascending: the last one
/// loaded sets the shared memory limit of a kernel.
fn blocks(lg_e: u32, lg_tile_max: u32) -> impl Iterator<Item = (u32, BlockShape)> {
    let tiles = (lg_e..=lg_tile_max).map(move |lg_tile| (lg_tile, block(lg_tile, lg_e)));
    tiles.filter(|(_, block)| block.threads <= THREADS_MAX)
}

fn missing_kernel(pass: &NttPass) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "ntt".into(), problem: format!("no kernel for {pass:?}") }
}
