//! Builds a program from the steps of a file.

use std::collections::HashMap;

use capstan_math::field::FieldId;

use super::{
    checks::{self, in_step},
    elements::FileElements,
    file::{FrText, NamedStep, ProgramFile, StepInput, StepText},
};
use crate::{
    bases,
    client::{
        BasesHandle, BasesInfo, BitMatrixValue, Client, ClientError, ClientProgram, Constant,
        CurvePoint, G1Affine, G2Affine, Group, MatrixHandle, MatrixInfo, NttTransform, PointsValue,
        PolyReduction, ProgramBuilder, ProgramRun, VectorValue,
    },
    error::FieldProblem,
    exit::{CliFailure, Exit, Result, fail},
};

/// A value of any kind.
#[derive(Debug, Clone, Copy)]
pub enum NamedValue {
    Vector(VectorValue),
    Bits(BitMatrixValue),
    G1(PointsValue<G1Affine>),
    G2(PointsValue<G2Affine>),
}

impl NamedValue {
    /// The value as a vector; `None` for points.
    pub fn vector(&self) -> Option<VectorValue> {
        match self {
            Self::Vector(vector) => Some(*vector),
            Self::Bits(matrix) => Some(matrix.vector()),
            Self::G1(_) | Self::G2(_) => None,
        }
    }

    /// The columns of a matrix of bits; 0 for other values.
    fn columns(&self) -> u64 {
        if let Self::Bits(matrix) = self { matrix.columns() } else { 0 }
    }

    /// Makes `run` return the value.
    pub fn send<'a>(&self, run: ProgramRun<'a>) -> ProgramRun<'a> {
        match self {
            Self::Vector(vector) => run.send(*vector),
            Self::Bits(matrix) => run.send(matrix.vector()),
            Self::G1(points) => run.send_points(*points),
            Self::G2(points) => run.send_points(*points),
        }
    }
}

/// A program, and its values by name.
pub struct NamedProgram {
    pub program: ClientProgram,
    pub values: HashMap<String, NamedValue>,
}

impl NamedProgram {
    /// Builds the program of `file`. An input without a length takes that of its `elements`.
    pub async fn build(
        client: &Client,
        file: &ProgramFile,
        elements: &HashMap<String, FileElements>,
    ) -> Result<Self> {
        let (builder, values) = (ProgramBuilder::new(), HashMap::new());
        let mut building = FileBuilder { elements, builder, values };
        for (index, step) in file.steps.iter().enumerate() {
            let value = match &step.text {
                StepText::Msm { bases, offset, .. } => {
                    let info = bases::find(client, bases).await;
                    let info = info.map_err(|failure| in_step(step, failure))?;
                    building.msm(index, step, info, *offset)
                }
                StepText::SparseProduct { matrix, .. } => {
                    let info = bases::find_matrix(client, matrix).await;
                    let info = info.map_err(|failure| in_step(step, failure))?;
                    building.sparse_product(index, step, info).map(NamedValue::Vector)
                }
                _ => building.any_vector(index, step),
            };
            building.values.insert(step.name.clone(), value?);
        }
        let FileBuilder { builder, values, .. } = building;
        Ok(Self { program: builder.build()?, values })
    }
}

/// The failure of a call, with the name of the step or input that is wrong.
pub fn name_step(file: &ProgramFile, error: ClientError) -> CliFailure {
    let step = match (error.step(), error.field(), error.index()) {
        (Some(step), ..) => file.steps.get(step),
        (None, Some("inputs"), Some(input)) => {
            file.steps.iter().filter(|step| step.is_input()).nth(input as usize)
        }
        _ => None,
    };
    let failure = CliFailure::from(error);
    match step {
        Some(step) => in_step(step, failure),
        None => failure,
    }
}

struct FileBuilder<'a> {
    elements: &'a HashMap<String, FileElements>,
    builder: ProgramBuilder,
    values: HashMap<String, NamedValue>,
}

