//! Builds programs step by step; each step is checked when it is added. A step names bases and
//! matrices by their ids; the program keeps what holds their content for the runner.

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Deserialize;

use crate::{
    curve::{Fr, NttPlan, points::CurvePoint},
    error::{FieldProblem, InputError},
    field::FieldId,
    gf2::rows_of_words,
    operation::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        Gf2EchelonStep, Gf2ReduceStep, InputStep, IntMulStep, IntSumStep, LinearCombinationStep,
        MsmStep, NttStep, Operation, OperationProgram, PadStep, PointwiseOperation, PointwiseStep,
        PolyMulStep, PolyReduction, PowersStep, PrefixProductStep, ReshapeStep, SliceStep,
        SparseProductStep,
    },
    program::{
        self, Constant, ExternalOperand, StepKind, StepProblem, ValueId, ValueType, VectorShape,
    },
    sparse::SparseShape,
};

/// Tells the programs of this process apart, so that no program takes the handles of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramTag(u64);

impl ProgramTag {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A vector that a step of a program makes: rows of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorValue {
    program: ProgramTag,
    id: ValueId,
    shape: VectorShape,
}

impl VectorValue {
    /// The program that makes the vector.
    pub fn program(&self) -> ProgramTag {
        self.program
    }

    /// The step that makes the vector.
    pub fn id(&self) -> ValueId {
        self.id
    }

    /// The field of the elements.
    pub fn field(&self) -> FieldId {
        self.shape.field()
    }

    /// Number of rows.
    pub fn rows(&self) -> u32 {
        self.shape.rows()
    }

    /// Elements of each row.
    pub fn length(&self) -> u64 {
        self.shape.length()
    }
}

/// The points that an MSM of a program makes: one for each row of its scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PointsValue<A> {
    program: ProgramTag,
    id: ValueId,
    count: u32,
    group: PhantomData<fn() -> A>,
}

impl<A> PointsValue<A> {
    /// The program that makes the points.
    pub fn program(&self) -> ProgramTag {
        self.program
    }

    /// The step that makes the points.
    pub fn id(&self) -> ValueId {
        self.id
    }

    /// Number of points.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// A matrix of bits that a step of a program makes: a vector of one row over GF(2), which holds the
/// matrix's rows one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BitMatrixValue {
    vector: VectorValue,
    columns: u64,
}

impl BitMatrixValue {
    /// A vector as a matrix: what [`ProgramBuilder::concat`] joined or [`ProgramBuilder::slice`]
    /// took. A row has one element for each 64 columns. Steps refuse a vector that is no matrix of
    /// this number of columns.
    pub const fn new(vector: VectorValue, columns: u64) -> Self {
        Self { vector, columns }
    }

    /// The matrix as a vector, for inputs, outputs and other steps.
    pub const fn vector(&self) -> VectorValue {
        self.vector
    }

    /// The number of columns.
    pub const fn columns(&self) -> u64 {
        self.columns
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        rows_of_words(self.vector.length(), self.columns)
    }
}

/// Direction of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Coefficients to evaluations.
    #[default]
    Forward,
    /// Evaluations to coefficients, scaled by 1/n.
    Inverse,
}

/// Order of the elements in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Element i is at index i.
    #[default]
    Natural,
    /// Element i is at the index that reverses i's lg_n bits.
    BitReversed,
}

/// A transform of a program's vectors. The default is forward, in natural order, without a coset.
/// `C` is the type of the coset's generator: `u32` in fields of a prime below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NttTransform<C = Fr> {
    /// log2 of the transform's size; by default that of the row length, which must be a power of
    /// two. Shorter rows are padded with zeros.
    pub lg_n: Option<u32>,
    /// Forward or inverse.
    #[serde(default)]
    pub direction: Direction,
    /// The coset's generator, not zero; `None` for no coset.
    #[serde(rename = "coset_generator")]
    pub coset: Option<C>,
    /// Element order of each input row.
    #[serde(default)]
    pub input_order: Order,
    /// Element order of each output row.
    #[serde(default)]
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

