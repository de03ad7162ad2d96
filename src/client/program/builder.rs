//! Builds a program step by step; each step is checked when it is added.

use std::{fmt, marker::PhantomData, sync::Arc};

use capstan_math::{
    curve::{Fr, NttPlan},
    error::FieldProblem,
    field::FieldId,
    operation::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        InputStep, LinearCombinationStep, MsmStep, NttStep, Operation, PadStep, PointwiseOperation,
        PointwiseStep, PolyMulStep, PolyReduction, PowersStep, PrefixProductStep, ReshapeStep,
        SliceStep, SparseProductStep,
    },
    program::{Constant, StepKind, StepProblem, ValueId, ValueType},
};

use super::{
    built::ClientProgram,
    value::{PointsValue, ProgramTag, VectorValue},
};
use crate::{
    BasesHandle, CurvePoint, MatrixHandle,
    error::{ClientError, Result},
    objects::held::HeldObject,
    types::{Direction, Order},
};

/// A transform of a program's vectors. The default is forward, in natural order, without a coset.
/// `C` is the type of the coset's generator: `u32` in fields of a prime below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NttTransform<C = Fr> {
    /// log2 of the transform's size; by default that of the row length, which must be a power of
    /// two. Shorter rows are padded with zeros.
    pub lg_n: Option<u32>,
    /// Forward or inverse.
    pub direction: Direction,
    /// The coset's generator, not zero; `None` for no coset.
    pub coset: Option<C>,
    /// Element order of each input row.
    pub input_order: Order,
    /// Element order of each output row.
    pub output_order: Order,
}

impl NttTransform {
    /// Coefficients to evaluations.
    pub fn forward() -> Self {
        Self::default()
    }

    /// Evaluations to coefficients.
    pub fn inverse() -> Self {
        Self { direction: Direction::Inverse, ..Self::default() }
    }
}

/// Builds a [`ClientProgram`]: several operations in one call, whose intermediate values stay on
/// the server.
///
/// Each method adds a step and returns a handle to the value that the step makes. A step reads
/// earlier values of the same builder; vectors and points have handles of different types. A
/// program holds no secrets: constants, points and factors may be challenges or parameters, but
/// never part of a witness. Constants, points and factors are `Fr`, or `u32` below the prime for
/// vectors over a field of a prime below 2^31.
///
/// Errors: each method returns `InvalidProgram` if the step is wrong, with the path of the field,
/// such as `program.steps[7].ntt.input`. Nothing has been sent.
///
/// ```no_run
/// # async fn lesson(srs: Vec<capstan::curve::G1Affine>, polynomial: Vec<capstan::curve::Fr>)
/// # -> Result<(), capstan::client::ClientError> {
/// use capstan::client::{Client, Fr, ProgramBuilder, ProgramRun};
///
/// let client = Client::connect("http://127.0.0.1:7654").await?;
/// let bases = client.put_bases(&srs).await?;
///
/// // Opens a KZG commitment at the point 5.
/// let mut program = ProgramBuilder::new();
/// let f = program.input(polynomial.len() as u64)?;
/// let value = program.evaluate(f, Fr::from(5))?;
/// let quotient = program.divide_by_linear(f, Fr::from(5))?;
/// let proof = program.msm(&bases, quotient)?;
/// let program = program.build()?;
///
/// let run = ProgramRun::new(&program).input(f, &polynomial).send(value).send_points(proof);
/// let opened = client.run(run).await?;
/// println!("{} with proof {}", opened.vector(value)?[0], opened.points(proof)?[0]);
/// # Ok(()) }
/// ```
///
/// The compiler refuses points as the input of a step:
///
/// ```compile_fail
/// # use capstan::client::{BasesHandle, ClientError, G1Affine, NttTransform, ProgramBuilder};
/// # fn wrong(bases: &BasesHandle<G1Affine>) -> Result<(), ClientError> {
/// let mut program = ProgramBuilder::new();
/// let f = program.input(8)?;
/// let sum = program.msm(bases, f)?;
/// program.ntt(sum, NttTransform::forward())?;
/// # Ok(()) }
/// ```
pub struct ProgramBuilder {
    tag: ProgramTag,
    steps: Vec<Operation>,
    /// Objects of the steps that this process holds.
    held: Vec<Arc<HeldObject>>,
}

