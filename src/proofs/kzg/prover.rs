//! Commitments and openings, each a program that a runner runs.

use ark_ec::CurveGroup;
use ark_ff::Field;

use super::KzgKey;
use crate::{
    builder::{PointsValue, ProgramBuilder, VectorValue},
    curve::{Fr, G1Affine},
    error::{FieldProblem, InputError, Result},
    runner::{InputRow as KzgPolynomial, NewRun, ProgramRunner, RunOptions, RunValues},
};

/// The most polynomials of one call: a program has at most as many inputs.
const POLYNOMIALS_MAX: u64 = 256;

/// The value of a polynomial at a point, and the proof of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KzgOpening {
    /// The value of the polynomial at the point.
    pub value: Fr,
    /// The commitment to the quotient (f - value) / (X - point).
    pub proof: G1Affine,
}

/// Commits to polynomials and opens them, by the runner that has the key. Points and challenges are
/// not treated as secrets, coefficients and values are.
///
/// Errors of all calls: `Invalid`, as an error of the runner, if there are no polynomials, too
/// many, or one that is longer than the key; those of [`ProgramRunner::run_program`].
pub struct KzgProver<'a, R> {
    runner: &'a R,
    key: &'a KzgKey,
    options: RunOptions,
}

impl<R> Clone for KzgProver<'_, R> {
    fn clone(&self) -> Self {
        Self { options: self.options.clone(), ..*self }
    }
}

impl<'a, R: ProgramRunner> KzgProver<'a, R> {
    /// A prover with the default options.
    pub fn new(runner: &'a R, key: &'a KzgKey) -> Self {
        Self { runner, key, options: RunOptions::default() }
    }

    /// The same prover with other options for each call.
    #[must_use]
    pub fn with_options(self, options: RunOptions) -> Self {
        Self { options, ..self }
    }

    /// Commits to each of 1 to 256 polynomials, which may have different lengths.
    pub async fn commit<'p, P: Into<KzgPolynomial<R::Input<'p>>>>(
        &self,
        polynomials: impl IntoIterator<Item = P>,
    ) -> Result<Vec<G1Affine>, R::Error> {
        let mut call = self.call(polynomials)?;
        let sums = call.inputs.clone().into_iter().map(|input| call.commit(self.key, input));
        let sums: Vec<_> = sums.collect::<Result<_>>()?;
        let result = call.run(self, &[], &sums).await?;
        Ok(points(&result, &sums)?)
    }

    /// Opens a polynomial at a point.
    pub async fn open<'p>(
        &self,
        polynomial: impl Into<KzgPolynomial<R::Input<'p>>>,
        point: Fr,
    ) -> Result<KzgOpening, R::Error> {
        let mut call = self.call([polynomial])?;
        let (value, proof) = call.open(self.key, point)?;
        let result = call.run(self, &[value], &[proof]).await?;
        Ok(opening(&result, value, proof)?)
    }

    /// Commits to a polynomial and opens it at a point: its coefficients are sent once.
    pub async fn commit_and_open<'p>(
        &self,
        polynomial: impl Into<KzgPolynomial<R::Input<'p>>>,
        point: Fr,
    ) -> Result<(G1Affine, KzgOpening), R::Error> {
        let mut call = self.call([polynomial])?;
        let commitment = call.commit(self.key, call.inputs[0])?;
        let (value, proof) = call.open(self.key, point)?;
        let result = call.run(self, &[value], &[commitment, proof]).await?;
        Ok((points(&result, &[commitment])?[0], opening(&result, value, proof)?))
    }

    /// Evaluates each polynomial at each point: the values of the first polynomial, then those of
    /// the next one.
    ///
    /// Errors: `Invalid` if there are no points, or two equal ones; `Invalid` if there
    /// are more than about a thousand values.
    pub async fn evaluate<'p, P: Into<KzgPolynomial<R::Input<'p>>>>(
        &self,
        polynomials: impl IntoIterator<Item = P>,
        points: &[Fr],
    ) -> Result<Vec<Vec<Fr>>, R::Error> {
        check_points(points)?;
        let mut call = self.call(polynomials)?;
        let mut values = Vec::new();
        for input in call.inputs.clone() {
            for point in points {
                values.push(call.program.evaluate(input, *point)?);
            }
        }
        let count = call.inputs.len();
        let result = call.run(self, &values, &[]).await?;
        let value = |value: &VectorValue| result.vector(*value).map(|row| row[0]);
        let values = values.iter().map(value).collect::<Result<Vec<_>>>()?;
        let of_polynomial = |index: usize| values[index * points.len()..][..points.len()].to_vec();
        Ok((0..count).map(of_polynomial).collect())
    }

    /// Opens several polynomials at the same points with one proof: the commitment to the quotient
    /// of their combination, with the powers of `challenge` as factors, by the product of all
    /// X - point.
    ///
    /// The verifier must choose `challenge`, or both sides hash it from commitments, points and
    /// values, after these are fixed; [`Self::evaluate`] gives the values. Of one polynomial, the
    /// challenge has no effect. Polynomials that a server keeps are sent once for both calls.
    ///
    /// Errors: `Invalid` if there are no points, or two equal ones.
    pub async fn open_batch<'p, P: Into<KzgPolynomial<R::Input<'p>>>>(
        &self,
        polynomials: impl IntoIterator<Item = P>,
        points: &[Fr],
        challenge: Fr,
    ) -> Result<G1Affine, R::Error> {
        check_points(points)?;
        let mut call = self.call(polynomials)?;
        let mut quotient = call.combine(challenge)?;
        // The remainders of these divisions are not needed.
        for point in points {
            quotient = call.program.divide_by_linear(quotient, *point)?;
        }
        let proof = call.commit(self.key, quotient)?;
        let result = call.run(self, &[], &[proof]).await?;
        Ok(self::points(&result, &[proof])?[0])
    }

    /// Begins a call whose inputs are these polynomials.
    fn call<'p, P: Into<KzgPolynomial<R::Input<'p>>>>(
        &self,
        polynomials: impl IntoIterator<Item = P>,
    ) -> Result<KzgCall<R::Input<'p>>> {
        let polynomials: Vec<KzgPolynomial<_>> = polynomials.into_iter().map(Into::into).collect();
        let count = polynomials.len() as u64;
        let length_max = self.key.coefficients_max();
        if count == 0 {
            return Err(InputError::field("polynomials", FieldProblem::Missing));
        }
        if count > POLYNOMIALS_MAX {
            let problem = FieldProblem::TooLong { max: POLYNOMIALS_MAX, got: count };
            return Err(InputError::field("polynomials", problem));
        }
        if let Some(long) = polynomials.iter().find(|polynomial| polynomial.length > length_max) {
            let problem = FieldProblem::TooLong { max: length_max, got: long.length };
            return Err(InputError::field("polynomial", problem));
        }
        let mut program = ProgramBuilder::new();
        let inputs = polynomials.iter().map(|polynomial| program.input(polynomial.length));
        let inputs = inputs.collect::<Result<_>>()?;
        Ok(KzgCall { program, inputs, polynomials })
    }
}

