//! Loads the kernels of `kernels/ntt` for every tile of a pass.

use std::{collections::HashMap, sync::Arc};

use super::{
    elements::{ELEMENT_BYTES, ElementPtr},
    passes::{FUSED_COLUMNS, NttLimits, NttPass, fused_rows},
};
use crate::{
    curve::Decimation,
    device::{
        BlockShape, DeviceContext, DeviceFault, GpuUnavailable, Kernel, KernelModule,
        KernelParameters,
    },
};

/// Parameters: in, out, tile_twiddles, row_factors, inter_pass, lg_block, lg_r, lg_c,
/// lg_low, flags.
type ColumnsKernel =
    Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, ElementPtr, u32, u32, u32, u32, u32)>;
/// Parameters: in, out, tile_twiddles, row_factors, lg_n, lg_r, lg_c, flags, count.
type RowsKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, u32, u32, u32, u32, u64)>;
/// Parameters: in, out, fused_twiddles, inter_pass, lg_n, lg_block, flags.
type FusedColumnsKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, ElementPtr, u32, u32, u32)>;
/// Parameters: in, out, fused_twiddles, lg_n, flags.
type FusedRowsKernel = Kernel<(ElementPtr, ElementPtr, ElementPtr, u32, u32)>;
/// Parameters: from, to, count.
type CopyKernel = Kernel<(ElementPtr, ElementPtr, u64)>;

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
pub(super) const COPY_THREADS: u32 = 128;

/// The columns' kernels for passes of any radix.
const COLUMNS: [NttPass; 5] = [
    unfused_pass(0, 0, 1, 2),
    unfused_pass(0, 0, 2, 1),
    unfused_pass(0, 0, 2, 2),
    unfused_pass(0, 0, 3, 1),
    unfused_pass(0, 0, 3, 2),
];
/// Values of lg_e with rows' kernels.
const ROWS: [u32; 2] = [1, 2];

/// Tiles with specialised columns' kernels: `kernels/ntt/dif_unrolled.cu`.
const SPECIALISED_COLUMNS: [NttPass; 5] = [
    unfused_pass(5, 1, 1, 2),
    unfused_pass(6, 2, 2, 1),
    unfused_pass(6, 2, 2, 2),
    unfused_pass(8, 1, 1, 2),
    unfused_pass(8, 2, 2, 2),
];
/// Tiles with specialised rows' kernels, the first one in DIF order only.
const SPECIALISED_ROWS: [NttPass; 6] = [
    unfused_pass(8, 1, 2, 0),
    unfused_pass(5, 1, 1, 0),
    unfused_pass(6, 2, 2, 0),
    unfused_pass(8, 0, 1, 0),
    unfused_pass(8, 0, 2, 0),
    unfused_pass(10, 0, 2, 0),
];
/// log2 of the row that is also specialised as a whole transform.
const LG_WHOLE_ROW: u32 = 10;

const fn unfused_pass(lg_r: u32, lg_c: u32, lg_e: u32, multiples: u32) -> NttPass {
    NttPass { lg_r, lg_c, lg_e, multiples, fused: false }
}

fn specialised_rows(decimation: Decimation) -> impl Iterator<Item = NttPass> {
    SPECIALISED_ROWS.into_iter().skip(usize::from(decimation == Decimation::Dit))
}

const fn prefix(decimation: Decimation) -> &'static str {
    match decimation {
        Decimation::Dif => "dif",
        Decimation::Dit => "dit",
    }
}

/// The properties of a pass that determine its kernel.
pub(super) struct KernelChoice {
    pub decimation: Decimation,
    pub pass: NttPass,
    pub flags: u32,
    /// Whether this is a rows' pass: the last one in DIF order, the first one in DIT order.
    pub is_rows: bool,
    pub is_whole_transform: bool,
}

impl KernelChoice {
    pub fn name(&self) -> String {
        let NttPass { lg_r, lg_c, lg_e, multiples, fused } = self.pass;
        let ntt = format!("ntt_{}", prefix(self.decimation));
        match (fused, self.is_rows, self.is_specialised()) {
            (true, true, _) => format!("{ntt}_fused_r{lg_r}_c{lg_c}_l{multiples}"),
            (true, false, _) => format!("{ntt}_fused_r{lg_r}_c{lg_c}_b{multiples}"),
            (false, false, true) => format!("{ntt}_columns_r{lg_r}_c{lg_c}_e{lg_e}_b{multiples}"),
            (false, false, false) => format!("{ntt}_columns_e{lg_e}_b{multiples}"),
            (false, true, true) => format!("{ntt}_rows_r{lg_r}_c{lg_c}_e{lg_e}"),
            (false, true, false) => format!("{ntt}_rows_e{lg_e}"),
        }
    }

    fn key(&self) -> KernelKey {
        KernelKey { name: self.name(), lg_tile: self.pass.lg_tile(), lg_e: self.pass.lg_e }
    }

