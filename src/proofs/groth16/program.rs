//! The program of a proof: products of the matrices, the coefficients of the quotient polynomial h,
//! and four sums.

use ark_ff::FftField;

use super::{ConstraintMatrices, Groth16Error, objects::KeyObjects};
use crate::{
    builder::{
        BuiltProgram, NttTransform, Order, PointsValue, ProgramBuilder, ProgramMatrix, VectorValue,
    },
    curve::{Fr, G1Affine, G2Affine},
    error::{InputError, Result},
};

/// The program for several proofs at once, one in each row.
#[derive(Debug, Clone)]
pub struct ProofProgram {
    pub program: BuiltProgram,
    /// z: one, the public inputs, and the witness.
    pub assignment: VectorValue,
    pub a: PointsValue<G1Affine>,
    pub b_g1: PointsValue<G1Affine>,
    pub b_g2: PointsValue<G2Affine>,
    /// Over the witness and the coefficients of h.
    pub c: PointsValue<G1Affine>,
}

/// log2 of the number of elements of the domain: constraints, then public variables, then zeros.
pub fn domain_lg(matrices: &ConstraintMatrices) -> std::result::Result<u32, Groth16Error> {
    let length = matrices.constraints() + matrices.public_variables();
    let lg_n = length.checked_next_power_of_two().map(usize::ilog2);
    lg_n.filter(|lg_n| *lg_n <= Fr::TWO_ADICITY).ok_or(Groth16Error::TooLarge)
}

impl ProofProgram {
    pub fn new(
        matrices: &ConstraintMatrices,
        objects: &KeyObjects,
        lg_n: u32,
        rows: u32,
    ) -> Result<Self> {
        let [public, variables] =
            [matrices.public_variables(), matrices.variables()].map(|count| count as u64);
        let private = variables - public;
        let mut program = ProgramBuilder::new();
        let assignment = program.input_rows(rows, variables)?;
        let mut select = |variables: &Option<ProgramMatrix>| match variables {
            Some(selection) => program.multiply_sparse(selection, assignment),
            None => Ok(assignment),
        };
        let scalars_of_b = select(&objects.variables_of_b)?;
        let scalars_of_a = select(&objects.variables_of_a)?;
        // If all variables are public, there is no witness, and l_query has no points.
        let witness = (private > 0).then(|| program.slice(assignment, public, private));
        let witness = witness.transpose()?;
        // A GPU computes the other steps while it sums. The sum over G2 takes longest and leaves
        // the most of the GPU idle in its end, so it comes first.
        let b_g2 = program.msm(&objects.b_g2, scalars_of_b)?;
        let a = program.msm(&objects.a, scalars_of_a)?;
        let b_g1 = program.msm(&objects.b_g1, scalars_of_b)?;
        let of_a = program.multiply_sparse(&objects.matrix_a, assignment)?;
        let of_b = program.multiply_sparse(&objects.matrix_b, assignment)?;
        // The public variables follow the constraints in A only, as in libsnark.
        let public_variables = program.slice(assignment, 0, public)?;
        let of_a = program.concat(&[of_a, public_variables])?;
        let [of_a, of_b] = [of_a, of_b].map(|values| program.pad(values, 1 << lg_n));
        let h = quotient(&mut program, of_a?, of_b?, lg_n)?;
        // A proof needs the sums over l_query and h_query only added together, and one long MSM
        // takes less time than two.
        let h = program.slice(h, 0, objects.c.len() - private)?;
        let scalars_of_c = match witness {
            Some(witness) => program.concat(&[witness, h])?,
            None => h,
        };
        let c = program.msm(&objects.c, scalars_of_c)?;
        let program = program.build()?;
        Ok(Self { program, assignment, a, b_g1, b_g2, c })
    }
}

/// The coefficients of h = (a b - c) / (X^n - 1), from the values of a and b on the domain. Those
/// of c are their products, since the assignment satisfies the constraints.
fn quotient(
    program: &mut ProgramBuilder<InputError>,
    a: VectorValue,
    b: VectorValue,
    lg_n: u32,
) -> Result<VectorValue> {
    let coset = Some(Fr::GENERATOR);
    let reversed = Order::BitReversed;
    let to_coefficients = NttTransform { output_order: reversed, ..NttTransform::inverse() };
    let on_coset = NttTransform { coset, input_order: reversed, ..NttTransform::forward() };
    let c = program.multiply(a, b)?;
    let mut on_coset = |values| {
        let coefficients = program.ntt(values, to_coefficients)?;
        program.ntt(coefficients, on_coset)
    };
    let [a, b, c] = [on_coset(a)?, on_coset(b)?, on_coset(c)?];
    let difference = program.multiply_subtract(a, b, c)?;
    let h = program.divide_by_vanishing(difference, lg_n, Fr::GENERATOR)?;
    program.ntt(h, NttTransform { coset, ..NttTransform::inverse() })
}
