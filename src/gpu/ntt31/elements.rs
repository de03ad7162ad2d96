//! Elements and constants of a field in the form in which kernels take them.

use crate::field::{Arithmetic, Element31, Field31};

/// Words of the struct `Prime31` of `kernels/ntt31/field.cuh`.
const PARAMETER_WORDS: usize = 36;
/// Powers of the root of order 32 in it.
const UNITS: u32 = 16;

/// What kernels know of a prime and a transform's direction.
pub(super) type PrimeParameters = [u32; PARAMETER_WORDS];

/// A factor and its Shoup quotient, as `Twiddle31` of `kernels/ntt31/field.cuh`.
pub(super) fn twiddle(field: Field31, factor: Element31) -> u64 {
    let factor = u64::from(field.value(factor));
    let quotient = (factor << 32) / u64::from(field.modulus());
    quotient << 32 | factor
}

/// What kernels know of a prime: the struct `Modulus31`.
pub(super) type ModulusParameters = [u32; 4];

/// The last argument of kernels without butterflies.
pub(super) fn modulus_parameters(field: Field31) -> ModulusParameters {
    let p = field.modulus();
    let r_squared = ((1 << 64) % u128::from(p)) as u32;
    // The order of every unit modulo 2^32 divides 2^30.
    [p, p.wrapping_neg(), p.wrapping_pow((1 << 30) - 1), r_squared]
}

/// The last argument of transforms.
pub(super) fn prime_parameters(field: Field31, inverse: bool) -> PrimeParameters {
    let mut words = [0; PARAMETER_WORDS];
    words[..4].copy_from_slice(&modulus_parameters(field));
    let root = root_of_unity(field, UNITS.ilog2() + 1, inverse);
    let mut unit = field.one();
    for pair in words[4..].chunks_exact_mut(2) {
        let twiddle = twiddle(field, unit);
        pair.copy_from_slice(&[twiddle as u32, (twiddle >> 32) as u32]);
        unit = field.multiply(unit, root);
    }
    words
}

/// The root of unity of order 2^`lg_n`, which is at most the two-adicity, or its inverse.
pub(super) fn root_of_unity(field: Field31, lg_n: u32, inverse: bool) -> Element31 {
    let root = field.root_of_unity(lg_n).expect("within the two-adicity");
    if inverse { field.inverse(root).expect("a root is not zero") } else { root }
}
