//! Plans the launches that reduce buckets to few points. Pure: numbers in, numbers out.

use super::{
    shape::{HostTakeover, ReduceShape, ReduceTuning},
    step::{BitTerms, BucketMatrix, PeriodicDoublings, ReduceStep},
    takeover,
};
use crate::{curve::Group, device::ALIGN};

/// From this many terms on a GPU is full without splitting them into parts.
const FULL_DEVICE_TERMS: u32 = 256;
/// Sets of at most this many buckets (log2) have terms directly, without rows and columns.
const LG_BUCKETS_SMALL: u32 = 5;
/// A thread's slice has at least 2^LG_SLICE_MIN points.
const LG_SLICE_MIN: u32 = 2;

/// The launches for a shape, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReducePlan {
    pub shape: ReduceShape,
    /// The step at which the host takes over.
    pub host_step: HostTakeover,
    pub steps: Vec<ReduceStep>,
    /// Bytes of two scratch areas, written in turn; the last step writes to the caller's memory.
    pub(super) areas: [u64; 2],
}

impl ReducePlan {
    pub fn new(shape: &ReduceShape, tuning: &ReduceTuning) -> Self {
        Self::until(takeover::choose(shape), shape, tuning)
    }

    /// One plan for each step at which the host can take over, for tests and benchmarks.
    pub fn all(shape: &ReduceShape, tuning: &ReduceTuning) -> Vec<Self> {
        takeover::possible(shape).map(|step| Self::until(step, shape, tuning)).collect()
    }

    fn until(host_step: HostTakeover, shape: &ReduceShape, tuning: &ReduceTuning) -> Self {
        let mut steps = Vec::new();
        let terms = add_rows_and_columns(shape, tuning, &mut steps);
        add_terms(shape, tuning, host_step, terms, &mut steps);
        let mut areas = [0; 2];
        for (i, step) in steps.iter().enumerate().take(steps.len() - 1) {
            let bytes = step.bytes_out(shape.group).next_multiple_of(ALIGN);
            areas[i % 2] = bytes.max(areas[i % 2]);
        }
        Self { shape: shape.clone(), host_step, steps, areas }
    }

    pub fn kernels(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.kernel(self.shape.group)).collect()
    }

    pub fn workspace_bytes(&self) -> u64 {
        self.areas[0] + self.areas[1]
    }

    /// Points that the device returns, in XYZZ.
    pub fn output_points(&self) -> u64 {
        self.steps.last().map_or(0, ReduceStep::points_out)
    }

    /// Bytes of these points, which [`super::Reducer::run`] writes and
    /// [`super::combine_on_host`] reads.
    pub fn output_bytes(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.bytes_out(self.shape.group))
    }
}

/// Adds the steps from buckets to the sums of rows and columns. Returns the terms to make of these.
fn add_rows_and_columns(
    shape: &ReduceShape,
    tuning: &ReduceTuning,
    steps: &mut Vec<ReduceStep>,
) -> BitTerms {
    let lg_buckets = shape.lg_buckets();
    if lg_buckets <= LG_BUCKETS_SMALL {
        return BitTerms::of_buckets(shape);
    }
    let mut matrix = BucketMatrix::unsliced(shape, lg_buckets / 2);
    let mut affine = !shape.xyzz;
    let points = 2 * u64::from(shape.set_count()) * u64::from(shape.buckets);
    let sliced = (affine || shape.group == Group::G1) && points >= tuning.slice_points_min;
    if sliced {
        matrix = slices(shape, tuning, points);
        steps.push(ReduceStep::Slices { matrix, affine });
        affine = false;
    }
    if !(sliced && matrix.is_whole()) {
        let parts = matrix.row_parts.max(matrix.column_parts);
        let count = if sliced { parts } else { matrix.longest() };
        let team = tuning.team_size(matrix.sums(), count);
        steps.push(ReduceStep::Sums { matrix, sliced, affine, team });
    }
    BitTerms::of_sums(&matrix)
}