/// A program that is being built, and its inputs.
struct KzgCall<I> {
    program: ProgramBuilder<InputError>,
    inputs: Vec<VectorValue>,
    polynomials: Vec<KzgPolynomial<I>>,
}

impl<I> KzgCall<I> {
    fn commit(&mut self, key: &KzgKey, polynomial: VectorValue) -> Result<PointsValue<G1Affine>> {
        self.program.msm(key.bases(), polynomial)
    }

    /// The value of the first polynomial at a point, and the proof.
    fn open(&mut self, key: &KzgKey, point: Fr) -> Result<(VectorValue, PointsValue<G1Affine>)> {
        let polynomial = self.inputs[0];
        let value = self.program.evaluate(polynomial, point)?;
        let quotient = self.program.divide_by_linear(polynomial, point)?;
        Ok((value, self.commit(key, quotient)?))
    }

    /// The sum of all polynomials, each times a power of `challenge`.
    fn combine(&mut self, challenge: Fr) -> Result<VectorValue> {
        if let &[only] = &self.inputs[..] {
            return Ok(only);
        }
        let longest = self.inputs.iter().map(|input| input.length()).max().unwrap_or(0);
        let mut padded = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            padded.push(match input.length() < longest {
                true => self.program.pad(*input, longest)?,
                false => *input,
            });
        }
        let factors = std::iter::successors(Some(Fr::ONE), |factor| Some(*factor * challenge));
        let factors: Vec<_> = factors.take(padded.len()).collect();
        self.program.linear_combination(&padded, &factors)
    }

    async fn run<'p, R: ProgramRunner<Input<'p> = I>>(
        self,
        prover: &KzgProver<'_, R>,
        values: &[VectorValue],
        sums: &[PointsValue<G1Affine>],
    ) -> Result<RunValues, R::Error> {
        let program = self.program.build()?;
        let mut run = NewRun::<'p, I>::new(&program);
        for (input, polynomial) in self.inputs.iter().zip(self.polynomials) {
            run = run.input(*input, polynomial.elements);
        }
        for value in values {
            run = run.send(*value);
        }
        for sum in sums {
            run = run.send_points(*sum);
        }
        prover.runner.run_program(run, prover.options.clone()).await
    }
}

pub(super) fn check_points(points: &[Fr]) -> Result<()> {
    if points.is_empty() {
        return Err(InputError::field("points", FieldProblem::Missing));
    }
    let is_repeated = |index: usize| points[..index].contains(&points[index]);
    if (1..points.len()).any(is_repeated) {
        return Err(InputError::field("points", FieldProblem::Repeated));
    }
    Ok(())
}

fn opening(
    result: &RunValues,
    value: VectorValue,
    proof: PointsValue<G1Affine>,
) -> Result<KzgOpening> {
    Ok(KzgOpening { value: result.vector(value)?[0], proof: points(result, &[proof])?[0] })
}

fn points(result: &RunValues, sums: &[PointsValue<G1Affine>]) -> Result<Vec<G1Affine>> {
    let sums = sums.iter().map(|sum| result.points(*sum).map(|sums| sums[0].into_affine()));
    sums.collect()
}