/// Bases or a matrix that steps name.
#[derive(Clone)]
pub struct ProgramObject {
    /// Names the object in steps: the hash of its content, or a number of the process.
    pub id: [u8; 32],
    /// What the runner needs of the object in this process, such as its content.
    pub keeper: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for ProgramObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id: String = self.id.iter().map(|byte| format!("{byte:02x}")).collect();
        write!(f, "ProgramObject({id})")
    }
}

/// Points that a runner keeps, or a range of them, for MSM steps. Cheap to clone.
pub struct ProgramBases<A> {
    /// All points.
    pub object: ProgramObject,
    offset: u64,
    len: u64,
    group: PhantomData<fn() -> A>,
}

impl<A> Clone for ProgramBases<A> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), ..*self }
    }
}

impl<A> fmt::Debug for ProgramBases<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramBases({:?}, {} from {})", self.object, self.len, self.offset)
    }
}

impl<A> ProgramBases<A> {
    /// `len` points of the object from `offset` on, which must be in bounds.
    pub const fn new(object: ProgramObject, offset: u64, len: u64) -> Self {
        Self { object, offset, len, group: PhantomData }
    }

    /// Index of the first point in the object.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of points in this range.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the range is empty; sums over it are the point at infinity.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Points `offset..offset + len` of this range; `None` if the range is shorter.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Self> {
        let fits = offset.checked_add(len)? <= self.len;
        fits.then(|| Self::new(self.object.clone(), self.offset + offset, len))
    }
}

impl<A> From<&Self> for ProgramBases<A> {
    fn from(bases: &Self) -> Self {
        bases.clone()
    }
}

/// A sparse matrix that a runner keeps, for sparse products. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProgramMatrix {
    /// The matrix.
    pub object: ProgramObject,
    /// Its shape.
    pub shape: SparseShape,
}

impl From<&Self> for ProgramMatrix {
    fn from(matrix: &Self) -> Self {
        matrix.clone()
    }
}

/// A checked program. Cheap to clone.
#[derive(Clone)]
pub struct BuiltProgram {
    parts: Arc<BuiltParts>,
    /// The id under which a runner stores it.
    id: Option<[u8; 32]>,
}

struct BuiltParts {
    tag: ProgramTag,
    program: Arc<OperationProgram>,
    objects: Vec<ProgramObject>,
}

impl BuiltProgram {
    /// The program's id, a hash of its content, if a server that has it returned it.
    pub fn id(&self) -> Option<[u8; 32]> {
        self.id
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.program().steps().len()
    }

    /// The same program, which runs refer to by its id.
    #[must_use]
    pub fn stored_as(&self, id: [u8; 32]) -> Self {
        Self { parts: self.parts.clone(), id: Some(id) }
    }

    /// Tells it from other programs.
    pub fn tag(&self) -> ProgramTag {
        self.parts.tag
    }

    /// The checked steps.
    pub fn program(&self) -> &Arc<OperationProgram> {
        &self.parts.program
    }

    /// The bases and matrices of its steps, each once, in the order of the steps.
    pub fn objects(&self) -> &[ProgramObject] {
        &self.parts.objects
    }
}

impl fmt::Debug for BuiltProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuiltProgram({} steps)", self.steps())
    }
}

/// Builds a [`BuiltProgram`]: several operations in one run, whose intermediate values stay at the
/// runner: on a server, or on the engine's device.
///
/// Each method adds a step and returns a handle to the value that the step makes. A step reads
/// earlier values of the same builder; vectors and points have handles of different types. A
/// program holds no secrets: constants, points and factors may be challenges or parameters, but
/// never part of a witness. Constants, points and factors are `Fr`, or `u32` below the prime for
/// vectors over a field of a prime below 2^31.
///
/// `E` is the error type of the runner.
///
/// Each method fails if the step is wrong, with the path of the field, such as
/// `program.steps[7].ntt.input`: a client's error is `InvalidProgram`.
pub struct ProgramBuilder<E> {
    tag: ProgramTag,
    steps: Vec<Operation>,
    types: Vec<ValueType>,
    objects: Vec<ProgramObject>,
    error: PhantomData<fn() -> E>,
}

