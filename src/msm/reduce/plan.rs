//! Which launches take how many buckets to how few points. Pure: numbers in, numbers out.

use super::{
    ending,
    shape::{Ending, Shape, Tuning},
    step::{Halves, Ladder, Step, Terms},
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
        let (mut steps, left) = halves(shape, tuning);
        terms(shape, tuning, ending, left, &mut steps);
        let mut areas = [0; 2];
        for (at, step) in steps.iter().enumerate().take(steps.len() - 1) {
            let bytes = step.bytes_out(shape.group).next_multiple_of(ALIGN);
            areas[at % 2] = bytes.max(areas[at % 2]);
        }
        Self { shape: shape.clone(), ending, steps, areas }
    }

    /// The names of the kernels that it launches.
    pub fn kernels(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.kernel(self.shape.group)).collect()
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

/// The steps from buckets to the sums of rows and columns, and what these are.
fn halves(shape: &Shape, tuning: &Tuning) -> (Vec<Step>, Terms) {
    let m = shape.lg_buckets();
    if m <= LG_BUCKETS_SMALL {
        return (vec![], Terms::of(shape));
    }
    let mut steps = Vec::new();
    let mut halves = Halves::whole(shape, m / 2);
    let mut affine = !shape.xyzz;
    let points = 2 * u64::from(shape.arrays()) * u64::from(shape.buckets);
    let sliced = (affine || shape.group == Group::G1) && points >= tuning.slice_points_min;
    if sliced {
        halves = slices(shape, tuning, points);
        steps.push(Step::Slices { halves, affine });
        affine = false;
    }
    if !(sliced && halves.is_whole()) {
        let count = match sliced {
            true => halves.row_parts.max(halves.column_parts),
            false => halves.longest(),
        };
        let team = tuning.team(halves.sums(), count);
        steps.push(Step::Sums { halves, sliced, affine, team });
    }
    (steps, Terms::after(&halves))
}

/// How rows and columns are cut, a slice a thread.
///
/// Powers of two stay with the lengths that were measured, powers of two themselves. Of others, the
/// cut whose longest slices take the least time, as often as threads fill the device with slices.
fn slices(shape: &Shape, tuning: &Tuning, points: u64) -> Halves {
    let (m, threads) = (shape.lg_buckets(), tuning.slice_threads);
    if shape.buckets.is_power_of_two() {
        let lg_length = points.ilog2().saturating_sub(threads.ilog2()).max(LG_SLICE_MIN);
        return Halves::cut(shape, m / 2, 1 << lg_length);
    }
    let least = ((points / threads) as u32).max(1 << LG_SLICE_MIN);
    let cuts = |lg_columns| {
        let whole = Halves::whole(shape, lg_columns);
        let lengths = |all: u32| (1..=(all / least).max(1)).map(move |parts| all.div_ceil(parts));
        let lengths = lengths(whole.columns()).chain(lengths(whole.rows()));
        lengths.map(move |length| Halves::cut(shape, lg_columns, length))
    };
    let time = |halves: &Halves| {
        let rounds = halves.slices().div_ceil(threads);
        (rounds * u64::from(halves.longest()), halves.slices())
    };
    let all = cuts(m / 2).chain(cuts(m.div_ceil(2)));
    all.min_by_key(time).unwrap_or_else(|| Halves::cut(shape, m / 2, least))
}

