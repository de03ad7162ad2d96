//! The powers that a transform multiplies its elements by, in addition to the twiddles.

use crate::{
    curve::NttPlan,
    error::{FieldProblem, InputError, Result},
    field::{Arithmetic, Element31, Field31},
};

/// Elements in natural order are multiplied by `scale natural^i`, elements in bit-reversed order by
/// `reversed^i`, where i is the number of the element in natural order.
#[derive(Clone, Copy)]
pub(super) struct Scaling31 {
    pub natural: Element31,
    pub reversed: Element31,
    pub scale: Element31,
    /// Whether words in natural order may be any numbers: a product reduces them.
    pub takes_any_words: bool,
}

impl Scaling31 {
    /// `is_dit`: the passes lead from bit-reversed order to natural, not back.
    ///
    /// Errors: `Invalid` if the coset's generator is zero.
    pub fn of(field: Field31, transform: &NttPlan<Element31>, is_dit: bool) -> Result<Self> {
        let invert =
            |element| field.inverse(element).ok_or(InputError::field("coset", FieldProblem::Zero));
        let one = field.one();
        let generator = transform.coset.unwrap_or(one);
        let inverted = invert(generator)?;
        let (base, scale) = match transform.inverse {
            false => (generator, one),
            true => (inverted, invert(field.element(1 << transform.lg_n))?),
        };
        // A forward transform scales its input, an inverse one its output.
        let is_natural = transform.inverse == is_dit;
        let (natural, reversed) = if is_natural { (base, one) } else { (one, base) };
        Ok(Self { natural, reversed, scale, takes_any_words: false })
    }
}
