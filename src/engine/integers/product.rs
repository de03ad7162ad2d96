//! Products of rows of limbs, by a library or by transforms.

use rayon::prelude::*;

use super::{
    factors::{FactorLimbs, IntegerFactors},
    library,
    limbs::set_limbs,
    sizes::{ProductSize, SizeTransform},
    transforms::{residues, working_elements},
};
use crate::{
    engines::{EngineModel, ExecutedBy, JobControl, MsmNttEngine},
    error::{Error, Result},
    field::{FieldId, Prime31},
    operation::PRODUCT_LIMBS_MAX,
};

/// Limbs of the longest short factor: of 8192, transforms on one thread take three fifths of the
/// library's time (`benches/experiments/integers.md`).
const SHORT_LIMBS: u64 = 6 << 10;
/// The same on the oracle, which checks transforms by the library if that takes at most a second.
const ORACLE_SHORT_LIMBS: u64 = 1 << 19;

/// Whether the library multiplies factors of these numbers of limbs, on an oracle or not.
pub fn is_short(a: u64, b: u64, is_oracle: bool) -> bool {
    a.min(b) <= if is_oracle { ORACLE_SHORT_LIMBS } else { SHORT_LIMBS }
}

/// Bytes of working memory of [`multiply`], in addition to factors and products.
pub fn working_bytes(factors: FactorLimbs, is_square: bool, engine: &dyn EngineModel) -> u64 {
    let FactorLimbs { a, b, rows } = factors;
    let limb_bytes = FieldId::Integers.element_bytes();
    if is_short(a, b, engine.is_oracle()) {
        return (library::working_limbs(a, b) * limb_bytes).saturating_mul(rows.into());
    }
    let size = size(a + b, engine);
    let group = (group_rows(size, engine) as u64).min(rows.into());
    let scratch = size.transforms().into_iter().map(|SizeTransform { lg_n, .. }| {
        engine.ntt_scratch_bytes(FieldId::Prime31(Prime31::BabyBear), lg_n)
    });
    limb_bytes * working_elements(size, is_square) * group + scratch.max().unwrap_or(0)
}

/// The oracle uses other transforms, too.
fn size(limbs: u64, engine: &(impl EngineModel + ?Sized)) -> ProductSize {
    if engine.is_oracle() { ProductSize::whole(limbs) } else { ProductSize::of(limbs) }
}

/// Sets the rows of `out` to the products, on the current rayon pool and on the engine. Returns
/// what computed them if that was the engine.
///
/// Shape: all rows of a factor have the same length; rows of the product have as many limbs as both
/// factors, at most [`PRODUCT_LIMBS_MAX`].
/// Errors: `Internal` for other shapes; those of the engine.
pub fn multiply(
    engine: &dyn MsmNttEngine,
    factors: IntegerFactors<'_>,
    out: &mut [Vec<u32>],
    control: &JobControl,
) -> Result<Option<ExecutedBy>> {
    let IntegerFactors { a, b } = factors;
    let length = |rows: &[Vec<u32>]| rows.first().map_or(0, Vec::len) as u64;
    let [of_a, of_b] = [length(a), length(b.unwrap_or(a))];
    check_shape(factors, out)?;
    if is_short(of_a, of_b, engine.is_oracle()) {
        let rows = a.par_iter().zip(b.unwrap_or(a)).zip(out);
        rows.try_for_each(|((a, other), out)| match b {
            Some(_) => library::product(a, other, out, control),
            None => control.check().map(|()| library::square(a, out)),
        })?;
        return Ok(None);
    }
    by_transforms(engine, factors, size(of_a + of_b, engine), out, control)
}

/// Like [`multiply`], by transforms of a size that has at least the limbs of the products.
pub fn by_transforms(
    engine: &dyn MsmNttEngine,
    factors: IntegerFactors<'_>,
    size: ProductSize,
    out: &mut [Vec<u32>],
    control: &JobControl,
) -> Result<Option<ExecutedBy>> {
    let group = group_rows(size, engine);
    let mut executor = None;
    for (number, out) in out.chunks_mut(group).enumerate() {
        let first = number * group;
        let factors = factors.rows(first..first + out.len());
        let residues = residues(engine, factors, size, &mut executor, control)?;
        let rows = out.par_iter_mut().enumerate();
        rows.try_for_each(|(row, out)| set_limbs(&residues, row, out, control))?;
    }
    Ok(executor)
}

/// Rows that are multiplied at once by transforms.
fn group_rows(size: ProductSize, engine: &(impl EngineModel + ?Sized)) -> usize {
    let longest = size.transforms().into_iter().map(|transform| transform.lg_n).max();
    engine.ntt_group_rows(longest.unwrap_or(0)).max(1)
}

fn check_shape(factors: IntegerFactors<'_>, out: &[Vec<u32>]) -> Result<()> {
    let IntegerFactors { a, b } = factors;
    let b = b.unwrap_or(a);
    let [of_a, of_b] = [a, b].map(|rows| rows.first().map_or(0, Vec::len));
    let has_length = |rows: &[Vec<u32>], length| rows.iter().all(|row| row.len() == length);
    let are_rows = has_length(a, of_a) && has_length(b, of_b) && has_length(out, of_a + of_b);
    let fit = of_a > 0 && of_b > 0 && (of_a + of_b) as u64 <= PRODUCT_LIMBS_MAX;
    if a.len() != out.len() || b.len() != out.len() || !are_rows || (!fit && !a.is_empty()) {
        return Err(Error::Internal("factors and products have other shapes".into()));
    }
    Ok(())
}
