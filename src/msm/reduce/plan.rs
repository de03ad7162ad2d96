//! Which launches take how many buckets to how few points. Pure: numbers in, numbers out.

use super::{
    ending,
    shape::{Ending, Shape, Tuning},
    step::{Halves, Ladder, Step},
};
use crate::{curve::Group, device::ALIGN};

/// Terms from which on a GPU is full without cutting them into parts.
const TERMS_FULL: u32 = 256;
/// Sets this small have terms at once, without rows.
const LG_BUCKETS_SMALL: u32 = 5;
/// A thread's slice has 2^LG_SLICE_MIN points at least.
const LG_SLICE_MIN: u32 = 2;

/// The launches for a shape, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it is for.
    pub shape: Shape,
    /// Where the device stops.
    pub ending: Ending,
    /// What it launches.
    pub steps: Vec<Step>,
    /// The steps' results lie in two areas in turn, the last one in the caller's.
    pub(super) areas: [u64; 2],
}

impl Plan {
    /// The plan for `shape`.
    pub fn new(shape: &Shape, tuning: &Tuning) -> Self {
        let ending = ending::choose(shape, tuning, shape.ladder().is_some());
        let mut steps = halves(shape, tuning);
        terms(shape, tuning, ending, &mut steps);
        let mut areas = [0; 2];
        for (at, step) in steps.iter().enumerate().take(steps.len() - 1) {
            let bytes = step.bytes_out(shape.group).next_multiple_of(ALIGN);
            areas[at % 2] = bytes.max(areas[at % 2]);
        }
        Self { shape: shape.clone(), ending, steps, areas }
    }

    /// Bytes of workspace.
    pub fn workspace_bytes(&self) -> u64 {
        self.areas[0] + self.areas[1]
    }

    /// Points that the device leaves, in XYZZ.
    pub fn points_out(&self) -> u64 {
        self.steps.last().map_or(0, Step::points_out)
    }

    /// Bytes of these: what [`super::Reducer::run`] writes and [`super::finish`] takes.
    pub fn bytes_out(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.bytes_out(self.shape.group))
    }
}

/// The steps from buckets to the sums of rows and columns.
fn halves(shape: &Shape, tuning: &Tuning) -> Vec<Step> {
    let m = shape.lg_buckets;
    let mut steps = Vec::new();
    if m <= LG_BUCKETS_SMALL {
        return steps;
    }
    let (lg_columns, lg_rows) = (m / 2, m - m / 2);
    let arrays = shape.arrays();
    let mut now =
        Halves { arrays, lg_rows: m, row_bits: 0, lg_columns: m, column_bits: 0, columns_at: 0 };
    let most = |now: &Halves, bits: u32| Halves {
        row_bits: bits.min(now.lg_rows - lg_rows),
        column_bits: bits.min(now.lg_columns - lg_columns),
        ..*now
    };
    let left = |now: &Halves| now.lg_rows > lg_rows || now.lg_columns > lg_columns;
    let mut affine = !shape.xyzz;
    let sliced = affine || shape.group == Group::G1;
    if left(&now) && sliced && now.points() >= tuning.slice_points_min {
        let bits = now.points().ilog2().saturating_sub(tuning.lg_slice_threads());
        let halves = most(&now, bits.max(LG_SLICE_MIN));
        steps.push(Step::Slices { halves, affine });
        now = halves.after();
        affine = false;
    }
    if left(&now) {
        let halves = most(&now, u32::BITS);
        let team = tuning.team(halves.sums(), 1 << halves.row_bits.max(halves.column_bits));
        steps.push(Step::Sums { halves, affine, team });
    }
    steps
}

