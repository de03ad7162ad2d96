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

use super::passes::{NttPass, lg_blocks};
use crate::curve::{Decimation, Fr, NttPlan};

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

/// Twiddles within a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TileTwiddles {
    pub lg_e: u32,
    pub inverse: bool,
    pub scaled: Option<ScaledRadix>,
}

/// The twiddles of the top field of radix 2^lg_r are multiplied by `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScaledRadix {
    pub lg_r: u32,
    pub scale: Fr,
}

/// The contents of a table of fused twiddles, for a pass of radix 2^lg_r over 2^lg_above blocks.
/// `base` is the generator to the power of half a last stage's block. `last_step_multiples`
/// is 0 unless the last step leaves single elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FusedTwiddles {
    pub lg_above: u32,
    pub lg_r: u32,
    pub inverse: bool,
    pub base: Fr,
    pub last_step_multiples: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassTwiddles {
    pub lg_block: u32,
    pub tile: TileTwiddles,
    pub fused: Option<FusedTwiddles>,
    pub inter_pass: Option<InterPassTwiddles>,
    /// For the input of forward transforms, and the output of inverse ones.
    pub row_factors: Option<RowFactors>,
}

/// The factors that a transform's tables contain in addition to its twiddles.
struct ExtraFactors {
    /// Whether the coset's powers have rows and columns in natural order.
    natural: bool,
    /// The coset's generator, inverted for inverse transforms.
    base: Fr,
    scale: Fr,
}

/// The tables of all passes, in the order they run.
///
/// Shape: the radices multiply to 2^lg_n; the coset's generator is not zero.
pub(super) fn pass_twiddles(transform: &NttPlan, passes: &[NttPass]) -> Vec<PassTwiddles> {
    let &NttPlan { lg_n, inverse, coset, .. } = transform;
    let base = match coset {
        Some(generator) if inverse => generator.inverse().expect("a coset's generator is not zero"),
        Some(generator) => generator,
        None => Fr::ONE,
    };
    let scale = if inverse { inverse_of_size(lg_n) } else { Fr::ONE };
    let factors = ExtraFactors { natural: has_natural_powers(transform), base, scale };
    let has_fused = passes.iter().any(|pass| pass.fused);
    let last = passes.len().saturating_sub(1);
    let blocks = passes.iter().zip(lg_blocks(passes, transform.decimation())).enumerate();
    blocks
        .map(|(i, (pass, lg_block))| match has_fused {
            true => with_fused_passes(transform, &factors, pass, lg_block),
            false => {
                let is_edge = i == if inverse { last } else { 0 };
                unfused_twiddles(transform, &factors, pass, lg_block, is_edge)
            }
        })
        .collect()
}

/// Whether the coset's powers have rows and columns in natural order.
fn has_natural_powers(transform: &NttPlan) -> bool {
    (transform.decimation() == Decimation::Dif) != transform.inverse
}

/// Whether fused twiddles can contain the coset's powers: these have rows and columns in natural
/// order, or there is no coset.
pub(super) fn coset_is_in_order(transform: &NttPlan) -> bool {
    transform.coset.is_none() || has_natural_powers(transform)
}

/// The tables of a pass if no pass is fused. `is_edge`: the pass multiplies by row factors.
fn unfused_twiddles(
    transform: &NttPlan,
    &ExtraFactors { natural, base, scale }: &ExtraFactors,
    &NttPass { lg_r, lg_e, multiples, .. }: &NttPass,
    lg_block: u32,
    is_edge: bool,
) -> PassTwiddles {
    let &NttPlan { lg_n, inverse, coset, .. } = transform;
    let is_whole = lg_block == lg_n;
    let inter_pass = (multiples > 0).then(|| InterPassTwiddles {
        lg_block,
        lg_r,
        multiples,
        inverse,
        column: if natural && is_whole { base } else { Fr::ONE },
        row: if natural { Fr::ONE } else { square_times(base, lg_n - lg_block) },
        scale: if is_whole { scale } else { Fr::ONE },
    });
    let row_base = square_times(base, if natural { lg_block - lg_r } else { lg_n - lg_block });
    let plain = RowFactors { lg_r, lg_e, reversed: !natural, base: row_base, scale: Fr::ONE };
    let mut row_factors = (coset.is_some() && is_edge).then_some(plain);
    let mut scaled = None;
    if inverse && lg_r == lg_n {
        match &mut row_factors {
            Some(rows) => rows.scale = scale,
            None if lg_r > lg_e => scaled = Some(ScaledRadix { lg_r, scale }),
            None => row_factors = Some(RowFactors { base: Fr::ONE, scale, ..plain }),
        }
    }
    let tile = TileTwiddles { lg_e, inverse, scaled };
    PassTwiddles { lg_block, tile, fused: None, inter_pass, row_factors }
}

/// The tables of a pass if all passes are fused, or all but the rows' pass. Column powers go into
/// the butterflies' twiddles, row powers into the inter-pass table and the rows' pass.
fn with_fused_passes(
    transform: &NttPlan,
    &ExtraFactors { natural, base, scale }: &ExtraFactors,
    &NttPass { lg_r, lg_e, multiples, fused, .. }: &NttPass,
    lg_block: u32,
) -> PassTwiddles {
    let &NttPlan { lg_n, inverse, coset, .. } = transform;
    let (column, row) = if natural { (base, Fr::ONE) } else { (Fr::ONE, base) };
    let lg_rest = lg_block - lg_r;
    PassTwiddles {
        lg_block,
        tile: TileTwiddles { lg_e, inverse, scaled: None },
        fused: fused.then(|| FusedTwiddles {
            lg_above: lg_n - lg_block,
            lg_r,
            inverse,
            base: square_times(column, lg_rest),
            last_step_multiples: if lg_rest == 0 { multiples } else { 0 },
        }),
        inter_pass: (multiples > 0 && lg_rest > 0).then(|| InterPassTwiddles {
            lg_block: lg_n,
            lg_r: lg_n - lg_rest,
            multiples,
            inverse,
            column,
            row,
            scale,
        }),
        row_factors: (!fused && !natural && coset.is_some()).then(|| RowFactors {
            lg_r,
            lg_e,
            reversed: true,
            base: square_times(base, lg_n - lg_r),
            scale: Fr::ONE,
        }),
    }
}

/// `base^(2^lg)`.
pub(super) fn square_times(base: Fr, lg: u32) -> Fr {
    (0..lg).fold(base, |power, _| power.square())
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
