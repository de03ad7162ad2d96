//! Arithmetic on results, used to verify them.

use std::ops::Range;

use ark_ec::{
    AffineRepr, CurveGroup, PrimeGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::AdditiveGroup;
use rayon::prelude::*;

use super::{
    MsmSums,
    codec::{SumEncoding, check_on_curve, check_subgroup},
    encoding::decode_sums,
};
use crate::curve::{G1Affine, G2Affine, Group, layout::sums_as_bytes};

impl MsmSums {
    /// `sum of factors[i] * self[i]`, one point. Runs in parallel on the current rayon pool.
    ///
    /// Shape: as many factors as sums.
    pub fn linear_combination(&self, factors: &[u128]) -> Self {
        match self {
            Self::G1(sums) => Self::G1(vec![combined(sums, factors)]),
            Self::G2(sums) => Self::G2(vec![combined(sums, factors)]),
        }
    }

    /// The sums of all lists, one after another; `None` if one is of another group.
    pub fn concat(group: Group, lists: Vec<Self>) -> Option<Self> {
        let (mut g1, mut g2) = (Vec::new(), Vec::new());
        for sums in lists {
            match (group, sums) {
                (Group::G1, Self::G1(sums)) => g1.extend(sums),
                (Group::G2, Self::G2(sums)) => g2.extend(sums),
                _ => return None,
            }
        }
        Some(match group {
            Group::G1 => Self::G1(g1),
            Group::G2 => Self::G2(g2),
        })
    }

    /// A copy of some of the sums.
    pub fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::G1(sums) => Self::G1(sums[range].to_vec()),
            Self::G2(sums) => Self::G2(sums[range].to_vec()),
        }
    }

    /// Adds other sums one by one; `None` if their group or number differs.
    pub fn plus(&self, more: &Self) -> Option<Self> {
        match (self, more) {
            _ if self.len() != more.len() => None,
            (Self::G1(sums), Self::G1(more)) => Some(Self::G1(added(sums, more))),
            (Self::G2(sums), Self::G2(more)) => Some(Self::G2(added(sums, more))),
            _ => None,
        }
    }

    /// Whether all sums have canonical coordinates and are on the curve: those of another process
    /// may be anything. Runs in parallel on the current rayon pool.
    pub fn are_on_curve(&self) -> bool {
        let encoding = SumEncoding::Projective;
        match self {
            Self::G1(sums) => decode_sums::<G1Affine>(encoding, sums_as_bytes(sums)).is_ok(),
            Self::G2(sums) => decode_sums::<G2Affine>(encoding, sums_as_bytes(sums)).is_ok(),
        }
    }

    /// Whether all sums are in the subgroup of order r. Runs in parallel on the current rayon pool.
    pub fn are_in_subgroup(&self) -> bool {
        match self {
            Self::G1(sums) => sums.par_iter().all(is_in_subgroup),
            Self::G2(sums) => sums.par_iter().all(is_in_subgroup),
        }
    }
}

fn added<P: SWCurveConfig>(sums: &[Projective<P>], more: &[Projective<P>]) -> Vec<Projective<P>> {
    sums.iter().zip(more).map(|(sum, more)| *sum + more).collect()
}

fn combined<P: SWCurveConfig>(sums: &[Projective<P>], factors: &[u128]) -> Projective<P> {
    let products = sums
        .par_iter()
        .zip(factors)
        .map(|(sum, factor)| sum.mul_bigint([*factor as u64, (*factor >> 64) as u64]));
    products.reduce(|| Projective::ZERO, |a, b| a + b)
}

fn is_in_subgroup<P: SWCurveConfig>(sum: &Projective<P>) -> bool {
    let point = sum.into_affine();
    let Affine { x, y, .. } = point;
    point.is_zero()
        || check_on_curve::<P>(x, y).and_then(check_subgroup).is_ok_and(|point| !point.is_zero())
}

#[cfg(test)]
mod tests {
    use ark_bls12_381::{Fr, g1};
    use ark_ff::Field;

    use super::*;
    use crate::curve::G1Projective;

    #[test]
    fn combined_is_the_sum_of_multiples() {
        let sums: Vec<_> = (1..5_u64).map(|i| G1Projective::generator() * Fr::from(i)).collect();
        let factors = [1, u128::MAX, 0, 3 << 100];
        let logarithm: Fr = (1..5_u64).zip(factors).map(|(i, f)| Fr::from(i) * Fr::from(f)).sum();
        let expected = G1Projective::generator() * logarithm;
        assert_eq!(MsmSums::G1(sums).linear_combination(&factors), MsmSums::G1(vec![expected]));
    }

    #[test]
    fn sums_are_added_one_by_one() {
        let sums = |factors: [u64; 2]| {
            MsmSums::G1(factors.map(|i| G1Projective::generator() * Fr::from(i)).to_vec())
        };
        assert_eq!(sums([3, 0]).plus(&sums([4, 5])), Some(sums([7, 5])));
        assert_eq!(sums([3, 0]).plus(&MsmSums::G1(Vec::new())), None);
        let zeros = vec![crate::curve::G2Projective::ZERO; 2];
        assert_eq!(sums([3, 0]).plus(&MsmSums::G2(zeros)), None);
    }

    #[test]
    fn detects_points_outside_the_subgroup() {
        let generator = G1Projective::generator();
        assert!(MsmSums::G1(vec![generator, G1Projective::ZERO]).are_in_subgroup());
        // An arbitrary curve point: one in 2^126 is in the subgroup.
        let outside = (1..).find_map(|x| {
            Affine::<g1::Config>::get_point_from_x_unchecked(ark_bls12_381::Fq::from(x), false)
        });
        let outside: G1Projective = outside.expect("half of all x are on the curve").into();
        assert!(!MsmSums::G1(vec![generator, outside]).are_in_subgroup());
        let mut off = generator;
        off.y.double_in_place();
        assert!(off.y != generator.y && off.y.inverse().is_some());
        assert!(!MsmSums::G1(vec![off]).are_in_subgroup());
    }
}
