//! The sum of two multiples of points, with doublings that both share (Straus's method), on halves
//! of the scalars (GLV). Uses one thread, since waking another one takes as long as the work.

use ark_bls12_381::g1;
use ark_ec::{AdditiveGroup, scalar_mul::glv::GLVConfig};
use ark_ff::{BigInteger, PrimeField, Zero};

use crate::curve::{Fr, G1Projective};

/// a * of_a + b * of_b.
pub fn product_sum(a: G1Projective, of_a: Fr, b: G1Projective, of_b: Fr) -> G1Projective {
    let halves = [(a, of_a), (b, of_b)].map(|(point, scalar)| {
        let ((is_positive, low), (is_high_positive, high)) =
            g1::Config::scalar_decomposition(scalar);
        let signed = |point: G1Projective, positive| if positive { point } else { -point };
        let image = g1::Config::endomorphism(&point);
        [
            (signed(point, is_positive), low.into_bigint()),
            (signed(image, is_high_positive), high.into_bigint()),
        ]
    });
    let [[first, second], [third, fourth]] = halves;
    let terms = [first, second, third, fourth];
    // The sum of each subset of the four points. They stay projective: arkworks converts several
    // points to affine ones on its thread pool.
    let mut sums = vec![G1Projective::zero(); 1 << terms.len()];
    for (bit, (point, _)) in terms.iter().enumerate() {
        for subset in 0..1 << bit {
            sums[subset | 1 << bit] = sums[subset] + point;
        }
    }
    let bits = terms.iter().map(|(_, half)| half.num_bits() as usize).max().unwrap_or_default();
    let mut product = G1Projective::zero();
    for at in (0..bits).rev() {
        product.double_in_place();
        let halves = terms.iter().enumerate();
        let subset: usize =
            halves.map(|(bit, (_, half))| usize::from(half.get_bit(at)) << bit).sum();
        if subset != 0 {
            product += sums[subset];
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use ark_ff::{One, UniformRand};
    use ark_std::test_rng;

    use super::*;

    #[test]
    fn equals_the_sum_of_two_products() {
        let mut random = test_rng();
        let scalars = [Fr::zero(), Fr::one(), -Fr::one(), g1::Config::LAMBDA];
        let scalars: Vec<_> =
            scalars.into_iter().chain((0..20).map(|_| Fr::rand(&mut random))).collect();
        let [a, b] = [(); 2].map(|()| G1Projective::rand(&mut random));
        for &of_a in &scalars {
            for &of_b in &scalars {
                for (a, b) in [(a, b), (a, a), (a, -a), (a, G1Projective::zero())] {
                    assert_eq!(product_sum(a, of_a, b, of_b), a * of_a + b * of_b);
                }
            }
        }
    }
}
