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
/// as much as about 1500 MSMs save, 0.15 s for 2^20 points on an H200: bases used this often are
/// assumed to be used much more.
const SLIDING_USES: u64 = 8;
/// The tables of one object for sliding windows take at most 1 / `SLIDING_SHARE_DIVISOR` of the
/// memory, and nothing is evicted for them: they save 2 to 10 % of an MSM and tables for fixed
/// windows a fifth, while uploading evicted bases again costs several MSMs.
const SLIDING_SHARE_DIVISOR: u64 = 4;
/// The most tables for windows that do not slide.
const FIXED_TABLES: u64 = 64;
/// The use from which on bases get tables.
const FIXED_TABLE_USES: u64 = 2;

/// Bases that are resident on a device, as whole objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidentPlan {
    /// The group of the bases.
    pub group: Group,
    /// The number of bases.
    pub n: u32,
    /// The number of jobs that used them, including the current one.
    pub uses: u64,
    /// The limits of the device.
    pub limits: DeviceLimits,
}

/// The memory of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseMemory {
    /// All memory for bases and jobs.
    pub total: u64,
    /// The longest contiguous range that is not leased.
    pub free: u64,
    /// Scratch memory for building the tables of these bases.
    pub table_scratch: u64,
}

/// The plan of MSMs from a given use of their bases on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStage {
    /// The use from which on the plan applies.
    pub from_use: u64,
    /// The plan of an MSM of one vector over all of the bases.
    pub plan: MsmPassPlan,
    /// Bytes of the bases and their tables.
    pub bytes: u64,
}

impl ResidentPlan {
    fn table_bytes(&self) -> u64 {
        u64::from(self.n.max(1)) * self.group.affine_bytes() as u64
    }

    /// The windows to build tables for, given the windows `here` of the present tables, if any.
    /// `None` if the present tables are the best that uses and memory allow.
    pub fn better(&self, here: Option<&Recoding>, memory: BaseMemory) -> Option<Recoding> {
        if self.uses < FIXED_TABLE_USES || here.is_some_and(Recoding::is_sliding) {
            return None;
        }
        let (group, n, table) = (self.group, self.n, self.table_bytes());
        let fixed = ((memory.total - memory.total / WORK_SHARE_DIVISOR) / table).min(FIXED_TABLES);
        // Plus the scratch memory for building, and the alignment of two leases.
        let sliding = u64::from(SlidingWindows::TABLES) * table + memory.table_scratch + 4 * ALIGN;
        let slides = self.uses >= SLIDING_USES
            && sliding <= memory.total / SLIDING_SHARE_DIVISOR
            && sliding <= memory.free;
        // Fixed windows were chosen with the same inputs, so skip the search: every job gets here.
        if here.is_some() && !slides {
            return None;
        }
        let tables = if slides { SlidingWindows::TABLES } else { fixed as u32 };
        let windows = MsmSize { group, n, vectors: 1 }.choose_windows(tables, &self.limits);
        (windows.tables() > 1 && here != Some(&windows)).then_some(windows)
    }