/// The steps from there to where the device stops.
fn terms(shape: &Shape, tuning: &Tuning, ending: Ending, mut terms: Terms, steps: &mut Vec<Step>) {
    let affine = steps.is_empty() && !shape.xyzz;
    let sums = shape.arrays() * shape.terms();
    let (lg_rows, lg_columns) = terms.lg();
    let lg_most = (lg_rows.max(1) - 1).max(lg_columns); // term 0 has all columns
    terms.lg_parts = if sums < TERMS_FULL { lg_most.saturating_sub(tuning.lg_part) } else { 0 };
    let lg_parts = terms.lg_parts;
    let team = tuning.team(u64::from(sums) << lg_parts, 1 << (lg_most - lg_parts));
    steps.push(Step::Terms { terms, affine, team });
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
    use crate::device::DeviceLimits;

    /// Each launch takes what the one before it left, and what a kernel counts fits its words.
    fn check(plan: &Plan) {
        let (shape, mut left) = (&plan.shape, 0);
        let all = u64::from(shape.arrays()) * u64::from(shape.buckets);
        for (at, step) in plan.steps.iter().enumerate() {
            match *step {
                Step::Slices { halves, .. } => {
                    assert!(at == 0 && all < 1 << 31 && halves.slices() < 1 << 31, "{plan:?}");
                    let within = |all: u32, parts: u32| (1..=all).contains(&parts);
                    assert!(within(halves.columns(), halves.row_parts), "{plan:?}");
                    assert!(within(halves.rows(), halves.column_parts), "{plan:?}");
                }
                Step::Sums { halves, sliced, .. } => {
                    assert_eq!(left, if sliced { halves.slices() } else { 0 }, "{plan:?}");
                    assert!(!(sliced && halves.is_whole()), "{plan:?}");
                }
                Step::Terms { terms, .. } => {
                    let rows = u64::from(terms.arrays) * u64::from(terms.rows);
                    let columns = u64::from(terms.arrays) * u64::from(terms.columns);
                    let given = if at == 0 { columns } else { rows + columns };
                    assert_eq!(given, if at == 0 { all } else { left }, "{plan:?}");
                    let (lg_rows, lg_columns) = terms.lg();
                    assert_eq!(lg_rows + lg_columns, shape.lg_buckets(), "{plan:?}");
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
            Ending::Terms => arrays * u64::from(shape.lg_buckets() + 1),
            Ending::Sets => arrays,
            Ending::Vectors => shape.vectors.into(),
        };
        assert_eq!(left, expected, "{plan:?}");
    }

    /// Around powers of two, and between them.
    fn counts() -> impl Iterator<Item = u32> {
        (0..=22).flat_map(|lg| [1_u32 << lg, (1 << lg) + 1, (2 << lg) - 1, 9 << lg, 5 << lg])
    }

    #[test]
    fn launches_fit_together() {
        for group in [Group::G1, Group::G2] {
            for (vectors, sets) in [(1, 1), (1, 4), (1, 16), (1, 254), (40, 3), (1000, 1)] {
                for (turn, buckets) in counts().enumerate() {
                    if u64::from(vectors * sets) * u64::from(buckets) >= 1 << 27 {
                        continue;
                    }
                    let shifts = (0..sets).collect();
                    let (xyzz, weights) = (turn % 3 == 0, [Weights::All, Weights::Odd][turn % 2]);
                    let shape = Shape { group, vectors, shifts, buckets, weights, xyzz };
                    for ending in
                        [None, Some(Ending::Terms), Some(Ending::Sets), Some(Ending::Vectors)]
                    {
                        for multiprocessors in [1, 40, 132] {
                            let limits = DeviceLimits { multiprocessors, ..DeviceLimits::H200 };
                            let tuning = Tuning { ending, ..Tuning::on(&limits, group) };
                            check(&Plan::new(&shape, &tuning));
                        }
                    }
                }
            }
        }
    }

    fn cut(buckets: u32, sets: u32, multiprocessors: u32) -> Option<Halves> {
        let group = Group::G1;
        let (shifts, weights) = ((0..sets).collect(), Weights::All);
        let shape = Shape { group, vectors: 1, shifts, buckets, weights, xyzz: false };
        let limits = DeviceLimits { multiprocessors, ..DeviceLimits::H200 };
        match Plan::new(&shape, &Tuning::on(&limits, group)).steps[0] {
            Step::Slices { halves, .. } => Some(halves),
            _ => None,
        }
    }

    #[test]
    fn slices_fill_the_device_once() {
        // Slices of so many, on 132 multiprocessors, where 33792 threads are to have one each.
        for (buckets, parts, longest, slices) in [
            (9 << 19, (15, 4), 288, 33664),
            (5 << 18, (13, 16), 80, 33024),
            (1 << 23, (4, 8), 512, 32768),
            (1 << 21, (8, 16), 128, 32768),
            (1 << 17, (32, 64), 8, 32768),
        ] {
            let halves = cut(buckets, 1, 132).expect("many buckets");
            assert_eq!((halves.row_parts, halves.column_parts), parts, "{halves:?}");
            assert_eq!((halves.longest(), halves.slices()), (longest, slices), "{halves:?}");
        }
        for units in [66, 108, 132] {
            let between = |&buckets: &u32| !buckets.is_power_of_two() && buckets < 1 << 23;
            for buckets in counts().filter(|buckets| *buckets > 1 << 17).filter(between) {
                let halves = cut(buckets, 1, units).expect("many buckets");
                let threads = u64::from(units) * 256;
                assert!(halves.slices() <= threads, "{halves:?}");
                let taken = threads * u64::from(halves.longest());
                assert!(16 * u64::from(buckets) >= 7 * taken, "an eighth is lost: {halves:?}");
            }
        }
    }
}
