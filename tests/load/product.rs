//! A program of the load test, whose results are known in advance.

use ark_bls12_381::G1Projective;
use ark_ec::VariableBaseMSM;
use ark_poly::{DenseUVPolynomial, Polynomial, univariate::DensePolynomial};
use capstan::client::{
    BasesHandle, Client, ClientError, Fr, G1Affine, NttTransform, ProgramBuilder, ProgramRun,
    RunOptions, Verification,
};

use crate::common::scalars;

/// Two polynomials of the same length, their product, its value at a point, and a commitment to the
/// first coefficients of the product.
pub struct ProductCase {
    factors: [Vec<Fr>; 2],
    product: Vec<Fr>,
    value: Fr,
    committed: usize,
    commitment: G1Projective,
}

/// How to run the program.
#[derive(Debug, Clone, Copy)]
pub struct RunChoice {
    pub verify: Verification,
    /// Whether to store the program first, and run it by its id.
    pub stored: bool,
    /// Whether to keep the product on the server and download it from there.
    pub keep: bool,
}

const POINT: u64 = 5;

impl ProductCase {
    /// Computes the results with arkworks, for factors of `n` coefficients.
    pub fn new(n: usize, points: &[G1Affine]) -> Self {
        let factors = [(); 2].map(|()| scalars(n));
        let [a, b] = factors.each_ref().map(|f| DensePolynomial::from_coefficients_slice(f));
        let product = &a * &b;
        let value = product.evaluate(&POINT.into());
        let (mut product, committed) = (product.coeffs, n.min(points.len()));
        let commitment = G1Projective::msm_unchecked(&points[..committed], &product[..committed]);
        product.resize(2 * n.next_power_of_two(), 0.into());
        Self { factors, product, value, committed, commitment }
    }

    /// Runs the program and checks what it returns.
    pub async fn run(
        &self,
        client: &Client,
        bases: &BasesHandle<G1Affine>,
        choice: RunChoice,
    ) -> Result<(), ClientError> {
        let [a, b] = &self.factors;
        let (n, lg_n) = (a.len() as u64, Some(self.product.len().ilog2()));
        let mut program = ProgramBuilder::new();
        let inputs = [program.input(n)?, program.input(n)?];
        let forward = NttTransform { lg_n, ..NttTransform::forward() };
        let evaluations = [program.ntt(inputs[0], forward)?, program.ntt(inputs[1], forward)?];
        let evaluations = program.multiply(evaluations[0], evaluations[1])?;
        let product = program.ntt(evaluations, NttTransform::inverse())?;
        let value = program.evaluate(product, Fr::from(POINT))?;
        let first = program.slice(product, 0, self.committed as u64)?;
        let commitment = program.msm(bases, first)?;
        let mut program = program.build()?;
        if choice.stored {
            program = client.put_program(&program).await?;
        }
        let run = ProgramRun::new(&program).input(inputs[0], a).input(inputs[1], b);
        let run = run.send(value).send_points(commitment);
        let run = if choice.keep { run.keep(product) } else { run.send(product) };
        let options = RunOptions { verify: choice.verify, ..RunOptions::default() };
        let result = client.run_with(run, options).await?;
        assert_eq!(result.execution.verified, choice.verify, "{n} coefficients, {choice:?}");
        assert_eq!(result.vector(value)?, [self.value], "{n} coefficients, {choice:?}");
        assert_eq!(result.points(commitment)?, [self.commitment], "{n} coefficients, {choice:?}");
        if choice.keep {
            let kept = result.kept(product)?;
            let bytes = client.get_vector(&kept).await?;
            let expected = capstan::curve::layout::fr_as_bytes(&self.product);
            assert!(*bytes == *expected, "a kept product of {n} coefficients, {choice:?}");
            client.release_vector(kept.id).await
        } else {
            assert!(result.vector(product)? == self.product, "{n} coefficients, {choice:?}");
            Ok(())
        }
    }
}
