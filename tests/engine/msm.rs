//! MSMs over bases with known discrete logarithms: the right sum is one multiple of the generator.

use std::{
    any::Any,
    sync::{Arc, LazyLock},
};

use ark_ec::{CurveGroup, PrimeGroup};
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand};
use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};
use capstan::{
    curve::{
        Fr, G1Affine, G2Affine,
        points::{CurvePoint, PointSlice},
        scalars::{ScalarEncoding, encode_fr},
    },
    engine::{EncodedScalars, JobControl, MsmNttEngine, MsmRun},
    error::{EngineError, FieldProblem, Result},
    program::InputSpec,
};

/// More points than most tests use.
const POOL: usize = 4100;

/// Points with their discrete logarithms.
#[derive(Clone)]
struct KnownBases<A> {
    logs: Vec<Fr>,
    points: Vec<A>,
}

fn generate<A: CurvePoint>(count: usize) -> KnownBases<A> {
    let mut rng = StdRng::seed_from_u64(7);
    // A walk by random steps is cheaper than one multiplication for each point.
    let steps: Vec<Fr> = (0..16).map(|_| Fr::rand(&mut rng)).collect();
    let jumps: Vec<A::Group> = steps.iter().map(|step| A::Group::generator() * step).collect();
    let (mut log, mut point) = (Fr::ONE, A::Group::generator());
    let (mut logs, mut group) = (Vec::new(), Vec::new());
    for i in 0..count {
        logs.push(log);
        group.push(point);
        let step = (i * i + i / 16) % 16;
        log += steps[step];
        point += jumps[step];
    }
    KnownBases { logs, points: A::Group::normalize_batch(&group) }
}

static G1: LazyLock<KnownBases<G1Affine>> = LazyLock::new(|| generate(POOL));
static G2: LazyLock<KnownBases<G2Affine>> = LazyLock::new(|| generate(POOL));

impl<A: CurvePoint> KnownBases<A> {
    fn pool() -> &'static Self {
        let pools: [&'static dyn Any; 2] = [&*G1, &*G2];
        pools.into_iter().find_map(<dyn Any>::downcast_ref).expect("a pool of each group")
    }

    /// `n` bases of one of the `SHAPES`, each of which some library got wrong.
    fn shaped(shape: &str, n: usize) -> Self {
        let more = (n > POOL).then(|| generate(n));
        let pool = more.as_ref().unwrap_or_else(|| Self::pool());
        let pick = |i: usize| match shape {
            "distinct" => (pool.logs[i], pool.points[i]),
            "equal" => (pool.logs[5], pool.points[5]),
            "opposite pairs" => match i % 2 {
                0 => (pool.logs[i], pool.points[i]),
                _ => (-pool.logs[i - 1], -pool.points[i - 1]),
            },
            "infinities between" => match i % 3 {
                1 => (pool.logs[i], pool.points[i]),
                _ => (Fr::ZERO, A::zero()),
            },
            "all infinite" => (Fr::ZERO, A::zero()),
            _ => unreachable!("{shape}"),
        };
        let (logs, points) = (0..n).map(pick).unzip();
        Self { logs, points }
    }

    fn sum(&self, values: &[Fr]) -> A::Group {
        let log: Fr = self.logs.iter().zip(values).map(|(log, value)| *log * value).sum();
        A::Group::generator() * log
    }
}

/// Distinct points, as many as most tests need.
pub fn known_points<A: CurvePoint>() -> &'static [A] {
    &KnownBases::<A>::pool().points
}

const SHAPES: [&str; 5] =
    ["distinct", "equal", "opposite pairs", "infinities between", "all infinite"];

/// Encoded scalars and their values.
struct ScalarVector {
    encoding: ScalarEncoding,
    bytes: Vec<u8>,
    values: Vec<Fr>,
}

impl ScalarVector {
    fn canonical(values: Vec<Fr>) -> Self {
        let mut bytes = vec![0; 32 * values.len()];
        encode_fr(ScalarEncoding::Canonical, &values, &mut bytes);
        Self { encoding: ScalarEncoding::Canonical, bytes, values }
    }

    /// Passes scalars `first..first + len` to `run`.
    fn absorb(&self, run: &mut dyn MsmRun, vector: usize, first: usize, len: usize) -> Result<()> {
        self.absorb_under(&JobControl::default(), run, vector, first, len)
    }

    fn absorb_under(
        &self,
        control: &JobControl,
        run: &mut dyn MsmRun,
        vector: usize,
        first: usize,
        len: usize,
    ) -> Result<()> {
        let width = self.encoding.width();
        let bytes = &self.bytes[first * width..(first + len) * width];
        run.absorb(vector, first, &EncodedScalars::new(self.encoding, len, &bytes), control)
    }
}

const DISTRIBUTIONS: [&str; 19] = [
    "uniform",
    "zero",
    "one",
    "r - 1",
    "r - 2^i",
    "one hot",
    "one hot digit",
    "0, 1, -1",
    "u8",
    "sorted",
    "high",
    "unsigned 1",
    "unsigned 8",
    "unsigned 16",
    "signed 1",
    "signed 2",
    "signed 4",
    "signed 8",
    "signed 16",
];