    fn is_specialised(&self) -> bool {
        if !self.is_rows {
            return SPECIALISED_COLUMNS.contains(&self.pass);
        }
        // Specialised kernels ignore this flag: kernels.cuh.
        let ignored = match self.decimation {
            Decimation::Dif => flag::ROWS_FIRST,
            Decimation::Dit => flag::ROWS_LAST,
        };
        let serves_whole = self.pass.lg_r == LG_WHOLE_ROW && self.flags & ignored == 0;
        (!self.is_whole_transform || serves_whole)
            && specialised_rows(self.decimation).any(|pass| pass == self.pass)
    }
}

/// A kernel's name, and log2 of the elements of its tile and of a thread.
#[derive(PartialEq, Eq, Hash)]
struct KernelKey {
    name: String,
    lg_tile: u32,
    lg_e: u32,
}

#[derive(Clone)]
pub(super) enum PassKernel {
    Columns(Arc<ColumnsKernel>),
    Rows(Arc<RowsKernel>),
    FusedColumns(Arc<FusedColumnsKernel>),
    FusedRows(Arc<FusedRowsKernel>),
}

pub(super) struct NttKernels {
    passes: HashMap<KernelKey, PassKernel>,
    pub copy: CopyKernel,
}

impl NttKernels {
    pub fn load(context: &DeviceContext) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: context.identity().index, fault };
        let NttLimits { lg_tile_max, .. } = NttLimits::of(&context.identity().limits);
        let module = KernelModule::load(context, "ntt/tables")?;
        let copy = module.kernel("ntt_copy", BlockShape::threads(COPY_THREADS)).map_err(failed)?;
        let mut kernels = Self { passes: HashMap::new(), copy };
        for decimation in [Decimation::Dif, Decimation::Dit] {
            let prefix = prefix(decimation);
            let module = |suffix| KernelModule::load(context, &format!("ntt/{prefix}{suffix}"));
            let mut loader =
                KernelLoader { kernels: &mut kernels, module: module("")?, decimation };
            let columns =
                COLUMNS.iter().flat_map(|pass| tiles(pass.lg_e, pass.multiples, lg_tile_max));
            loader.load(columns, false, PassKernel::Columns).map_err(failed)?;
            let rows = ROWS.into_iter().flat_map(|lg_e| tiles(lg_e, 0, lg_tile_max));
            loader.load(rows, true, PassKernel::Rows).map_err(failed)?;
            loader.module = module("_unrolled")?;
            loader.load(SPECIALISED_COLUMNS, false, PassKernel::Columns).map_err(failed)?;
            loader.load(specialised_rows(decimation), true, PassKernel::Rows).map_err(failed)?;
            loader.module = module("_fused")?;
            loader.load(FUSED_COLUMNS, false, PassKernel::FusedColumns).map_err(failed)?;
            loader.load(fused_rows(decimation), true, PassKernel::FusedRows).map_err(failed)?;
        }
        Ok(kernels)
    }

    pub fn get(&self, choice: &KernelChoice) -> Result<PassKernel, DeviceFault> {
        let pass = choice.pass;
        self.passes.get(&choice.key()).cloned().ok_or_else(|| {
            let problem = format!("no kernel for {pass:?}");
            DeviceFault::KernelMismatch { kernel: "ntt".into(), problem }
        })
    }
}

struct KernelLoader<'a> {
    kernels: &'a mut NttKernels,
    module: KernelModule,
    decimation: Decimation,
}

impl KernelLoader<'_> {
    fn load<P: KernelParameters>(
        &mut self,
        passes: impl IntoIterator<Item = NttPass>,
        is_rows: bool,
        wrap: fn(Arc<Kernel<P>>) -> PassKernel,
    ) -> Result<(), DeviceFault> {
        for pass in passes {
            let decimation = self.decimation;
            let choice =
                KernelChoice { decimation, pass, flags: 0, is_rows, is_whole_transform: false };
            let kernel = self.module.kernel(&choice.name(), block(&pass))?.with_pdl();
            self.kernels.passes.insert(choice.key(), wrap(Arc::new(kernel)));
        }
        Ok(())
    }
}

fn block(pass: &NttPass) -> BlockShape {
    let shared_bytes = (ELEMENT_BYTES as u32) << pass.lg_tile().max(LG_TILE_MIN);
    BlockShape { threads: 1 << (pass.lg_tile() - pass.lg_e), shared_bytes }
}

/// Passes of unspecified radix with every tile for 2^lg_e elements per thread. Ascending: the last
/// one loaded sets the shared memory limit of a kernel.
fn tiles(lg_e: u32, multiples: u32, lg_tile_max: u32) -> impl Iterator<Item = NttPass> {
    let passes = (lg_e..=lg_tile_max).map(move |lg_tile| unfused_pass(0, lg_tile, lg_e, multiples));
    passes.filter(|pass| block(pass).threads <= THREADS_MAX)
}
