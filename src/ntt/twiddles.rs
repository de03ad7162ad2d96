//! Folds the powers of a coset's generator, and 1/n, into the twiddle tables that a transform needs
//! anyway, plus one table for its first or last pass.
//!
//! On a coset, input i of a forward transform is multiplied by g^i, output j of an inverse one by
//! g^-j. An index is a sum of row and column parts, pass by pass. If the first pass sees rows p and
//! columns k in natural order, g^(p N/R + k) splits into a column factor, which goes into the
//! inter-pass twiddle table, and a row factor. If rows are a bit-reversed part of the index, each
//! pass has its own row factor, which also goes into its inter-pass table, except in the pass that
//! has none. So one pass does one more product per element.

use ark_ff::{AdditiveGroup, FftField, Field};

use super::{Decimation, NttPass, NttTransform};
use crate::curve::Fr;

/// The contents of an inter-pass twiddle table: `scale root^(rev(p) k) column^k row^rev(p)` for row
/// p and column k, with the root of order 2^lg_block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct InterPassTwiddles {
    pub lg_block: u32,
    pub lg_r: u32,
    pub multiples: u32,
    pub inverse: bool,
    pub column: Fr,
    pub row: Fr,
    pub scale: Fr,
}

/// The contents of a table of row factors: `scale base^p`, with p or its bit reversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowFactors {
    pub lg_r: u32,
    pub lg_e: u32,
    pub reversed: bool,
    pub base: Fr,
    pub scale: Fr,
}

/// The contents of a table of twiddles within a tile. With `scaled` = (lg_r, scale), the twiddles
/// of the top field of radix 2^lg_r are multiplied by scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TileTwiddles {
    pub lg_e: u32,
    pub inverse: bool,
    pub scaled: Option<(u32, Fr)>,
}

/// The contents of a table of fused twiddles, for a pass of radix 2^lg_r over 2^lg_above blocks.
/// `base` is the generator to the power of half a last stage's block. `last` is the number of
/// multiples of the last step's twiddles if that step leaves single elements, else 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FusedTwiddles {
    pub lg_above: u32,
    pub lg_r: u32,
    pub inverse: bool,
    pub base: Fr,
    pub last_step_multiples: u32,
}

/// The tables of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassTwiddles {
    pub lg_block: u32,
    pub steps: TileTwiddles,
    pub merged: Option<FusedTwiddles>,
    pub border: Option<InterPassTwiddles>,
    pub rows_first: Option<RowFactors>,
    pub rows_last: Option<RowFactors>,
}

impl PassTwiddles {
    /// Whether two twiddles of the first step of a fused pass are 1.
    pub fn has_unit_twiddles(&self) -> bool {
        self.merged.is_some_and(|merged| merged.lg_above == 0 && merged.base == Fr::ONE)
    }
}