    /// The stages of these bases, use by use, on a device with these limits that holds nothing
    /// else; empty if the bases do not fit.
    pub fn stages(
        group: Group,
        n: u32,
        limits: DeviceLimits,
        memory: BaseMemory,
    ) -> Vec<TableStage> {
        let (job, mut here, mut stages) = (MsmSize { group, n, vectors: 1 }, None, Vec::new());
        for uses in [1, FIXED_TABLE_USES, SLIDING_USES] {
            let kept = Self { group, n, uses, limits };
            let held = |windows: Option<&Recoding>| {
                kept.table_bytes() * u64::from(windows.map_or(1, Recoding::tables))
            };
            let before = if uses == 1 { 0 } else { held(here.as_ref()) };
            let free = memory.total.saturating_sub(before);
            let better = kept.better(here.as_ref(), BaseMemory { free, ..memory });
            if uses > 1 && better.is_none() {
                continue;
            }
            here = better;
            let bytes = held(here.as_ref());
            let room = MsmBudget { bytes: memory.total.saturating_sub(bytes), limits };
            let plan =
                MsmPassPlan::new(job, job.choose_windows_for_tables(here.as_ref(), &limits), room);
            stages.extend(plan.map(|plan| TableStage { from_use: uses, plan, bytes }));
        }
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G1: u64 = 96;

    fn memory(all: u64) -> BaseMemory {
        BaseMemory { total: all, free: all, table_scratch: 0 }
    }

    fn kept(n: u32, uses: u64) -> ResidentPlan {
        ResidentPlan { group: Group::G1, n, uses, limits: DeviceLimits::H200 }
    }

    #[test]
    fn bases_get_tables_on_the_second_and_eighth_use() {
        let (ample, n) = (memory(126 << 30), 1 << 20);
        assert_eq!(kept(n, 1).better(None, ample), None);
        let fixed = kept(n, 2).better(None, ample).unwrap();
        assert!(!fixed.is_sliding() && fixed.tables() > 1, "{fixed:?}");
        assert_eq!(kept(n, 7).better(Some(&fixed), ample), None, "no change between");
        let sliding = kept(n, 8).better(Some(&fixed), ample).unwrap();
        assert!(sliding.is_sliding(), "{sliding:?}");
        assert_eq!(kept(n, 9).better(Some(&sliding), ample), None);
    }

    #[test]
    fn tables_fit_the_memory() {
        let n = 1 << 20;
        let table = u64::from(n) * G1;
        // A fifth is for jobs, so a second table does not fit.
        assert_eq!(kept(n, 2).better(None, memory(2 * table)), None);
        for tables in 2..20 {
            let windows = kept(n, 2).better(None, memory((tables * table * 5).div_ceil(4)));
            assert!(
                windows.is_none_or(|w| u64::from(w.tables()) <= tables),
                "{tables}: {windows:?}"
            );
        }
        let (fixed, every) = (Recoding::fixed(20, 1, 13), 255 * table + 4 * ALIGN);
        let better = |all, free, scratch| {
            kept(n, 8)
                .better(fixed.as_ref(), BaseMemory { total: all, free, table_scratch: scratch })
                .is_some()
        };
        assert!(better(4 * every, every, 0));
        assert!(!better(4 * every - 4, every, 0), "more than a quarter of the device");
        assert!(!better(4 * every, every - 1, 0), "others would be evicted");
        assert!(!better(4 * every, every, 1), "no scratch to build them in");
    }

    #[test]
    fn stages_follow_the_uses_of_bases() {
        let of = |group, lg_n: u32, all| {
            ResidentPlan::stages(group, 1 << lg_n, DeviceLimits::H200, memory(all))
        };
        let texts = |stages: &[TableStage]| -> Vec<_> {
            stages.iter().map(|stage| format!("{}: {}", stage.from_use, stage.plan)).collect()
        };
        let stages = of(Group::G1, 20, 126 << 30);
        let begins = ["1: ", "2: 13 windows of 20 bits, ", "8: sliding windows of 20 bits, "];
        let texts = texts(&stages);
        assert!(texts.iter().map(String::as_str).zip(begins).all(|(t, b)| t.starts_with(b)));
        assert!(texts.len() == 3 && texts[0].ends_with("no tables"), "{texts:?}");
        assert_eq!(stages[2].bytes, 255 * (G1 << 20));
        // 2^24 bases with 255 tables are 411 GB; 2^26 of G2 are 13 GB, so few tables fit.
        assert_eq!(of(Group::G1, 24, 126 << 30).len(), 2);
        assert_eq!(of(Group::G1, 24, 1 << 30), []);
        for (group, lg_n) in [(Group::G1, 10), (Group::G2, 16), (Group::G2, 24), (Group::G2, 26)] {
            let stages = of(group, lg_n, 126 << 30);
            assert!(stages.iter().all(|stage| stage.bytes + stage.plan.bytes() <= 126 << 30));
            assert!(stages.is_sorted_by(|a, b| a.bytes < b.bytes), "{stages:?}");
        }
    }
}