/// The steps from there to where the device stops.
fn terms(shape: &Shape, tuning: &Tuning, ending: Ending, steps: &mut Vec<Step>) {
    let m = shape.lg_buckets;
    let halves = match steps.last() {
        Some(Step::Slices { halves, .. } | Step::Sums { halves, .. }) => halves.after(),
        _ => Halves {
            arrays: shape.arrays(),
            lg_rows: 0,
            row_bits: 0,
            lg_columns: m,
            column_bits: 0,
            columns_at: 0,
        },
    };
    let affine = steps.is_empty() && !shape.xyzz;
    let sums = shape.arrays() * shape.terms();
    let lg_most = (halves.lg_rows.max(1) - 1).max(halves.lg_columns); // term 0 has all columns
    let lg_parts = if sums < TERMS_FULL { lg_most.saturating_sub(tuning.lg_part) } else { 0 };
    let team = tuning.team(u64::from(sums) << lg_parts, 1 << (lg_most - lg_parts));
    steps.push(Step::Terms { halves, affine, lg_parts, team });
    let collect = |sums: u32, count: u32, ladder| {
        let team = tuning.team(sums.into(), count);
        Step::Collect { sums, count, team, ladder }
    };
    let doubled = ending != Ending::Terms;
    let ladder = if doubled { Ladder::terms(shape) } else { Ladder::FLAT };
    if doubled || lg_parts > 0 {
        steps.push(collect(sums, 1 << lg_parts, ladder));
    }
    if doubled {
        let over_sets = shape.ladder().filter(|_| ending == Ending::Vectors);
        let ladder = over_sets.unwrap_or(Ladder::FLAT);
        steps.push(collect(shape.arrays(), shape.terms(), ladder));
    }
    if ending == Ending::Vectors && shape.sets() > 1 {
        steps.push(collect(shape.vectors, shape.sets(), Ladder::FLAT));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::shape::Weights, *};

    /// Each launch takes what the one before it left, and what a kernel counts fits its words.
    fn check(plan: &Plan) {
        let (shape, mut left) = (&plan.shape, 0);
        for (at, step) in plan.steps.iter().enumerate() {
            match *step {
                Step::Slices { halves, .. }
                | Step::Sums { halves, .. }
                | Step::Terms { halves, .. } => {
                    assert!(at == 0 || halves.points() == left, "{plan:?}");
                    assert!(halves.points() < 1 << 32, "{plan:?}");
                }
                Step::Collect { sums, count, .. } => {
                    assert_eq!(u64::from(sums) * u64::from(count), left, "{plan:?}");
                }
            }
            if let Step::Sums { team, .. } | Step::Terms { team, .. } | Step::Collect { team, .. } =
                *step
            {
                assert!(team.is_power_of_two() && team <= 32, "{plan:?}");
            }
            left = step.points_out();
            if at + 1 < plan.steps.len() {
                assert!(step.bytes_out(shape.group) <= plan.areas[at % 2], "{plan:?}");
            }
        }
        let arrays = u64::from(shape.vectors) * u64::from(shape.sets());
        let expected = match plan.ending {
            Ending::Terms => arrays * u64::from(shape.lg_buckets + 1),
            Ending::Sets => arrays,
            Ending::Vectors => shape.vectors.into(),
        };
        assert_eq!(left, expected, "{plan:?}");
    }

    #[test]
    fn launches_fit_together() {
        for group in [Group::G1, Group::G2] {
            for (vectors, sets) in [(1, 1), (1, 4), (1, 16), (1, 254), (40, 3), (1000, 1)] {
                for lg_buckets in 0..=22 {
                    if u64::from(vectors * sets) << lg_buckets >= 1 << 27 {
                        continue;
                    }
                    let shifts = (0..sets).collect();
                    let xyzz = u32::is_multiple_of(lg_buckets, 3);
                    let weights = [Weights::All, Weights::Odd][lg_buckets as usize % 2];
                    let shape = Shape { group, vectors, shifts, lg_buckets, weights, xyzz };
                    for ending in
                        [None, Some(Ending::Terms), Some(Ending::Sets), Some(Ending::Vectors)]
                    {
                        for units in [1, 40, 132] {
                            let tuning = Tuning { ending, ..Tuning::on(units, group) };
                            check(&Plan::new(&shape, &tuning));
                        }
                    }
                }
            }
        }
    }
}