impl fmt::Debug for ProgramBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramBuilder({} steps)", self.steps.len())
    }
}

impl Default for ProgramBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ProgramBuilder {
    /// A program without steps.
    pub fn new() -> Self {
        Self { tag: ProgramTag::next(), steps: Vec::new(), held: Vec::new() }
    }

    /// Adds a row of `length` elements that each run provides.
    pub fn input(&mut self, length: u64) -> Result<VectorValue> {
        self.input_rows(1, length)
    }

    /// Adds a vector of `rows` rows, 1 to 65536, of `length` elements that each run provides.
    pub fn input_rows(&mut self, rows: u32, length: u64) -> Result<VectorValue> {
        self.input_over(FieldId::Bls12381Fr, rows, length)
    }

    /// Like [`Self::input_rows`], over any field, such as that of a prime below 2^31.
    pub fn input_over(
        &mut self,
        field: impl Into<FieldId>,
        rows: u32,
        length: u64,
    ) -> Result<VectorValue> {
        self.vector(&[], InputStep { field: field.into(), rows, length })
    }

    /// Adds a row of at most 1024 elements that are part of the program.
    pub fn constant(&mut self, elements: &[Fr]) -> Result<VectorValue> {
        self.constant_over(FieldId::Bls12381Fr, elements)
    }

    /// Like [`Self::constant`], over any field of a prime.
    pub fn constant_over(
        &mut self,
        field: impl Into<FieldId>,
        elements: &[impl Into<Constant> + Copy],
    ) -> Result<VectorValue> {
        self.vector(&[], ConstantStep { field: field.into(), elements: constants(elements) })
    }

    /// Adds the row `first`, `first * base`, `first * base^2`, and so on.
    pub fn powers(&mut self, first: Fr, base: Fr, length: u64) -> Result<VectorValue> {
        self.powers_over(FieldId::Bls12381Fr, first, base, length)
    }

    /// Like [`Self::powers`], over any field of a prime.
    pub fn powers_over<C: Into<Constant>>(
        &mut self,
        field: impl Into<FieldId>,
        first: C,
        base: C,
        length: u64,
    ) -> Result<VectorValue> {
        let step =
            PowersStep { field: field.into(), base: base.into(), first: first.into(), length };
        self.vector(&[], step)
    }

    /// Transforms each row.
    pub fn ntt<C: Into<Constant>>(
        &mut self,
        input: VectorValue,
        transform: NttTransform<C>,
    ) -> Result<VectorValue> {
        let length = input.length();
        let lg_n = match transform.lg_n {
            Some(lg_n) => lg_n,
            None if length.is_power_of_two() => length.ilog2(),
            None => {
                let (expected, got) = (length.max(1).next_power_of_two(), length);
                let problem = FieldProblem::Length { expected, got };
                return Err(self.step_error(StepProblem::field("input", problem), "ntt"));
            }
        };
        let plan = NttPlan {
            lg_n,
            inverse: transform.direction == Direction::Inverse,
            coset: transform.coset.map(Into::into),
            input_reversed: transform.input_order == Order::BitReversed,
            output_reversed: transform.output_order == Order::BitReversed,
        };
        self.vector(&[input], NttStep { input: input.id, plan })
    }

