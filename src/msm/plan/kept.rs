//! Which tables bases get that stay on a device. Pure: numbers in, numbers out.

use super::{Job, Plan, Room};
use crate::{
    curve::Group,
    device::{ALIGN, DeviceLimits},
    msm::{Sliding, Windows},
};

/// Tables leave one part of so many of the memory to the jobs that use them.
const WORK_PART: u64 = 5;
/// At this use bases get a table of every power of two, if windows are to slide. To make these
/// takes as long as some 1500 MSMs save by them, 0.15 s for 2^20 points on an H200: what was used
/// so often will be used on.
const SLIDING_USES: u64 = 8;
/// One object's have at most one part of so many of the memory, and nothing else goes for them:
/// they save 2 to 10 % of an MSM, fixed windows' tables a fifth, and to bring bases again costs
/// several.
const SLIDING_PART: u64 = 4;
/// Tables at most for windows that do not slide.
const FIXED_TABLES: u64 = 64;
/// From this use on there are tables.
const TABLE_USES: u64 = 2;

/// Bases that stay on a device, whole objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Of the bases.
    pub group: Group,
    /// How many.
    pub n: u32,
    /// Jobs that asked for them, the one of now among them.
    pub uses: u64,
    /// What kernels may use of the device.
    pub limits: DeviceLimits,
}

/// The memory of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What there is for bases and jobs.
    pub all: u64,
    /// The longest piece of it that nobody has.
    pub free: u64,
    /// What tables of these bases are made in.
    pub scratch: u64,
}

/// How MSMs are done from a use of their bases on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The first use.
    pub uses: u64,
    /// The plan of an MSM of one vector over all of the bases.
    pub plan: Plan,
    /// Bytes that bases and tables take.
    pub bytes: u64,
}

impl Kept {
    fn table_bytes(&self) -> u64 {
        u64::from(self.n.max(1)) * self.group.affine_bytes() as u64
    }

    /// The windows that tables are to be made for, where there are tables for `here` or none:
    /// `None` where what is there is the best that there is use and memory for.
    pub fn better(&self, here: Option<&Windows>, memory: Memory) -> Option<Windows> {
        if self.uses < TABLE_USES || here.is_some_and(Windows::slide) {
            return None;
        }
        let (group, n, table) = (self.group, self.n, self.table_bytes());
        let fixed = ((memory.all - memory.all / WORK_PART) / table).min(FIXED_TABLES);
        // And what tables are made in, and what two leases are longer.
        let sliding = u64::from(Sliding::TABLES) * table + memory.scratch + 4 * ALIGN;
        let slides = self.uses >= SLIDING_USES
            && sliding <= memory.all / SLIDING_PART
            && sliding <= memory.free;
        // What is fixed was chosen so before: every job asks.
        if here.is_some() && !slides {
            return None;
        }
        let tables = if slides { Sliding::TABLES } else { fixed as u32 };
        let windows = Job { group, n, vectors: 1 }.windows(tables, &self.limits);
        (windows.tables() > 1 && here != Some(&windows)).then_some(windows)
    }

