//! How a GPU holds the bases of an MSM. Pure.

use crate::{
    curve::Group,
    device::DeviceLimits,
    msm::{MsmBudget, MsmPassPlan, MsmSize, SplitThresholds},
};

/// Bases, scalars and a pass take at most this part of the arena, 3/4: the tables of NTTs and other
/// jobs need memory, too, and leave gaps.
const ARENA_PART: [u64; 2] = [3, 4];

/// How a GPU holds the bases of an MSM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BasesFit {
    /// With the object that they are part of, which later jobs use, too.
    Whole,
    /// Without the rest of their object.
    OwnRange,
    /// In parts of this many points.
    Parts(usize),
    TooLarge,
}

/// Memory and limits that decide how bases fit.
#[derive(Debug, Clone, Copy)]
pub struct BasesRoom {
    pub budget: MsmBudget,
    pub thresholds: SplitThresholds,
    /// The most bytes of bases.
    pub bases_bytes_max: u64,
}

impl BasesRoom {
    /// The room on an idle device.
    pub fn new(arena_bytes: u64, limits: DeviceLimits, thresholds: SplitThresholds) -> Self {
        let [part, whole] = ARENA_PART;
        let bytes = arena_bytes / whole * part;
        Self { budget: MsmBudget { bytes, limits }, thresholds, bases_bytes_max: bytes }
    }

    /// How the device holds the bases of an MSM of `vectors` vectors of `n` scalars, if they are
    /// part of an object of `object_points` points.
    pub fn fit(&self, group: Group, object_points: usize, n: usize, vectors: usize) -> BasesFit {
        if self.holds(group, object_points, n, vectors) {
            return BasesFit::Whole;
        }
        if self.holds(group, n, n, vectors) {
            return BasesFit::OwnRange;
        }
        let mut part = n;
        while part > 1 {
            part = part.div_ceil(2);
            if self.holds(group, part, part, 1) {
                return BasesFit::Parts(part);
            }
        }
        BasesFit::TooLarge
    }

    fn holds(&self, group: Group, resident: usize, n: usize, vectors: usize) -> bool {
        let bases = (resident as u64 + 1).saturating_mul(group.affine_bytes() as u64);
        let scalars = (n as u64).saturating_mul(vectors as u64).saturating_mul(32);
        let operands = bases.saturating_add(scalars);
        if bases > self.bases_bytes_max || operands > self.budget.bytes {
            return false;
        }
        let bytes = self.budget.bytes - operands;
        if operands <= bytes {
            // Passes adapt to the rest, and most MSMs are much smaller. Planning takes time.
            return true;
        }
        let (Ok(n), Ok(vectors)) = (u32::try_from(n), u32::try_from(vectors)) else { return false };
        let job = MsmSize { group, n, vectors };
        let windows = job.choose_windows_for_tables(None, &self.budget.limits);
        let budget = MsmBudget { bytes, ..self.budget };
        MsmPassPlan::with_thresholds(job, windows, budget, self.thresholds).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn room(arena_gib: u64) -> BasesRoom {
        BasesRoom::new(arena_gib * GIB, DeviceLimits::H200, SplitThresholds::USUAL)
    }

    #[test]
    fn bases_fit_whole_if_there_is_room_and_otherwise_in_parts() {
        let fit = |gib, object, n| room(gib).fit(Group::G1, object, n, 1);
        assert_eq!(fit(125, 1 << 24, 1 << 24), BasesFit::Whole);
        // 96 bytes a point: the object takes 6 GiB of 7.
        assert_eq!(fit(7, 1 << 26, 1 << 20), BasesFit::OwnRange);
        assert_eq!(fit(7, 1 << 26, 1 << 26), BasesFit::Parts(1 << 25));
        assert_eq!(fit(2, 1 << 26, 1 << 26), BasesFit::Parts(1 << 23));
        assert_eq!(room(0).fit(Group::G1, 1 << 26, 1 << 26, 1), BasesFit::TooLarge);
        // The scalars of a batch take memory, too.
        let batch = |vectors| room(7).fit(Group::G1, 1 << 20, 1 << 20, vectors);
        assert_eq!((batch(1), batch(1 << 10)), (BasesFit::Whole, BasesFit::Parts(1 << 19)));
    }
}