impl FileBuilder<'_> {
    /// Adds a step that makes a vector. One over GF(2) is a matrix with the columns of its inputs.
    fn any_vector(&mut self, index: usize, step: &NamedStep) -> Result<NamedValue> {
        let vector = self.vector(index, step)?;
        if vector.field() != FieldId::Gf2 {
            return Ok(NamedValue::Vector(vector));
        }
        let columns: Vec<_> = match &step.text {
            StepText::Input { columns, .. } => {
                let in_file = self.elements.get(&step.name).and_then(|file| file.columns);
                columns.or(in_file).into_iter().collect()
            }
            _ => {
                let of = |input: &StepInput| self.values.get(&input.name);
                step.inputs.iter().map(|input| of(input).map_or(0, NamedValue::columns)).collect()
            }
        };
        let columns = checks::bit_columns(step, vector, &columns)?;
        Ok(NamedValue::Bits(BitMatrixValue::new(vector, columns)))
    }

    /// Adds a step that makes a vector.
    fn vector(&mut self, index: usize, step: &NamedStep) -> Result<VectorValue> {
        if let &StepText::Input { field, length, rows, columns } = &step.text {
            return self.input(step, InputShape { field: field.0, length, rows, columns });
        }
        let inputs = self.inputs(index, step)?;
        let field = inputs.first().map(VectorValue::field);
        let field = step.field().or(field).unwrap_or(FieldId::Bls12381Fr);
        if inputs.is_empty() && matches!(field, FieldId::Gf2 | FieldId::Integers) {
            let problem = FieldProblem::UnsupportedField { field };
            return Err(in_step(step, ClientError::input("field", problem).into()));
        }
        let element = |text: &FrText, place: &str| step_element(step, field, text, place);
        let elements = |texts: &[FrText], place: &str| {
            let numbered = texts.iter().enumerate();
            let each = numbered.map(|(at, text)| element(text, &format!("{place}[{at}]")));
            each.collect::<Result<Vec<_>>>()
        };
        let builder = &mut self.builder;
        let added = match &step.text {
            StepText::Constant { elements: texts, .. } => {
                builder.constant_over(field, &elements(texts, "elements")?)
            }
            StepText::Powers { base, length, first, .. } => {
                let first = match first {
                    Some(first) => element(first, "first")?,
                    None => Constant::one(field),
                };
                builder.powers_over(field, first, element(base, "base")?, *length)
            }
            StepText::Ntt {
                lg_n, direction, input_order, output_order, coset_generator, ..
            } => {
                let coset = coset_generator.as_ref();
                let coset = coset.map(|coset| element(coset, "coset_generator")).transpose()?;
                let transform = NttTransform {
                    lg_n: *lg_n,
                    direction: *direction,
                    coset,
                    input_order: *input_order,
                    output_order: *output_order,
                };
                builder.ntt(inputs[0], transform)
            }
            StepText::Add { .. } => builder.add(inputs[0], inputs[1]),
            StepText::Subtract { .. } => builder.subtract(inputs[0], inputs[1]),
            StepText::Multiply { .. } => builder.multiply(inputs[0], inputs[1]),
            StepText::MultiplyAdd { .. } => builder.multiply_add(inputs[0], inputs[1], inputs[2]),
            StepText::MultiplySubtract { .. } => {
                builder.multiply_subtract(inputs[0], inputs[1], inputs[2])
            }
            StepText::Invert { .. } => builder.invert(inputs[0]),
            StepText::Scale { factor, .. } => builder.scale(inputs[0], element(factor, "factor")?),
            StepText::LinearCombination { factors, .. } => {
                builder.linear_combination(&inputs, &elements(factors, "factors")?)
            }
            StepText::Slice { offset, length, .. } => builder.slice(inputs[0], *offset, *length),
            StepText::Concat { .. } => builder.concat(&inputs),
            StepText::Pad { length, .. } => builder.pad(inputs[0], *length),
            StepText::Reshape { rows, .. } => builder.reshape(inputs[0], *rows),
            StepText::Evaluate { point, .. } => {
                builder.evaluate(inputs[0], element(point, "point")?)
            }
            StepText::PrefixProduct { .. } => builder.prefix_product(inputs[0]),
            StepText::DivideByLinear { point, .. } => builder.divide_by_linear(inputs[0], point.0),
            StepText::DivideByVanishing { lg_n, coset_generator, .. } => {
                builder.divide_by_vanishing(inputs[0], *lg_n, coset_generator.0)
            }
            StepText::PolyMul { cyclic, negacyclic, .. } => {
                let reduction = poly_reduction(step, *cyclic, *negacyclic)?;
                builder.poly_mul(inputs[0], inputs[1], reduction)
            }
            StepText::Gf2Reduce { .. } => {
                let given = self.matrices(index, step, &inputs)?;
                self.builder.gf2_reduce(given[0], given[1]).map(|reduced| reduced.vector())
            }
            StepText::Gf2Echelon { .. } => {
                let given = self.matrices(index, step, &inputs)?;
                self.builder.gf2_echelon(given[0]).map(|form| form.vector())
            }
            StepText::IntMul { .. } => builder.int_mul(inputs[0], inputs[1]),
            StepText::IntSum { factors, length, .. } => builder.int_sum(&inputs, factors, *length),
            StepText::Input { .. } | StepText::Msm { .. } | StepText::SparseProduct { .. } => {
                return fail(Exit::Failed, "the step needs more than its inputs");
            }
        };
        added.map_err(|error| in_step(step, error.into()))
    }

    /// Adds an input, of the shape that the step or else its file has.
    fn input(&mut self, step: &NamedStep, shape: InputShape) -> Result<VectorValue> {
        let InputShape { field, length, rows, columns } = shape;
        let file = self.elements.get(&step.name);
        let missing = || shape_missing(step);
        let builder = &mut self.builder;
        let added = match field {
            FieldId::Gf2 => {
                let rows = rows.map(u64::from).or(file.and_then(|file| file.rows));
                let columns = columns.or(file.and_then(|file| file.columns));
                let (rows, columns) = (rows.ok_or_else(missing)?, columns.ok_or_else(missing)?);
                builder.input_bits(rows, columns).map(|matrix| matrix.vector())
            }
            _ => {
                let in_file = file.and_then(|file| file.rows);
                let rows = rows.or(in_file.and_then(|rows| u32::try_from(rows).ok())).unwrap_or(1);
                let row = file.map(|file| file.scalars.count() / u64::from(rows).max(1));
                let length = length.or(row).ok_or_else(missing)?;
                builder.input_over(field, rows, length)
            }
        };
        added.map_err(|error| in_step(step, error.into()))
    }

    /// The inputs of a step that reads only matrices of bits.
    fn matrices(
        &self,
        index: usize,
        step: &NamedStep,
        inputs: &[VectorValue],
    ) -> Result<Vec<BitMatrixValue>> {
        let matrix = |(input, vector): (&StepInput, &VectorValue)| {
            if let Some(NamedValue::Bits(matrix)) = self.values.get(&input.name) {
                return Ok(*matrix);
            }
            let (kind, member) = (&step.kind, input.member);
            let problem = FieldProblem::UnsupportedField { field: vector.field() };
            let problem = format!("program.steps[{index}].{kind}.{member}: {problem}");
            Err(in_step(step, CliFailure::new(Exit::Data, problem)))
        };
        step.inputs.iter().zip(inputs).map(matrix).collect()
    }

    fn sparse_product(
        &mut self,
        index: usize,
        step: &NamedStep,
        info: MatrixInfo,
    ) -> Result<VectorValue> {
        let vector = self.inputs(index, step)?[0];
        let added = self.builder.multiply_sparse(&MatrixHandle::new(info), vector);
        added.map_err(|error| in_step(step, error.into()))
    }

    /// Adds an MSM over the stored bases `info` from `offset` on.
    fn msm(
        &mut self,
        index: usize,
        step: &NamedStep,
        info: BasesInfo,
        offset: u64,
    ) -> Result<NamedValue> {
        let scalars = self.inputs(index, step)?[0];
        let added = match info.group {
            Group::G1 => self.msm_in(info, offset, scalars).map(NamedValue::G1),
            Group::G2 => self.msm_in(info, offset, scalars).map(NamedValue::G2),
        };
        added.map_err(|error| in_step(step, error.into()))
    }

    fn msm_in<A: CurvePoint>(
        &mut self,
        info: BasesInfo,
        offset: u64,
        scalars: VectorValue,
    ) -> Result<PointsValue<A>, ClientError> {
        let all = BasesHandle::new(info)?;
        let used = all.slice(offset, all.len().saturating_sub(offset));
        let too_large = ClientError::input("offset", FieldProblem::TooLarge { max: all.len() });
        self.builder.msm(&used.ok_or(too_large)?, scalars)
    }

    /// The vectors that the step reads.
    fn inputs(&self, index: usize, step: &NamedStep) -> Result<Vec<VectorValue>> {
        let find = |StepInput { name, .. }: &StepInput| {
            let problem = match self.values.get(name).map(NamedValue::vector) {
                Some(Some(vector)) => return Ok(vector),
                Some(None) => format!("'{name}' is a list of points, but must be a vector"),
                None => format!("no earlier step has the name '{name}'"),
            };
            let problem = format!("program.steps[{index}].{}: {problem}", step.kind);
            Err(in_step(step, CliFailure::new(Exit::Data, problem)))
        };
        step.inputs.iter().map(find).collect()
    }
}