    /// What becomes of the bases, use by use, on a device of these limits that holds nothing else;
    /// nothing if it does not hold them.
    pub fn stages(group: Group, n: u32, limits: DeviceLimits, memory: Memory) -> Vec<Stage> {
        let (job, mut here, mut stages) = (Job { group, n, vectors: 1 }, None, Vec::new());
        for uses in [1, TABLE_USES, SLIDING_USES] {
            let kept = Self { group, n, uses, limits };
            let held = |windows: Option<&Windows>| {
                kept.table_bytes() * u64::from(windows.map_or(1, Windows::tables))
            };
            let before = if uses == 1 { 0 } else { held(here.as_ref()) };
            let free = memory.all.saturating_sub(before);
            let better = kept.better(here.as_ref(), Memory { free, ..memory });
            if uses > 1 && better.is_none() {
                continue;
            }
            here = better;
            let bytes = held(here.as_ref());
            let room = Room { bytes: memory.all.saturating_sub(bytes), limits };
            let plan = Plan::new(job, job.windows_over(here.as_ref(), &limits), room);
            stages.extend(plan.map(|plan| Stage { uses, plan, bytes }));
        }
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G1: u64 = 96;

    fn memory(all: u64) -> Memory {
        Memory { all, free: all, scratch: 0 }
    }

    fn kept(n: u32, uses: u64) -> Kept {
        Kept { group: Group::G1, n, uses, limits: DeviceLimits::H200 }
    }

    #[test]
    fn bases_get_tables_as_they_are_used() {
        let (ample, n) = (memory(126 << 30), 1 << 20);
        assert_eq!(kept(n, 1).better(None, ample), None);
        let fixed = kept(n, 2).better(None, ample).unwrap();
        assert!(!fixed.slide() && fixed.tables() > 1, "{fixed:?}");
        assert_eq!(kept(n, 7).better(Some(&fixed), ample), None, "nothing changes between");
        let sliding = kept(n, 8).better(Some(&fixed), ample).unwrap();
        assert!(sliding.slide(), "{sliding:?}");
        assert_eq!(kept(n, 9).better(Some(&sliding), ample), None);
    }

    #[test]
    fn tables_fit_the_memory() {
        let n = 1 << 20;
        let table = u64::from(n) * G1;
        // A fifth is for jobs, and so there is nothing for a second table.
        assert_eq!(kept(n, 2).better(None, memory(2 * table)), None);
        for tables in 2..20 {
            let windows = kept(n, 2).better(None, memory((tables * table * 5).div_ceil(4)));
            assert!(
                windows.is_none_or(|w| u64::from(w.tables()) <= tables),
                "{tables}: {windows:?}"
            );
        }
        let (fixed, every) = (Windows::fixed(20, 1, 13), 255 * table + 4 * ALIGN);
        let better = |all, free, scratch| {
            kept(n, 8).better(fixed.as_ref(), Memory { all, free, scratch }).is_some()
        };
        assert!(better(4 * every, every, 0));
        assert!(!better(4 * every - 4, every, 0), "more than a quarter of the device");
        assert!(!better(4 * every, every - 1, 0), "others would have to go");
        assert!(!better(4 * every, every, 1), "nothing to make them in");
    }

    #[test]
    fn stages_are_what_bases_go_through() {
        let of =
            |group, lg_n: u32, all| Kept::stages(group, 1 << lg_n, DeviceLimits::H200, memory(all));
        let texts = |stages: &[Stage]| -> Vec<_> {
            stages.iter().map(|stage| format!("{}: {}", stage.uses, stage.plan)).collect()
        };
        let stages = of(Group::G1, 20, 126 << 30);
        let begins = ["1: ", "2: 13 windows of 20 bits, ", "8: sliding windows of 20 bits, "];
        let texts = texts(&stages);
        assert!(texts.iter().map(String::as_str).zip(begins).all(|(t, b)| t.starts_with(b)));
        assert!(texts.len() == 3 && texts[0].ends_with("no tables"), "{texts:?}");
        assert_eq!(stages[2].bytes, 255 * (G1 << 20));
        // 2^24 in all powers of two are 411 GB; 2^26 of G2 are 13 GB, and there is room for few.
        assert_eq!(of(Group::G1, 24, 126 << 30).len(), 2);
        assert_eq!(of(Group::G1, 24, 1 << 30), []);
        for (group, lg_n) in [(Group::G1, 10), (Group::G2, 16), (Group::G2, 24), (Group::G2, 26)] {
            let stages = of(group, lg_n, 126 << 30);
            assert!(stages.iter().all(|stage| stage.bytes + stage.plan.bytes() <= 126 << 30));
            assert!(stages.is_sorted_by(|a, b| a.bytes < b.bytes), "{stages:?}");
        }
    }
}