impl<E> fmt::Debug for ProgramBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramBuilder({} steps)", self.steps.len())
    }
}

impl<E: From<InputError>> Default for ProgramBuilder<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: From<InputError>> ProgramBuilder<E> {
    /// A program without steps.
    pub fn new() -> Self {
        let tag = ProgramTag::next();
        let error = PhantomData;
        Self { tag, steps: Vec::new(), types: Vec::new(), objects: Vec::new(), error }
    }

    /// Adds a row of `length` elements that each run provides.
    pub fn input(&mut self, length: u64) -> Result<VectorValue, E> {
        self.input_rows(1, length)
    }

    /// Adds a vector of `rows` rows, 1 to 65536, of `length` elements that each run provides.
    pub fn input_rows(&mut self, rows: u32, length: u64) -> Result<VectorValue, E> {
        self.input_over(FieldId::Bls12381Fr, rows, length)
    }

    /// Like [`Self::input_rows`], over any field, such as that of a prime below 2^31.
    pub fn input_over(
        &mut self,
        field: impl Into<FieldId>,
        rows: u32,
        length: u64,
    ) -> Result<VectorValue, E> {
        self.vector(&[], InputStep { field: field.into(), rows, length })
    }

    /// Adds a row of at most 1024 elements that are part of the program.
    pub fn constant(&mut self, elements: &[Fr]) -> Result<VectorValue, E> {
        self.constant_over(FieldId::Bls12381Fr, elements)
    }

    /// Like [`Self::constant`], over any field of a prime.
    pub fn constant_over(
        &mut self,
        field: impl Into<FieldId>,
        elements: &[impl Into<Constant> + Copy],
    ) -> Result<VectorValue, E> {
        self.vector(&[], ConstantStep { field: field.into(), elements: constants(elements) })
    }

    /// Adds the row `first`, `first * base`, `first * base^2`, and so on.
    pub fn powers(&mut self, first: Fr, base: Fr, length: u64) -> Result<VectorValue, E> {
        self.powers_over(FieldId::Bls12381Fr, first, base, length)
    }

    /// Like [`Self::powers`], over any field of a prime.
    pub fn powers_over<C: Into<Constant>>(
        &mut self,
        field: impl Into<FieldId>,
        first: C,
        base: C,
        length: u64,
    ) -> Result<VectorValue, E> {
        let step =
            PowersStep { field: field.into(), base: base.into(), first: first.into(), length };
        self.vector(&[], step)
    }