fn values(distribution: &str, n: usize) -> ScalarVector {
    let mut rng = StdRng::seed_from_u64(n as u64);
    if let Some((kind, width)) = distribution.split_once(' ')
        && let Some(encoding) = match kind {
            "signed" => Some(ScalarEncoding::Signed as fn(u8) -> _),
            "unsigned" => Some(ScalarEncoding::Unsigned as fn(u8) -> _),
            _ => None,
        }
    {
        return narrow_scalars(&mut rng, encoding(width.parse().unwrap()), n);
    }
    let mut values: Vec<Fr> = (0..n)
        .map(|i| match distribution {
            "uniform" | "sorted" => Fr::rand(&mut rng),
            "zero" => Fr::ZERO,
            "one" => Fr::ONE,
            "r - 1" => -Fr::ONE,
            "r - 2^i" => -Fr::from(2).pow([i as u64 % 255]),
            "one hot" if i == n / 2 => Fr::rand(&mut rng),
            "one hot" => Fr::ZERO,
            // All points have the same nonzero digit in one window.
            "one hot digit" => Fr::from(2).pow([[3, 70, 200, 254][n % 4]]),
            "0, 1, -1" => [Fr::ZERO, Fr::ONE, -Fr::ONE][rng.gen_range(0..3)],
            "u8" => Fr::from(rng.r#gen::<u8>()),
            // 2^254 and 2^254 - 1: every digit is at an end of its range.
            "high" => Fr::from(2).pow([254]) - Fr::from(u64::from(rng.gen_bool(0.5))),
            _ => unreachable!("{distribution}"),
        })
        .collect();
    if distribution == "sorted" {
        values.sort();
    }
    ScalarVector::canonical(values)
}

fn narrow_scalars(rng: &mut StdRng, encoding: ScalarEncoding, n: usize) -> ScalarVector {
    let width = encoding.width();
    let mut bytes = vec![0; n * width];
    rng.fill(&mut bytes[..]);
    // The minimum of a signed type, whose negative does not fit its width.
    if let Some(last) = bytes.rchunks_mut(width).next() {
        last.fill(0);
        last[width - 1] = 0x80;
    }
    let values = bytes.chunks(width).map(|element| {
        let value = Fr::from_le_bytes_mod_order(element);
        let negative = matches!(encoding, ScalarEncoding::Signed(_)) && element[width - 1] >= 0x80;
        if negative { value - Fr::from(2).pow([8 * width as u64]) } else { value }
    });
    let values = values.collect();
    ScalarVector { encoding, bytes, values }
}

/// Runs an MSM of one vector in one piece.
fn run<A: CurvePoint>(engine: &dyn MsmNttEngine, points: &[A], values: &ScalarVector) -> A::Group {
    let points = PointSlice::new(Arc::new(points.to_vec()));
    let mut run = engine.msm(A::into_bases(points), 1).unwrap();
    values.absorb(run.as_mut(), 0, 0, values.values.len()).unwrap();
    A::from_sums(run.finish().unwrap().sums).unwrap()[0]
}

fn check<A: CurvePoint>(engine: &dyn MsmNttEngine, shape: &str, distribution: &str, n: usize) {
    let bases = KnownBases::<A>::shaped(shape, n);
    let values = values(distribution, n);
    let sum = run(engine, &bases.points, &values);
    assert_eq!(sum, bases.sum(&values.values), "{n} bases {shape}, scalars {distribution}");
}

/// One in `step` sizes up to 130, with uniform scalars and with another distribution; with only one
/// of the two if `every` is above 1.
pub fn small_sizes<A: CurvePoint>(engine: &dyn MsmNttEngine, step: usize, every: usize) {
    for n in (0..=130).step_by(step) {
        if n % every == 0 {
            check::<A>(engine, "distinct", "uniform", n);
        }
        // Over all sizes, every shape is combined with every distribution.
        if every == 1 || n % every != 0 {
            let shape = SHAPES[n % SHAPES.len()];
            check::<A>(engine, shape, DISTRIBUTIONS[n % DISTRIBUTIONS.len()], n);
        }
    }
}

/// Each power of two, one less and one more.
pub fn around_powers(lg_n: std::ops::RangeInclusive<u32>) -> Vec<usize> {
    lg_n.flat_map(|lg_n| [(1 << lg_n) - 1, 1 << lg_n, (1 << lg_n) + 1]).collect()
}

pub fn around_powers_of_two<A: CurvePoint>(engine: &dyn MsmNttEngine, sizes: &[usize]) {
    assert!(!sizes.is_empty());
    for &n in sizes {
        check::<A>(engine, "distinct", "uniform", n);
    }
}

/// Every distribution and every shape at every size; if `every` is above 1, at some sizes.
pub fn every_distribution<A: CurvePoint>(engine: &dyn MsmNttEngine, sizes: &[usize], every: usize) {
    for &n in sizes {
        let chosen = |&(i, _): &(usize, _)| (i + n) % every == 0;
        for (i, distribution) in DISTRIBUTIONS.iter().enumerate().filter(chosen) {
            check::<A>(engine, "distinct", distribution, n);
            check::<A>(engine, SHAPES[1 + (i + n) % (SHAPES.len() - 1)], distribution, n);
        }
        for (_, shape) in SHAPES.iter().enumerate().filter(chosen) {
            check::<A>(engine, shape, "uniform", n);
        }
    }
}

pub fn pieces_and_batches<A: CurvePoint>(engine: &dyn MsmNttEngine) {
    const N: usize = 150;
    let bases = KnownBases::<A>::shaped("distinct", N + 9);
    let slice = PointSlice::new(Arc::new(bases.points.clone())).slice(9, N).unwrap();
    let vectors = ["uniform", "0, 1, -1", "signed 8", "zero"];
    let all: Vec<ScalarVector> = vectors.iter().map(|vector| values(vector, N)).collect();
    let mut run = engine.msm(A::into_bases(slice), all.len()).unwrap();
    // (first, length): out of order, with an empty piece and pieces of one scalar.
    for (first, len) in [(100, 50), (0, 1), (1, 0), (2, 98), (1, 1)] {
        for (vector, values) in all.iter().enumerate() {
            values.absorb(run.as_mut(), vector, first, len).unwrap();
        }
    }
    let sums = A::from_sums(run.finish().unwrap().sums).unwrap();
    let right = KnownBases { logs: bases.logs[9..].to_vec(), points: Vec::<A>::new() };
    for ((sum, values), name) in sums.iter().zip(&all).zip(vectors) {
        assert_eq!(*sum, right.sum(&values.values), "{name}");
    }
    let mut none = engine.msm(A::into_bases(PointSlice::new(Arc::new(vec![]))), 2).unwrap();
    assert_eq!(A::from_sums(none.finish().unwrap().sums).unwrap(), vec![A::Group::ZERO; 2]);
}

pub fn stops_on_cancellation_and_deadline(engine: &dyn MsmNttEngine) {
    let bases = KnownBases::<G1Affine>::shaped("distinct", 200);
    let points = PointSlice::new(Arc::new(bases.points));
    let values = values("uniform", 200);
    let mut run = engine.msm(G1Affine::into_bases(points), 1).unwrap();
    let mut absorb = |control: &JobControl| values.absorb_under(control, run.as_mut(), 0, 0, 200);
    let cancelled = JobControl::default();
    cancelled.cancel();
    assert_eq!(absorb(&cancelled), Err(EngineError::Cancelled));
    let late = JobControl::new(Some(std::time::Instant::now()));
    assert_eq!(absorb(&late), Err(EngineError::Deadline));
}

/// Each encoding gives the sum of the values that it encodes. A scalar that is not canonical is
/// reduced if that was asked for, else refused with its index, by `absorb` or `finish`.
pub fn encodings_are_checked(engine: &dyn MsmNttEngine) {
    const N: usize = 70;
    let bases = KnownBases::<G1Affine>::shaped("distinct", N);
    let points = PointSlice::new(Arc::new(bases.points.clone()));
    let mut integers = values("uniform", N).bytes;
    // Replace three scalars with r, 2r and 2^256 - 1.
    let r = Fr::MODULUS;
    let mut twice = r;
    twice.mul2();
    integers[32 * 41..][..32].copy_from_slice(&r.to_bytes_le());
    integers[32 * 42..][..32].copy_from_slice(&twice.to_bytes_le());
    integers[32 * 69..][..32].fill(0xff);
    let reduced = |bytes: &[u8]| Fr::from_le_bytes_mod_order(bytes);
    let canonical: Vec<Fr> = integers.chunks(32).map(reduced).collect();
    // Read as Montgomery limbs, an integer x means x / 2^256.
    let radix = Fr::from(2).pow([256]).inverse().unwrap();
    let montgomery: Vec<Fr> = canonical.iter().map(|value| *value * radix).collect();
    for (encoding, expected) in
        [(ScalarEncoding::Canonical, canonical), (ScalarEncoding::Montgomery, montgomery)]
    {
        let bytes = &integers[..];
        let sum = |reduce| {
            let mut run = engine.msm(G1Affine::into_bases(points.clone()), 1)?;
            let spec = InputSpec { encoding, count: N as u64, reduce };
            let scalars = EncodedScalars { spec, first: 1000, source: &bytes };
            run.absorb(0, 0, &scalars, &JobControl::default())?;
            run.finish().map(|computed| computed.sums)
        };
        assert_eq!(G1Affine::from_sums(sum(true).unwrap()).unwrap()[0], bases.sum(&expected));
        match sum(false) {
            Err(error) => {
                assert_eq!(
                    error,
                    EngineError::element("elements", 1041, FieldProblem::NotCanonical)
                )
            }
            Ok(_) => panic!("accepted a scalar that is not canonical"),
        }
    }
}