/// The tables of all passes, in the order they run.
///
/// Shape: the radices multiply to 2^lg_n, at least 2; the coset's generator is not zero.
pub(super) fn pass_twiddles(transform: &NttTransform, passes: &[NttPass]) -> Vec<PassTwiddles> {
    let &NttTransform { lg_n, inverse, coset, .. } = transform;
    let descends = transform.decimation() == Decimation::Dif;
    let base = match coset {
        Some(generator) if inverse => generator.inverse().expect("a coset's generator is not zero"),
        Some(generator) => generator,
        None => Fr::ONE,
    };
    let scale = if inverse { inverse_of_size(lg_n) } else { Fr::ONE };
    // Whether the coset's powers have rows and columns in natural order.
    let natural = descends != inverse;
    let power = |lg: u32| (0..lg).fold(base, |power, _| power.square());
    let last = passes.len() - 1;
    let mut lg_block = if descends { lg_n } else { 0 };
    let mut all = Vec::new();
    if passes.iter().any(|pass| pass.fused) {
        return fused_pass_twiddles(transform, passes, base, scale);
    }
    for (i, pass) in passes.iter().enumerate() {
        let &NttPass { lg_r, lg_e, multiples: kept, .. } = pass;
        if !descends {
            lg_block += lg_r;
        }
        let whole = lg_block == lg_n;
        let border = (kept > 0).then(|| InterPassTwiddles {
            lg_block,
            lg_r,
            multiples: kept,
            inverse,
            column: if natural && whole { base } else { Fr::ONE },
            row: if natural { Fr::ONE } else { power(lg_n - lg_block) },
            scale: if whole { scale } else { Fr::ONE },
        });
        let mut steps = TileTwiddles { lg_e, inverse, scaled: None };
        let mut edge = RowFactors { lg_r, lg_e, reversed: !natural, base, scale: Fr::ONE };
        edge.base = power(if natural { lg_block - lg_r } else { lg_n - lg_block });
        let at_edge = i == if inverse { last } else { 0 };
        let mut rows = (coset.is_some() && at_edge).then_some(edge);
        if inverse && last == 0 {
            match &mut rows {
                Some(rows) => rows.scale = scale,
                None if lg_r > lg_e => steps.scaled = Some((lg_r, scale)),
                None => rows = Some(RowFactors { base: Fr::ONE, scale, ..edge }),
            }
        }
        let (rows_first, rows_last) = if inverse { (None, rows) } else { (rows, None) };
        all.push(PassTwiddles { lg_block, steps, merged: None, border, rows_first, rows_last });
        if descends {
            lg_block -= lg_r;
        }
    }
    all
}

/// Whether fused twiddles can contain the coset's powers: these have rows and columns in natural
/// order, or there is no coset.
pub(super) fn coset_is_in_order(transform: &NttTransform) -> bool {
    let descends = transform.decimation() == Decimation::Dif;
    transform.coset.is_none() || descends != transform.inverse
}

/// The tables if all passes are fused, or all but the rows' pass. Column powers go into the
/// butterflies' twiddles, row powers into the inter-pass table and the rows' pass.
fn fused_pass_twiddles(
    transform: &NttTransform,
    passes: &[NttPass],
    base: Fr,
    scale: Fr,
) -> Vec<PassTwiddles> {
    let &NttTransform { lg_n, inverse, coset, .. } = transform;
    let descends = transform.decimation() == Decimation::Dif;
    let natural = descends != inverse;
    let (column, row) = if natural { (base, Fr::ONE) } else { (Fr::ONE, base) };
    let power = |base, lg: u32| (0..lg).fold(base, |power: Fr, _| power.square());
    let mut lg_block = if descends { lg_n } else { 0 };
    let factors = |pass: &NttPass| {
        let &NttPass { lg_r, lg_e, multiples: kept, fused: merged, .. } = pass;
        let (rest, whole) = match descends {
            true => (lg_block - lg_r, lg_block),
            false => (lg_block, lg_block + lg_r),
        };
        lg_block = if descends { rest } else { whole };
        let edge = (!merged && !natural && coset.is_some()).then(|| RowFactors {
            lg_r,
            lg_e,
            reversed: true,
            base: power(base, lg_n - lg_r),
            scale: Fr::ONE,
        });
        PassTwiddles {
            lg_block: whole,
            steps: TileTwiddles { lg_e, inverse, scaled: None },
            merged: merged.then(|| FusedTwiddles {
                lg_above: lg_n - whole,
                lg_r,
                inverse,
                base: power(column, rest),
                last_step_multiples: if rest == 0 { kept } else { 0 },
            }),
            border: (kept > 0 && rest > 0).then(|| {
                let lg_r = lg_n - rest;
                InterPassTwiddles {
                    lg_block: lg_n,
                    lg_r,
                    multiples: kept,
                    inverse,
                    column,
                    row,
                    scale,
                }
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

/// The root of unity of order 2^lg_n that arkworks uses, or its inverse.
pub(super) fn root_of_unity(lg_n: u32, inverse: bool) -> Fr {
    let root = Fr::get_root_of_unity(1 << lg_n).expect("2^32 divides r - 1");
    if inverse { root.inverse().expect("a root is not zero") } else { root }
}
