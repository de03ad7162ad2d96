//! Checks an NTT for less than the cost of recomputing it: by evaluation at a secret random point.

use ark_ff::{FftField, Field, serial_batch_inversion_and_mul};

use super::powers::FactoredPowers;
use crate::{
    curve::{Fr, NttPlan, scalars},
    engines::JobControl,
    error::Result,
};

/// True if `output` is the transform of `input` that `plan` specifies. Any wrong output passes with
/// probability below 2^-222.
///
/// Input and output represent the same polynomial, one by coefficients, the other by values on a
/// coset. Both are evaluated at a random point that is drawn after the rows are fixed. Linear in
/// the row's length; runs in parallel on the current rayon pool.
///
/// Shape: both rows have 2^lg_n elements, in the plan's orders; false otherwise.
/// Errors: those of `control`.
/// Source: barycentric formula, Berrut and Trefethen 2004,
/// <https://people.maths.ox.ac.uk/trefethen/barycentric.pdf>.
pub fn verify_ntt(
    plan: &NttPlan,
    input: &[Fr],
    output: &[Fr],
    control: &JobControl,
) -> Result<bool> {
    let size = 1u64.checked_shl(plan.lg_n).unwrap_or(0);
    let Some(root) = Fr::get_root_of_unity(size) else { return Ok(false) };
    if input.len() as u64 != size || output.len() as u64 != size {
        return Ok(false);
    }
    // The values are at `shift * root^j`, so coefficients are evaluated at `shift * point`.
    let point = *scalars::random_point();
    let shifted_point = plan.coset.unwrap_or(Fr::ONE) * point;
    let input_side = OrderedRow { row: input, reversed: plan.input_reversed };
    let output_side = OrderedRow { row: output, reversed: plan.output_reversed };
    let (coefficients, values) =
        if plan.inverse { (output_side, input_side) } else { (input_side, output_side) };
    let value = coefficients.evaluate(plan.lg_n, shifted_point, control)?;
    Ok(value == values.interpolate(plan.lg_n, root, point, control)?)
}

struct OrderedRow<'a> {
    row: &'a [Fr],
    reversed: bool,
}

impl OrderedRow<'_> {
    /// The value at `point` of the polynomial with coefficients `row`: `sum of row[i] * point^i`.
    fn evaluate(&self, lg_n: u32, point: Fr, control: &JobControl) -> Result<Fr> {
        let powers = FactoredPowers::new(point, lg_n, self.reversed);
        powers.sum_pieces(self.row, control, |row, low, high| {
            let sum: Fr = row.iter().zip(low).map(|(value, power)| *value * power).sum();
            sum * high
        })
    }

    /// The value at `point` of the polynomial with value `row[j]` at `root^j`:
    /// `(point^n - 1) / n * sum of row[j] * root^j / (point - root^j)`.
    fn interpolate(&self, lg_n: u32, root: Fr, point: Fr, control: &JobControl) -> Result<Fr> {
        let powers = FactoredPowers::new(root, lg_n, self.reversed);
        let sum = powers.sum_pieces(self.row, control, |row, low, high| {
            let mut inverses: Vec<Fr> = low.iter().map(|low| point - high * low).collect();
            serial_batch_inversion_and_mul(&mut inverses, &Fr::ONE);
            // root^j / (point - root^j) = point / (point - root^j) - 1 saves a product per element.
            let weighted: Fr =
                row.iter().zip(inverses).map(|(value, inverse)| inverse * value).sum();
            weighted * point - row.iter().sum::<Fr>()
        })?;
        let size = 1u64 << lg_n;
        let size_inverse = Fr::from(size).inverse().expect("a power of two is not zero modulo r");
        Ok((point.pow([size]) - Fr::ONE) * size_inverse * sum)
    }
}

#[cfg(test)]
mod tests {
    use ark_ff::UniformRand;
    use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::engines::{MsmNttEngine, cpu::ArkworksEngine};

    fn is_right(plan: &NttPlan, input: &[Fr], output: &[Fr]) -> bool {
        verify_ntt(plan, input, output, &JobControl::default()).expect("not cancelled")
    }

    fn plans(lg_n: u32) -> impl Iterator<Item = NttPlan> {
        (0..16).map(move |bits| NttPlan {
            lg_n,
            inverse: bits & 1 != 0,
            coset: (bits & 2 != 0).then_some(Fr::GENERATOR),
            input_reversed: bits & 4 != 0,
            output_reversed: bits & 8 != 0,
        })
    }

    #[test]
    fn accepts_correct_transforms_and_rejects_any_wrong_element() {
        let engine = ArkworksEngine::new(2).expect("threads");
        let mut rng = StdRng::seed_from_u64(1);
        for lg_n in [0, 1, 2, 3, 5, 9, 10, 11, 13] {
            let input: Vec<Fr> = (0..1 << lg_n).map(|_| Fr::rand(&mut rng)).collect();
            for plan in plans(lg_n) {
                let mut rows = [input.clone()];
                engine
                    .ntt_in_place(&plan, &mut rows, &JobControl::default())
                    .expect("a valid plan");
                let [mut output] = rows;
                assert!(is_right(&plan, &input, &output), "{plan:?}");
                for wrong in [0, output.len() - 1, rng.gen_range(0..output.len())] {
                    let right = output[wrong];
                    // Flips one bit of one limb.
                    output[wrong].0.0[2] ^= 1 << 17;
                    assert!(!is_right(&plan, &input, &output), "{plan:?} at {wrong}");
                    output[wrong] = right;
                }
                if lg_n > 1 {
                    output.swap(0, 1);
                    assert!(!is_right(&plan, &input, &output), "{plan:?} swapped");
                }
            }
        }
    }

    #[test]
    fn rejects_another_plan_or_length() {
        let engine = ArkworksEngine::new(1).expect("threads");
        let input: Vec<Fr> = (1..=16u64).map(Fr::from).collect();
        let plan = plans(4).next().expect("16 plans");
        let mut rows = [input.clone()];
        engine.ntt_in_place(&plan, &mut rows, &JobControl::default()).expect("a valid plan");
        for other in plans(4).filter(|other| *other != plan) {
            assert!(!is_right(&other, &input, &rows[0]), "{other:?}");
        }
        assert!(!is_right(&plan, &input[..8], &rows[0]));
        assert!(!is_right(&plan, &input, &rows[0][..8]));
        assert!(!is_right(&NttPlan { lg_n: 3, ..plan }, &input, &rows[0]));
        assert!(!is_right(&NttPlan { lg_n: 64, ..plan }, &input, &rows[0]));
    }
}