    /// Adds two vectors of the same shape, element by element: a + b.
    pub fn add(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue> {
        self.pointwise(PointwiseOperation::Add, &[a, b])
    }

    /// Subtracts vectors of the same shape, element by element: a - b.
    pub fn subtract(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue> {
        self.pointwise(PointwiseOperation::Subtract, &[a, b])
    }

    /// Multiplies vectors of the same shape, element by element: a b.
    pub fn multiply(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue> {
        self.pointwise(PointwiseOperation::Multiply, &[a, b])
    }

    /// Computes a b + c, element by element, of vectors of the same shape.
    pub fn multiply_add(
        &mut self,
        a: VectorValue,
        b: VectorValue,
        c: VectorValue,
    ) -> Result<VectorValue> {
        self.pointwise(PointwiseOperation::MultiplyAdd, &[a, b, c])
    }

    /// Computes a b - c, element by element, of vectors of the same shape.
    pub fn multiply_subtract(
        &mut self,
        a: VectorValue,
        b: VectorValue,
        c: VectorValue,
    ) -> Result<VectorValue> {
        self.pointwise(PointwiseOperation::MultiplySubtract, &[a, b, c])
    }

    /// Inverts each element; 0 stays 0.
    pub fn invert(&mut self, input: VectorValue) -> Result<VectorValue> {
        self.pointwise(PointwiseOperation::Invert, &[input])
    }

    /// Multiplies each element by `factor`.
    pub fn scale(
        &mut self,
        input: VectorValue,
        factor: impl Into<Constant>,
    ) -> Result<VectorValue> {
        self.linear_combination(&[input], &[factor.into()])
    }

    /// Adds multiples of 1 to 256 vectors of the same shape, with one factor per vector.
    pub fn linear_combination(
        &mut self,
        inputs: &[VectorValue],
        factors: &[impl Into<Constant> + Copy],
    ) -> Result<VectorValue> {
        let step = LinearCombinationStep { inputs: ids(inputs), factors: constants(factors) };
        self.vector(inputs, step)
    }

    /// Takes elements `offset` to `offset + length - 1` of each row.
    pub fn slice(&mut self, input: VectorValue, offset: u64, length: u64) -> Result<VectorValue> {
        self.vector(&[input], SliceStep { input: input.id, offset, length })
    }

    /// Appends 1 to 256 vectors with the same number of rows, row by row.
    pub fn concat(&mut self, inputs: &[VectorValue]) -> Result<VectorValue> {
        self.vector(inputs, ConcatStep { inputs: ids(inputs) })
    }

    /// Appends zeros to each row, up to `length` elements.
    pub fn pad(&mut self, input: VectorValue, length: u64) -> Result<VectorValue> {
        self.vector(&[input], PadStep { input: input.id, length })
    }

    /// Regroups the elements of all rows, in order, into `rows` rows of equal length.
    pub fn reshape(&mut self, input: VectorValue, rows: u32) -> Result<VectorValue> {
        self.vector(&[input], ReshapeStep { input: input.id, rows })
    }

    /// Evaluates each row, the coefficients of a polynomial, at `point`. Makes rows of one element.
    pub fn evaluate(
        &mut self,
        input: VectorValue,
        point: impl Into<Constant>,
    ) -> Result<VectorValue> {
        self.vector(&[input], EvaluateStep { input: input.id, point: point.into() })
    }

    /// Multiplies polynomials over any field, row by row: whole, or modulo `X^n - 1` or `X^n + 1`.
    /// Rows of a and b may have different lengths, of at least 1.
    pub fn poly_mul(
        &mut self,
        a: VectorValue,
        b: VectorValue,
        reduction: PolyReduction,
    ) -> Result<VectorValue> {
        let inputs = [a, b];
        self.vector(&inputs, PolyMulStep { inputs: ids(&inputs), reduction })
    }

    /// Multiplies the elements of each row up to each of them: element i of the result is the
    /// product of elements 0 to i. The grand product of a permutation argument is 1, then all of
    /// these but the last.
    pub fn prefix_product(&mut self, input: VectorValue) -> Result<VectorValue> {
        self.vector(&[input], PrefixProductStep { input: input.id })
    }

    /// Divides each row, the coefficients of a polynomial f: (f - f(point)) / (X - point). The
    /// row's length stays the same, so the last coefficient is 0.
    pub fn divide_by_linear(&mut self, input: VectorValue, point: Fr) -> Result<VectorValue> {
        self.vector(&[input], DivideByLinearStep { input: input.id, point })
    }

    /// Divides evaluations on a coset, in any order, by the vanishing polynomial X^n - 1 of the
    /// domain of n = 2^lg_n elements.
    pub fn divide_by_vanishing(
        &mut self,
        input: VectorValue,
        lg_n: u32,
        coset_generator: Fr,
    ) -> Result<VectorValue> {
        let input_id = input.id;
        self.vector(&[input], DivideByVanishingStep { input: input_id, lg_n, coset_generator })
    }

    /// Computes the sum of `scalars[i] * bases[i]` for each row of scalars, which may be shorter
    /// than the bases.
    pub fn msm<A: CurvePoint>(
        &mut self,
        bases: &BasesHandle<A>,
        scalars: VectorValue,
    ) -> Result<PointsValue<A>> {
        let (max, got) = (bases.len(), scalars.length());
        if got > max {
            let problem = StepProblem::field("input", FieldProblem::TooLong { max, got });
            return Err(self.step_error(problem, "msm"));
        }
        let (object_id, offset) = (bases.id().0, bases.offset);
        let step = MsmStep { input: scalars.id, group: A::GROUP, object_id, offset };
        self.add_step(&[scalars], step.into())?;
        self.hold(&bases.held);
        let (program, id, count) = (self.tag, self.last(), scalars.rows());
        Ok(PointsValue { program, id, count, group: PhantomData })
    }

    /// Multiplies a matrix by each row, as a column vector. The matrix has one column per element
    /// of a row; the result's rows have one element per row of the matrix.
    pub fn multiply_sparse(
        &mut self,
        matrix: &MatrixHandle,
        vector: VectorValue,
    ) -> Result<VectorValue> {
        let shape = matrix.shape();
        let (object_id, input) = (matrix.id().0, vector.id);
        let (rows, terms) = (shape.rows.into(), shape.terms.into());
        let step = SparseProductStep { input, object_id, rows, terms };
        step.check_matrix(shape, vector.length())
            .map_err(|problem| self.step_error(problem, "sparse_product"))?;
        let product = self.vector(&[vector], step)?;
        self.hold(&matrix.held);
        Ok(product)
    }

    /// Checks the program as a whole.
    ///
    /// Errors: `InvalidProgram` if the program has no steps, more than 1024 steps, or more than 256
    /// inputs.
    pub fn build(self) -> Result<ClientProgram> {
        ClientProgram::new(self.tag, self.steps, self.held)
    }

    fn pointwise(
        &mut self,
        operation: PointwiseOperation,
        inputs: &[VectorValue],
    ) -> Result<VectorValue> {
        self.vector(inputs, PointwiseStep { operation, inputs: ids(inputs) })
    }

    pub(crate) fn vector(
        &mut self,
        inputs: &[VectorValue],
        step: impl Into<Operation>,
    ) -> Result<VectorValue> {
        match self.add_step(inputs, step.into())? {
            ValueType::Vector(shape) => {
                Ok(VectorValue { program: self.tag, id: self.last(), shape })
            }
            ValueType::Points(_) => unreachable!("only MSMs make points"),
        }
    }

    fn add_step(&mut self, inputs: &[VectorValue], step: Operation) -> Result<ValueType> {
        let types: Vec<_> = inputs.iter().map(|input| ValueType::Vector(input.shape)).collect();
        let inferred = match inputs.iter().position(|input| input.program != self.tag) {
            Some(position) => Err(step.inputs().problem(position, FieldProblem::OtherProgram)),
            None => step.infer(&types),
        };
        let value_type = inferred.map_err(|problem| self.step_error(problem, step.name()))?;
        self.steps.push(step);
        Ok(value_type)
    }

    /// Holds an object of a step as long as the program, once.
    fn hold(&mut self, object: &Option<Arc<HeldObject>>) {
        let is_new = |new: &&Arc<_>| !self.held.iter().any(|held| Arc::ptr_eq(held, new));
        if let Some(new) = object.as_ref().filter(is_new) {
            self.held.push(new.clone());
        }
    }

    /// The error of the step that would be added next.
    pub(super) fn step_error(&self, problem: StepProblem, operation: &'static str) -> ClientError {
        problem.of_step(self.steps.len(), operation).into()
    }

    fn last(&self) -> ValueId {
        ValueId(self.steps.len() as u32 - 1)
    }
}

fn constants(elements: &[impl Into<Constant> + Copy]) -> Vec<Constant> {
    elements.iter().map(|element| (*element).into()).collect()
}

pub(super) fn ids(values: &[VectorValue]) -> Vec<ValueId> {
    values.iter().map(|value| value.id).collect()
}