    /// Transforms each row.
    pub fn ntt<C: Into<Constant>>(
        &mut self,
        input: VectorValue,
        transform: NttTransform<C>,
    ) -> Result<VectorValue, E> {
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
    pub fn add(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue, E> {
        self.pointwise(PointwiseOperation::Add, &[a, b])
    }

    /// Subtracts vectors of the same shape, element by element: a - b.
    pub fn subtract(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue, E> {
        self.pointwise(PointwiseOperation::Subtract, &[a, b])
    }

    /// Multiplies vectors of the same shape, element by element: a b.
    pub fn multiply(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue, E> {
        self.pointwise(PointwiseOperation::Multiply, &[a, b])
    }

    /// Computes a b + c, element by element, of vectors of the same shape.
    pub fn multiply_add(
        &mut self,
        a: VectorValue,
        b: VectorValue,
        c: VectorValue,
    ) -> Result<VectorValue, E> {
        self.pointwise(PointwiseOperation::MultiplyAdd, &[a, b, c])
    }

    /// Computes a b - c, element by element, of vectors of the same shape.
    pub fn multiply_subtract(
        &mut self,
        a: VectorValue,
        b: VectorValue,
        c: VectorValue,
    ) -> Result<VectorValue, E> {
        self.pointwise(PointwiseOperation::MultiplySubtract, &[a, b, c])
    }

    /// Inverts each element; 0 stays 0.
    pub fn invert(&mut self, input: VectorValue) -> Result<VectorValue, E> {
        self.pointwise(PointwiseOperation::Invert, &[input])
    }

    /// Multiplies each element by `factor`.
    pub fn scale(
        &mut self,
        input: VectorValue,
        factor: impl Into<Constant>,
    ) -> Result<VectorValue, E> {
        self.linear_combination(&[input], &[factor.into()])
    }

    /// Adds multiples of 1 to 256 vectors of the same shape, with one factor per vector.
    pub fn linear_combination(
        &mut self,
        inputs: &[VectorValue],
        factors: &[impl Into<Constant> + Copy],
    ) -> Result<VectorValue, E> {
        let step = LinearCombinationStep { inputs: ids(inputs), factors: constants(factors) };
        self.vector(inputs, step)
    }

    /// Takes elements `offset` to `offset + length - 1` of each row.
    pub fn slice(
        &mut self,
        input: VectorValue,
        offset: u64,
        length: u64,
    ) -> Result<VectorValue, E> {
        self.vector(&[input], SliceStep { input: input.id, offset, length })
    }

    /// Appends 1 to 256 vectors with the same number of rows, row by row.
    pub fn concat(&mut self, inputs: &[VectorValue]) -> Result<VectorValue, E> {
        self.vector(inputs, ConcatStep { inputs: ids(inputs) })
    }

    /// Appends zeros to each row, up to `length` elements.
    pub fn pad(&mut self, input: VectorValue, length: u64) -> Result<VectorValue, E> {
        self.vector(&[input], PadStep { input: input.id, length })
    }

    /// Regroups the elements of all rows, in order, into `rows` rows of equal length.
    pub fn reshape(&mut self, input: VectorValue, rows: u32) -> Result<VectorValue, E> {
        self.vector(&[input], ReshapeStep { input: input.id, rows })
    }

    /// Evaluates each row, the coefficients of a polynomial, at `point`. Makes rows of one element.
    pub fn evaluate(
        &mut self,
        input: VectorValue,
        point: impl Into<Constant>,
    ) -> Result<VectorValue, E> {
        self.vector(&[input], EvaluateStep { input: input.id, point: point.into() })
    }

    /// Multiplies polynomials over any field, row by row: whole, or modulo `X^n - 1` or `X^n + 1`.
    /// Rows of a and b may have different lengths, of at least 1.
    pub fn poly_mul(
        &mut self,
        a: VectorValue,
        b: VectorValue,
        reduction: PolyReduction,
    ) -> Result<VectorValue, E> {
        let inputs = [a, b];
        self.vector(&inputs, PolyMulStep { inputs: ids(&inputs), reduction })
    }

    /// Multiplies the elements of each row up to each of them: element i of the result is the
    /// product of elements 0 to i. The grand product of a permutation argument is 1, then all of
    /// these but the last.
    pub fn prefix_product(&mut self, input: VectorValue) -> Result<VectorValue, E> {
        self.vector(&[input], PrefixProductStep { input: input.id })
    }

    /// Divides each row, the coefficients of a polynomial f: (f - f(point)) / (X - point). The
    /// row's length stays the same, so the last coefficient is 0.
    pub fn divide_by_linear(&mut self, input: VectorValue, point: Fr) -> Result<VectorValue, E> {
        self.vector(&[input], DivideByLinearStep { input: input.id, point })
    }

    /// Divides evaluations on a coset, in any order, by the vanishing polynomial X^n - 1 of the
    /// domain of n = 2^lg_n elements.
    pub fn divide_by_vanishing(
        &mut self,
        input: VectorValue,
        lg_n: u32,
        coset_generator: Fr,
    ) -> Result<VectorValue, E> {
        let input_id = input.id;
        self.vector(&[input], DivideByVanishingStep { input: input_id, lg_n, coset_generator })
    }

    /// Computes the sum of `scalars[i] * bases[i]` for each row of scalars, which may be shorter
    /// than the bases.
    pub fn msm<A: CurvePoint>(
        &mut self,
        bases: impl Into<ProgramBases<A>>,
        scalars: VectorValue,
    ) -> Result<PointsValue<A>, E> {
        let ProgramBases { object, offset, len: max, .. } = bases.into();
        let got = scalars.length();
        if got > max {
            let problem = StepProblem::field("input", FieldProblem::TooLong { max, got });
            return Err(self.step_error(problem, "msm"));
        }
        let step = MsmStep { input: scalars.id, group: A::GROUP, object_id: object.id, offset };
        self.add_step(&[scalars], step.into())?;
        self.keep(object);
        let program = self.tag;
        let id = self.last();
        let count = scalars.rows();
        Ok(PointsValue { program, id, count, group: PhantomData })
    }

    /// Multiplies a matrix by each row, as a column vector. The matrix has one column per element
    /// of a row; the result's rows have one element per row of the matrix.
    pub fn multiply_sparse(
        &mut self,
        matrix: impl Into<ProgramMatrix>,
        vector: VectorValue,
    ) -> Result<VectorValue, E> {
        let ProgramMatrix { object, shape } = matrix.into();
        let object_id = object.id;
        let input = vector.id;
        let (rows, terms) = (shape.rows.into(), shape.terms.into());
        let step = SparseProductStep { input, object_id, rows, terms };
        step.check_matrix(shape, vector.length())
            .map_err(|problem| self.step_error(problem, "sparse_product"))?;
        let product = self.vector(&[vector], step)?;
        self.keep(object);
        Ok(product)
    }

    /// Adds a matrix of bits that each run provides, such as a
    /// [`BitMatrix`](crate::gf2::BitMatrix).
    pub fn input_bits(&mut self, rows: u64, columns: u64) -> Result<BitMatrixValue, E> {
        let length = rows.saturating_mul(columns.div_ceil(64));
        let vector = self.vector(&[], InputStep { field: FieldId::Gf2, rows: 1, length })?;
        Ok(BitMatrixValue { vector, columns })
    }

    /// Reduces rows by pivot rows, one after the other: while a row's leading column, the lowest in
    /// which it is 1, is that of a pivot, the pivot is added to it. A row that then is not zero is
    /// promoted: it is a pivot for the rows after it. The result has the rows, in their places.
    pub fn gf2_reduce(
        &mut self,
        pivots: BitMatrixValue,
        rows: BitMatrixValue,
    ) -> Result<BitMatrixValue, E> {
        let columns = pivots.columns;
        if rows.columns != columns {
            let problem = FieldProblem::Length { expected: columns, got: rows.columns };
            let problem = StepProblem::field("columns", problem);
            return Err(self.step_error(problem, "gf2_reduce"));
        }
        let inputs = [pivots.vector, rows.vector];
        let step = Gf2ReduceStep { inputs: inputs.map(|input| input.id), columns };
        Ok(BitMatrixValue { vector: self.vector(&inputs, step)?, columns })
    }

    /// Computes the reduced row echelon form: the rows that are not zero, by leading column, and
    /// then rows of zeros.
    pub fn gf2_echelon(&mut self, matrix: BitMatrixValue) -> Result<BitMatrixValue, E> {
        let BitMatrixValue { vector, columns } = matrix;
        let vector = self.vector(&[vector], Gf2EchelonStep { input: vector.id, columns })?;
        Ok(BitMatrixValue { vector, columns })
    }

    /// Adds integers that each run provides, such as an
    /// `IntegerVector` of the client: rows of this number of limbs of 32 bits,
    /// the lowest first.
    pub fn input_integers(&mut self, rows: u32, limbs: u64) -> Result<VectorValue, E> {
        self.vector(&[], InputStep { field: FieldId::Integers, rows, length: limbs })
    }

    /// Multiplies integers, row by row: vectors with the same number of rows, of at least one limb.
    /// A product has as many limbs as both factors, at most 2^26. The same vector twice is squared,
    /// which takes about two thirds of the time.
    pub fn int_mul(&mut self, a: VectorValue, b: VectorValue) -> Result<VectorValue, E> {
        let inputs = [a, b];
        self.vector(&inputs, IntMulStep { inputs: ids(&inputs) })
    }

    /// Adds multiples of 1 to 8 vectors of integers with the same number of rows, row by row, with
    /// one factor per vector. The rows of the result have `limbs` limbs: a sum is computed modulo
    /// 2^(32 `limbs`), so that a negative one wraps around. The magnitudes of the factors add up to
    /// less than 2^32.
    pub fn int_sum(
        &mut self,
        inputs: &[VectorValue],
        factors: &[i64],
        limbs: u64,
    ) -> Result<VectorValue, E> {
        let ids = ids(inputs);
        let factors = factors.to_vec();
        self.vector(inputs, IntSumStep { inputs: ids, factors, length: limbs })
    }

    /// Adds a step of any kind that makes a vector and reads no stored object. It names the values
    /// of this builder by their ids.
    pub fn step(&mut self, step: Operation) -> Result<VectorValue, E> {
        if matches!(step.operand(), Some(ExternalOperand::Bases | ExternalOperand::Matrix)) {
            let problem = StepProblem::step(FieldProblem::OutOfRange);
            return Err(self.step_error(problem, step.name()));
        }
        self.vector(&[], step)
    }

    /// Checks the program as a whole.
    ///
    /// Errors: `Invalid` if the program has no steps, more than 1024 steps, or more than
    /// 256 inputs.
    pub fn build(self) -> Result<BuiltProgram, E> {
        let program = OperationProgram::new(self.steps)?.into();
        let parts = BuiltParts { tag: self.tag, program, objects: self.objects };
        Ok(BuiltProgram { parts: parts.into(), id: None })
    }

    fn pointwise(
        &mut self,
        operation: PointwiseOperation,
        inputs: &[VectorValue],
    ) -> Result<VectorValue, E> {
        self.vector(inputs, PointwiseStep { operation, inputs: ids(inputs) })
    }

    fn vector(
        &mut self,
        inputs: &[VectorValue],
        step: impl Into<Operation>,
    ) -> Result<VectorValue, E> {
        match self.add_step(inputs, step.into())? {
            ValueType::Vector(shape) => {
                Ok(VectorValue { program: self.tag, id: self.last(), shape })
            }
            ValueType::Points(_) => unreachable!("only MSMs make points"),
        }
    }

    fn add_step(&mut self, inputs: &[VectorValue], step: Operation) -> Result<ValueType, E> {
        let inferred = match inputs.iter().position(|input| input.program != self.tag) {
            Some(position) => Err(step.inputs().problem(position, FieldProblem::OtherProgram)),
            None => program::infer(&step, &self.types),
        };
        let value_type = inferred.map_err(|problem| self.step_error(problem, step.name()))?;
        self.steps.push(step);
        self.types.push(value_type);
        Ok(value_type)
    }

    /// Keeps an object of a step as long as the program, once.
    fn keep(&mut self, object: ProgramObject) {
        match self.objects.iter_mut().find(|kept| kept.id == object.id) {
            Some(kept) => kept.keeper = kept.keeper.take().or(object.keeper),
            None => self.objects.push(object),
        }
    }

    /// The error of the step that would be added next.
    fn step_error(&self, problem: StepProblem, operation: &'static str) -> E {
        problem.of_step(self.steps.len(), operation).into()
    }

    fn last(&self) -> ValueId {
        ValueId(self.steps.len() as u32 - 1)
    }
}

fn constants(elements: &[impl Into<Constant> + Copy]) -> Vec<Constant> {
    elements.iter().map(|element| (*element).into()).collect()
}

fn ids(values: &[VectorValue]) -> Vec<ValueId> {
    values.iter().map(|value| value.id).collect()
}
