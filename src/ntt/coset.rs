//! Where the powers of a coset's generator, and 1/n, go: into tables that a transform has anyway,
//! and one table of its first or last pass.
//!
//! On a coset, input i of a forward transform is multiplied by g^i, output j of an inverse one by
//! g^-j. An index is the sum of its parts: those of row and column, pass by pass. Where the first
//! pass sees rows p and columns k of the natural order, g^(p N/R + k) is one factor for the column,
//! which goes into the border's table, and one for the row. Where rows are a bit-reversed part of
//! the index, each pass has its own, which goes into its border's table, too, but for the pass that
//! has no border. So one pass has a product more for each element.

use ark_ff::{AdditiveGroup, FftField, Field};

use super::{Pass, Transform, Way};
use crate::curve::Fr;

/// What a border's table holds: `scale root^(rev(p) k) column^k row^rev(p)`, with the root of order
/// 2^lg_block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Border {
    pub lg_block: u32,
    pub lg_r: u32,
    pub kept: u32,
    pub inverse: bool,
    pub column: Fr,
    pub row: Fr,
    pub scale: Fr,
}

/// What a table of rows holds, and when it is used: `scale base^p`, of p or of its bits in reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Rows {
    pub lg_r: u32,
    pub lg_e: u32,
    pub reversed: bool,
    pub base: Fr,
    pub scale: Fr,
}

/// What a table of step factors holds. Where `scale` is not 1 the factors of radix 2^lg_r's top
/// field are multiplied by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Steps {
    pub lg_e: u32,
    pub inverse: bool,
    pub scaled: Option<(u32, Fr)>,
}

/// What a table of merged factors holds: those of a pass of radix 2^lg_r over 2^lg_above blocks.
/// `base` is the generator to the power of half the elements of a last stage's block. `last` is how
/// many multiples are kept of the last step's factors, where that leaves single elements; else 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Merged {
    pub lg_above: u32,
    pub lg_r: u32,
    pub inverse: bool,
    pub base: Fr,
    pub last: u32,
}

/// The factors of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factors {
    pub lg_block: u32,
    pub steps: Steps,
    pub merged: Option<Merged>,
    pub border: Option<Border>,
    pub rows_first: Option<Rows>,
    pub rows_last: Option<Rows>,
}

impl Factors {
    /// Whether two of the first factors of a merged pass are 1.
    pub fn is_plain(&self) -> bool {
        self.merged.is_some_and(|merged| merged.lg_above == 0 && merged.base == Fr::ONE)
    }
}

/// The factors of all passes, in their order.
///
/// Shape: `passes` multiply up to 2^lg_n, which is at least 2; the coset's generator is not zero.
pub(super) fn factors(transform: &Transform, passes: &[Pass]) -> Vec<Factors> {
    let &Transform { lg_n, inverse, coset, .. } = transform;
    let descends = transform.way() == Way::Descend;
    let base = match coset {
        Some(generator) if inverse => generator.inverse().expect("not zero"),
        Some(generator) => generator,
        None => Fr::ONE,
    };
    let scale = if inverse { inverse_of_size(lg_n) } else { Fr::ONE };
    // Whether rows and columns that the coset's powers go by are in natural order.
    let natural = descends != inverse;
    let power = |lg: u32| (0..lg).fold(base, |power, _| power.square());
    let last = passes.len() - 1;
    let mut lg_block = if descends { lg_n } else { 0 };
    let mut all = Vec::new();
    if passes.iter().any(|pass| pass.merged) {
        return merged_factors(transform, passes, base, scale);
    }
    for (i, pass) in passes.iter().enumerate() {
        let &Pass { lg_r, lg_e, kept, .. } = pass;
        if !descends {
            lg_block += lg_r;
        }
        let whole = lg_block == lg_n;
        let border = (kept > 0).then(|| Border {
            lg_block,
            lg_r,
            kept,
            inverse,
            column: if natural && whole { base } else { Fr::ONE },
            row: if natural { Fr::ONE } else { power(lg_n - lg_block) },
            scale: if whole { scale } else { Fr::ONE },
        });
        let mut steps = Steps { lg_e, inverse, scaled: None };
        let mut edge = Rows { lg_r, lg_e, reversed: !natural, base, scale: Fr::ONE };
        edge.base = power(if natural { lg_block - lg_r } else { lg_n - lg_block });
        let at_edge = i == if inverse { last } else { 0 };
        let mut rows = (coset.is_some() && at_edge).then_some(edge);
        if inverse && last == 0 {
            match &mut rows {
                Some(rows) => rows.scale = scale,
                None if lg_r > lg_e => steps.scaled = Some((lg_r, scale)),
                None => rows = Some(Rows { base: Fr::ONE, scale, ..edge }),
            }
        }
        let (rows_first, rows_last) = if inverse { (None, rows) } else { (rows, None) };
        all.push(Factors { lg_block, steps, merged: None, border, rows_first, rows_last });
        if descends {
            lg_block -= lg_r;
        }
    }
    all
}

/// Whether a coset's powers go by rows and columns in natural order, so that merged passes have
/// them in their butterflies; there are none without a coset.
pub(super) fn is_natural(transform: &Transform) -> bool {
    let descends = transform.way() == Way::Descend;
    transform.coset.is_none() || descends != transform.inverse
}

/// The same where all are merged, or all but the rows' pass. Powers of columns go into butterflies,
/// those of rows into the border and the rows' pass.
fn merged_factors(transform: &Transform, passes: &[Pass], base: Fr, scale: Fr) -> Vec<Factors> {
    let &Transform { lg_n, inverse, coset, .. } = transform;
    let descends = transform.way() == Way::Descend;
    let natural = descends != inverse;
    let (column, row) = if natural { (base, Fr::ONE) } else { (Fr::ONE, base) };
    let power = |base, lg: u32| (0..lg).fold(base, |power: Fr, _| power.square());
    let mut lg_block = if descends { lg_n } else { 0 };
    let factors = |pass: &Pass| {
        let &Pass { lg_r, lg_e, kept, merged, .. } = pass;
        let (rest, whole) = match descends {
            true => (lg_block - lg_r, lg_block),
            false => (lg_block, lg_block + lg_r),
        };
        lg_block = if descends { rest } else { whole };
        let edge = (!merged && !natural && coset.is_some()).then(|| Rows {
            lg_r,
            lg_e,
            reversed: true,
            base: power(base, lg_n - lg_r),
            scale: Fr::ONE,
        });
        Factors {
            lg_block: whole,
            steps: Steps { lg_e, inverse, scaled: None },
            merged: merged.then(|| Merged {
                lg_above: lg_n - whole,
                lg_r,
                inverse,
                base: power(column, rest),
                last: if rest == 0 { kept } else { 0 },
            }),
            border: (kept > 0 && rest > 0).then(|| {
                let lg_r = lg_n - rest;
                Border { lg_block: lg_n, lg_r, kept, inverse, column, row, scale }
            }),
            rows_first: edge.filter(|_| !inverse),
            rows_last: edge.filter(|_| inverse),
        }
    };
    passes.iter().map(factors).collect()
}

/// 2^-lg_n.
pub(super) fn inverse_of_size(lg_n: u32) -> Fr {
    let half = Fr::ONE.double().inverse().expect("two is not zero");
    half.pow([u64::from(lg_n)])
}

/// A root of order 2^lg_n, as arkworks chooses it, or its inverse.
pub(super) fn root(lg_n: u32, inverse: bool) -> Fr {
    let root = Fr::get_root_of_unity(1 << lg_n).expect("2^32 divides r - 1");
    if inverse { root.inverse().expect("a root is not zero") } else { root }
}