/// Splits rows and columns into slices, one per thread.
///
/// A power of two of buckets uses the tuned lengths, powers of two themselves. Other counts use the
/// split with the least time: the longest slice times the number of waves of threads.
fn slices(shape: &ReduceShape, tuning: &ReduceTuning, points: u64) -> BucketMatrix {
    let lg_buckets = shape.lg_buckets();
    let threads = tuning.slice_threads;
    if shape.buckets.is_power_of_two() {
        let lg_length = points.ilog2().saturating_sub(threads.ilog2()).max(LG_SLICE_MIN);
        return BucketMatrix::in_slices(shape, lg_buckets / 2, 1 << lg_length);
    }
    let length_min = ((points / threads) as u32).max(1 << LG_SLICE_MIN);
    let splits = |lg_columns| {
        let unsliced = BucketMatrix::unsliced(shape, lg_columns);
        let lengths =
            |all: u32| (1..=(all / length_min).max(1)).map(move |parts| all.div_ceil(parts));
        let lengths = lengths(unsliced.columns()).chain(lengths(unsliced.rows()));
        lengths.map(move |length| BucketMatrix::in_slices(shape, lg_columns, length))
    };
    let time = |matrix: &BucketMatrix| {
        let waves = matrix.slices().div_ceil(threads);
        (waves * u64::from(matrix.longest()), matrix.slices())
    };
    let all = splits(lg_buckets / 2).chain(splits(lg_buckets.div_ceil(2)));
    all.min_by_key(time)
        .unwrap_or_else(|| BucketMatrix::in_slices(shape, lg_buckets / 2, length_min))
}

