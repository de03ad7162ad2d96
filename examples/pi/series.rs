//! The program that sums the series by binary splitting: it multiplies and adds neighbours until
//! one row is left.
//!
//! For the ranges of terms from a to m - 1 and from m to b - 1, P = P1 P2, Q = Q1 Q2, and
//! T = T1 Q2 + P1 T2 or, after an odd number of terms, T1 Q2 - P1 T2.

use capstan::client::{ClientProgram, ProgramBuilder, ProgramRun, Result, VectorValue};

use super::{
    bounds::TermLimbs,
    last_level::{self, Scaled},
    sizes::Sizes,
};

/// Limbs of T that the client reads to begin its division.
pub const TOP_LIMBS: u64 = 4;

/// P, Q and T of ranges of terms, one range a row.
#[derive(Clone, Copy)]
pub struct Sums {
    pub p: VectorValue,
    pub q: VectorValue,
    pub t: VectorValue,
}

/// Neighbours: each row of `right` has the terms that follow those of the same row of `left`.
pub struct Neighbours {
    pub left: Sums,
    pub right: Sums,
}

/// The program and its values.
pub struct SeriesProgram {
    pub program: ClientProgram,
    /// The leaves of each group.
    pub groups: Vec<VectorValue>,
    pub q: Scaled,
    pub t: Scaled,
    /// The highest limbs of `t`.
    pub top: VectorValue,
}

impl SeriesProgram {
    pub fn new(sizes: &Sizes) -> Result<Self> {
        let mut builder = ProgramBuilder::new();
        let limbs = TermLimbs::of_rows(sizes.terms, sizes.leaf_terms);
        let (mut groups, mut sums) = (Vec::new(), Vec::new());
        for _ in 0..sizes.groups {
            let all = limbs.p + limbs.q + limbs.t;
            let leaves = builder.input_integers(sizes.group_rows, all)?;
            groups.push(leaves);
            sums.push(Sums {
                p: builder.slice(leaves, 0, limbs.p)?,
                q: builder.slice(leaves, limbs.p, limbs.q)?,
                t: builder.slice(leaves, limbs.p + limbs.q, limbs.t)?,
            });
        }
        let mut span = sizes.leaf_terms;
        while 2 * span < sizes.terms {
            let limbs = TermLimbs::of_rows(sizes.terms, 2 * span);
            let neighbours = neighbours(&mut builder, &sums)?;
            let joined = neighbours.iter().map(|pair| join(&mut builder, pair, span, limbs));
            sums = joined.collect::<Result<_>>()?;
            span *= 2;
        }
        let neighbours = neighbours(&mut builder, &sums)?;
        let [q, t] = last_level::join(&mut builder, &neighbours[0], sizes)?;
        let top = builder.slice(t.value, t.value.length() - TOP_LIMBS, TOP_LIMBS)?;
        Ok(Self { program: builder.build()?, groups, q, t, top })
    }

    /// A run without its inputs.
    pub fn run(&self) -> ProgramRun<'static> {
        let run = ProgramRun::new(&self.program);
        run.keep(self.q.value).keep(self.t.value).send(self.top)
    }
}

/// The sign of P1 T2, if the left range has `span` terms.
pub fn sign(span: u64) -> i64 {
    if span.is_multiple_of(2) { 1 } else { -1 }
}

/// Groups hold leaves in turn, so that the first neighbours are in two groups; later ones are rows
/// of one vector.
fn neighbours(builder: &mut ProgramBuilder, sums: &[Sums]) -> Result<Vec<Neighbours>> {
    if let [sums] = sums {
        let [p, q, t] = [sums.p, sums.q, sums.t].map(|value| halves(builder, value));
        let ([p1, p2], [q1, q2], [t1, t2]) = (p?, q?, t?);
        let (left, right) = (Sums { p: p1, q: q1, t: t1 }, Sums { p: p2, q: q2, t: t2 });
        return Ok(vec![Neighbours { left, right }]);
    }
    let pairs = sums.as_chunks().0.iter();
    Ok(pairs.map(|&[left, right]| Neighbours { left, right }).collect())
}

/// The rows with even numbers, and those with odd numbers.
fn halves(builder: &mut ProgramBuilder, value: VectorValue) -> Result<[VectorValue; 2]> {
    let pairs = builder.reshape(value, value.rows() / 2)?;
    let left = builder.slice(pairs, 0, value.length())?;
    Ok([left, builder.slice(pairs, value.length(), value.length())?])
}

fn join(
    builder: &mut ProgramBuilder,
    Neighbours { left, right }: &Neighbours,
    span: u64,
    limbs: TermLimbs,
) -> Result<Sums> {
    let (p, q) = (builder.int_mul(left.p, right.p)?, builder.int_mul(left.q, right.q)?);
    let terms = [builder.int_mul(left.t, right.q)?, builder.int_mul(left.p, right.t)?];
    Ok(Sums {
        p: shortened(builder, p, limbs.p)?,
        q: shortened(builder, q, limbs.q)?,
        t: builder.int_sum(&terms, &[1, sign(span)], limbs.t)?,
    })
}

/// Drops limbs that are zero because the integers have at most `limbs` limbs.
pub fn shortened(
    builder: &mut ProgramBuilder,
    value: VectorValue,
    limbs: u64,
) -> Result<VectorValue> {
    match limbs < value.length() {
        true => builder.slice(value, 0, limbs),
        false => Ok(value),
    }
}
