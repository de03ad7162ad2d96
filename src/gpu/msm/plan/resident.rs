//! Chooses the tables for bases that are resident on a device. Pure: numbers in, numbers out.

use super::{MsmBudget, MsmPassPlan, MsmSize};
use crate::{
    curve::Group,
    device::{ALIGN, DeviceLimits},
    msm::{Recoding, SlidingWindows},
};

/// Tables leave 1 / `WORK_SHARE_DIVISOR` of the memory to the jobs that use them.
const WORK_SHARE_DIVISOR: u64 = 5;
/// The use on which bases get one table per power of two, for sliding windows. Building them costs
/// what 1500 MSMs save (`benches/experiments/msm.md`): bases used this often are assumed to be
/// used much more.
const SLIDING_USES: u64 = 8;
/// The tables of one object for sliding windows take at most 1 / `SLIDING_SHARE_DIVISOR` of the
/// memory and leave as much free; nothing is evicted for them. They save at most a tenth of an MSM
/// (`benches/experiments/msm.md`), and uploading evicted bases again costs several MSMs.
const SLIDING_SHARE_DIVISOR: u64 = 4;
/// The most tables for windows that do not slide.
const FIXED_TABLES: u64 = 64;
/// The use from which on bases get tables.
const FIXED_TABLE_USES: u64 = 2;

/// Bases that are resident on a device, as whole objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidentPlan {
    pub group: Group,
    pub n: u32,
    /// The number of jobs that used them, including the current one.
    pub uses: u64,
    pub limits: DeviceLimits,
}

/// The memory of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseMemory {
    /// All memory for bases and jobs.
    pub total: u64,
    /// The longest contiguous range that is not leased.
    pub free: u64,
    pub table_scratch: u64,
}

/// The plan of MSMs from a given use of their bases on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStage {
    /// The plan applies from this use on.
    pub uses: u64,
    /// The plan of an MSM of one vector over all of the bases.
    pub plan: MsmPassPlan,
    pub table_bytes: u64,
}

impl ResidentPlan {
    fn table_bytes(&self) -> u64 {
        u64::from(self.n.max(1)) * self.group.affine_bytes() as u64
    }

    /// The windows to build tables for, given the windows of the present tables, if any. `None` if
    /// the present tables are the best that uses and memory allow.
    pub fn better(&self, present: Option<&Recoding>, memory: BaseMemory) -> Option<Recoding> {
        if self.uses < FIXED_TABLE_USES || present.is_some_and(Recoding::is_sliding) {
            return None;
        }
        let (group, n, table) = (self.group, self.n, self.table_bytes());
        // Plus the scratch memory for building, and the alignment of two leases.
        let sliding = u64::from(SlidingWindows::TABLES) * table + memory.table_scratch + 4 * ALIGN;
        let share = memory.total / SLIDING_SHARE_DIVISOR;
        let slides =
            self.uses >= SLIDING_USES && sliding <= share && sliding + share <= memory.free;
        // Fixed windows were chosen with the same inputs, so skip the search: every job gets here.
        if present.is_some() && !slides {
            return None;
        }
        let fitting = (memory.total - memory.total / WORK_SHARE_DIVISOR) / table;
        let tables = if slides { SlidingWindows::TABLES } else { fitting.min(FIXED_TABLES) as u32 };
        let windows = MsmSize { group, n, vectors: 1 }.choose_windows(tables, &self.limits);
        (windows.tables() > 1 && present != Some(&windows)).then_some(windows)
    }

    /// The windows to build tables for if the bases will be used often, and bases and tables may
    /// take `bytes_max` bytes. `None` if the bases alone are the best that fits.
    pub fn best_within(&self, memory: BaseMemory, bytes_max: u64) -> Option<Recoding> {
        let point = self.group.affine_bytes() as u64;
        let fits = |windows: &Recoding| {
            u64::from(windows.tables()) * self.table_bytes() + point <= bytes_max
        };
        // Fixed windows have as many tables as fit, sliding windows one number of tables.
        let whole = bytes_max.saturating_sub(point).saturating_mul(WORK_SHARE_DIVISOR)
            / (WORK_SHARE_DIVISOR - 1);
        let fixed = BaseMemory { total: memory.total.min(whole), ..memory };
        let stages = [(SLIDING_USES, memory), (FIXED_TABLE_USES, fixed)];
        let best = |(uses, memory)| Self { uses, ..*self }.better(None, memory).filter(fits);
        stages.into_iter().find_map(best)
    }

    /// The stages of these bases, use by use, on a device with these limits that holds nothing
    /// else; empty if the bases do not fit.
    pub fn stages(
        group: Group,
        n: u32,
        limits: DeviceLimits,
        memory: BaseMemory,
    ) -> Vec<TableStage> {
        let job = MsmSize { group, n, vectors: 1 };
        let mut present = None;
        let mut stages = Vec::new();
        // Bytes of the bases and tables, once they are on the device.
        let mut table_bytes = 0;
        for uses in [1, FIXED_TABLE_USES, SLIDING_USES] {
            let bases = Self { group, n, uses, limits };
            let free = memory.total.saturating_sub(table_bytes);
            let better = bases.better(present.as_ref(), BaseMemory { free, ..memory });
            if uses > 1 && better.is_none() {
                continue;
            }
            present = better;
            let windows = job.choose_windows_for_tables(present.as_ref(), &limits);
            table_bytes = bases.table_bytes() * u64::from(present.map_or(1, |own| own.tables()));
            let budget = MsmBudget { bytes: memory.total.saturating_sub(table_bytes), limits };
            let plan = MsmPassPlan::new(job, windows, budget);
            stages.extend(plan.map(|plan| TableStage { uses, plan, table_bytes }));
        }
        stages
    }
}