/// Adds the steps from the sums of rows and columns to the step at which the host takes over.
fn add_terms(
    shape: &ReduceShape,
    tuning: &ReduceTuning,
    host_step: HostTakeover,
    mut terms: BitTerms,
    steps: &mut Vec<ReduceStep>,
) {
    let affine = steps.is_empty() && !shape.xyzz;
    let sums = shape.set_count() * shape.terms();
    let lg_points_max = (terms.lg_rows().max(1) - 1).max(terms.lg_columns()); // of term 0: columns
    let lg_parts =
        if sums < FULL_DEVICE_TERMS { lg_points_max.saturating_sub(tuning.lg_part) } else { 0 };
    terms.lg_parts = lg_parts;
    let team = tuning.team_size(u64::from(sums) << lg_parts, 1 << (lg_points_max - lg_parts));
    steps.push(ReduceStep::Terms { terms, affine, team });
    let mut combine = |sums: u32, count: u32, doublings| {
        let team = tuning.team_size(sums.into(), count);
        steps.push(ReduceStep::Combine { sums, count, team, doublings });
    };
    let none = PeriodicDoublings::NONE;
    if host_step == HostTakeover::Terms {
        if lg_parts > 0 {
            combine(sums, 1 << lg_parts, none);
        }
        return;
    }
    combine(sums, 1 << lg_parts, PeriodicDoublings::of_terms(shape));
    let of_sets = PeriodicDoublings::of_sets(shape);
    let of_sets = of_sets.filter(|_| host_step == HostTakeover::Vectors).unwrap_or(none);
    combine(shape.set_count(), shape.terms(), of_sets);
    if host_step == HostTakeover::Vectors && shape.sets() > 1 {
        combine(shape.vectors, shape.sets(), none);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::shape::BucketWeights, *};
    use crate::device::DeviceLimits;

    /// Each launch reads what the previous one wrote, and counts fit the kernels' words.
    fn check(plan: &ReducePlan) {
        let shape = &plan.shape;
        let mut left = 0;
        let all = u64::from(shape.set_count()) * u64::from(shape.buckets);
        for (i, step) in plan.steps.iter().enumerate() {
            match *step {
                ReduceStep::Slices { matrix, .. } => {
                    assert!(i == 0 && all < 1 << 31 && matrix.slices() < 1 << 31, "{plan:?}");
                    let within = |all: u32, parts: u32| (1..=all).contains(&parts);
                    assert!(within(matrix.columns(), matrix.row_parts), "{plan:?}");
                    assert!(within(matrix.rows(), matrix.column_parts), "{plan:?}");
                }
                ReduceStep::Sums { matrix, sliced, .. } => {
                    assert_eq!(left, if sliced { matrix.slices() } else { 0 }, "{plan:?}");
                    assert!(!(sliced && matrix.is_whole()), "{plan:?}");
                }
                ReduceStep::Terms { terms, .. } => {
                    let rows = u64::from(terms.set_count) * u64::from(terms.rows);
                    let columns = u64::from(terms.set_count) * u64::from(terms.columns);
                    let given = if i == 0 { columns } else { rows + columns };
                    assert_eq!(given, if i == 0 { all } else { left }, "{plan:?}");
                    let lg_terms = terms.lg_rows() + terms.lg_columns();
                    assert_eq!(lg_terms, shape.lg_buckets(), "{plan:?}");
                }
                ReduceStep::Combine { sums, count, .. } => {
                    assert_eq!(u64::from(sums) * u64::from(count), left, "{plan:?}");
                }
            }
            if let ReduceStep::Sums { team, .. }
            | ReduceStep::Terms { team, .. }
            | ReduceStep::Combine { team, .. } = *step
            {
                assert!(team.is_power_of_two() && team <= 32, "{plan:?}");
            }
            left = step.points_out();
            if i + 1 < plan.steps.len() {
                assert!(step.bytes_out(shape.group) <= plan.areas[i % 2], "{plan:?}");
            }
        }
        let set_count = u64::from(shape.vectors) * u64::from(shape.sets());
        let expected = match plan.host_step {
            HostTakeover::Terms => set_count * u64::from(shape.lg_buckets() + 1),
            HostTakeover::Sets => set_count,
            HostTakeover::Vectors => shape.vectors.into(),
        };
        assert_eq!(left, expected, "{plan:?}");
    }

    /// Counts around powers of two, and between them.
    fn counts() -> impl Iterator<Item = u32> {
        (0..=22).flat_map(|lg| [1_u32 << lg, (1 << lg) + 1, (2 << lg) - 1, 9 << lg, 5 << lg])
    }

    #[test]
    fn each_launch_reads_what_the_previous_wrote() {
        for group in [Group::G1, Group::G2] {
            for (vectors, sets) in [(1, 1), (1, 4), (1, 16), (1, 254), (40, 3), (1000, 1)] {
                for (turn, buckets) in counts().enumerate() {
                    if u64::from(vectors * sets) * u64::from(buckets) >= 1 << 27 {
                        continue;
                    }
                    let shifts = (0..sets).collect();
                    let xyzz = turn % 3 == 0;
                    let weights = [BucketWeights::Consecutive, BucketWeights::Odd][turn % 2];
                    let shape = ReduceShape { group, vectors, shifts, buckets, weights, xyzz };
                    for multiprocessors in [1, 40, 132] {
                        let limits = DeviceLimits { multiprocessors, ..DeviceLimits::H200 };
                        let tuning = ReduceTuning::for_limits(&limits, group);
                        let plans = ReducePlan::all(&shape, &tuning);
                        plans.iter().for_each(check);
                        assert!(plans.contains(&ReducePlan::new(&shape, &tuning)));
                    }
                }
            }
        }
    }

    fn sliced(buckets: u32, sets: u32, multiprocessors: u32) -> Option<BucketMatrix> {
        let group = Group::G1;
        let shifts = (0..sets).collect();
        let weights = BucketWeights::Consecutive;
        let shape = ReduceShape { group, vectors: 1, shifts, buckets, weights, xyzz: false };
        let limits = DeviceLimits { multiprocessors, ..DeviceLimits::H200 };
        match ReducePlan::new(&shape, &ReduceTuning::for_limits(&limits, group)).steps[0] {
            ReduceStep::Slices { matrix, .. } => Some(matrix),
            _ => None,
        }
    }

    #[test]
    fn slices_fill_the_device_in_one_wave() {
        // 132 multiprocessors hold 33792 threads, one per slice.
        for (buckets, parts, longest, slices) in [
            (9 << 19, (15, 4), 288, 33664),
            (5 << 18, (13, 16), 80, 33024),
            (1 << 23, (4, 8), 512, 32768),
            (1 << 21, (8, 16), 128, 32768),
            (1 << 17, (32, 64), 8, 32768),
        ] {
            let matrix = sliced(buckets, 1, 132).expect("many buckets");
            assert_eq!((matrix.row_parts, matrix.column_parts), parts, "{matrix:?}");
            assert_eq!((matrix.longest(), matrix.slices()), (longest, slices), "{matrix:?}");
        }
        for units in [66, 108, 132] {
            let between = |&buckets: &u32| !buckets.is_power_of_two() && buckets < 1 << 23;
            for buckets in counts().filter(|buckets| *buckets > 1 << 17).filter(between) {
                let matrix = sliced(buckets, 1, units).expect("many buckets");
                let threads = u64::from(units) * 256;
                assert!(matrix.slices() <= threads, "{matrix:?}");
                let taken = threads * u64::from(matrix.longest());
                assert!(16 * u64::from(buckets) >= 7 * taken, "over 1/8 is idle: {matrix:?}");
            }
        }
    }
}