/// What the step of an input says of its shape.
struct InputShape {
    field: FieldId,
    length: Option<u64>,
    rows: Option<u32>,
    columns: Option<u64>,
}

fn shape_missing(step: &NamedStep) -> CliFailure {
    let shape = match step.field() {
        Some(FieldId::Gf2) => "rows and columns",
        _ => "length",
    };
    let name = &step.name;
    let advice = format!("specify its {shape}, or its elements with --input {name}=FILE");
    in_step(step, CliFailure::new(Exit::Usage, advice))
}

/// A constant of a step that computes in `field`; Fr for steps that take no other field, which
/// refuse the field of their input themselves.
fn step_element(step: &NamedStep, field: FieldId, text: &FrText, place: &str) -> Result<Constant> {
    let FieldId::Prime31(field) = field else { return Ok(text.0.into()) };
    let word = text.word(field).ok_or_else(|| {
        let (kind, field) = (&step.kind, field.name());
        let problem = format!("{kind}.{place} is not an element of {field}");
        in_step(step, CliFailure::new(Exit::Data, problem))
    });
    word.map(Constant::from)
}

fn poly_reduction(
    step: &NamedStep,
    cyclic: Option<u64>,
    negacyclic: Option<u64>,
) -> Result<PolyReduction> {
    match (cyclic, negacyclic) {
        (None, None) => Ok(PolyReduction::None),
        (Some(n), None) => Ok(PolyReduction::Cyclic(n)),
        (None, Some(n)) => Ok(PolyReduction::Negacyclic(n)),
        (Some(_), Some(_)) => {
            let problem = "has both cyclic and negacyclic: remove one of them";
            fail(Exit::Data, format!("step '{}' {problem}", step.name))
        }
    }
}
