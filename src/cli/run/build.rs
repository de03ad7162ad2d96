//! Builds a program from the steps of a file.

use std::collections::HashMap;

use super::file::{FrText, NamedStep, ProgramFile, StepText};
use crate::{
    cli::{
        bases,
        exit::{CliFailure, Exit, Result, fail},
        input::ScalarBytes,
    },
    client::{
        BasesHandle, BasesInfo, Client, ClientError, ClientProgram, CurvePoint, Fr, G1Affine,
        G2Affine, Group, MatrixHandle, MatrixInfo, NttTransform, PointsValue, PolyReduction,
        ProgramBuilder, ProgramRun, VectorValue,
    },
    error::FieldProblem,
};

/// A value of any kind.
#[derive(Debug, Clone, Copy)]
pub enum NamedValue {
    Vector(VectorValue),
    G1(PointsValue<G1Affine>),
    G2(PointsValue<G2Affine>),
}

impl NamedValue {
    /// Makes `run` return the value.
    pub fn send<'a>(&self, run: ProgramRun<'a>) -> ProgramRun<'a> {
        match self {
            Self::Vector(vector) => run.send(*vector),
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
        elements: &HashMap<String, ScalarBytes>,
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
                _ => building.vector(index, step).map(NamedValue::Vector),
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

fn in_step(step: &NamedStep, failure: CliFailure) -> CliFailure {
    failure.in_file(format!("step '{}'", step.name))
}

struct FileBuilder<'a> {
    elements: &'a HashMap<String, ScalarBytes>,
    builder: ProgramBuilder,
    values: HashMap<String, NamedValue>,
}

impl FileBuilder<'_> {
    /// Adds a step that makes a vector.
    fn vector(&mut self, index: usize, step: &NamedStep) -> Result<VectorValue> {
        let inputs = self.inputs(index, step)?;
        let builder = &mut self.builder;
        let added = match &step.text {
            StepText::Input { length, rows } => {
                let elements = self.elements.get(&step.name).map(ScalarBytes::count);
                let row = elements.map(|elements| elements / u64::from(*rows).max(1));
                let length = length.or(row).ok_or_else(|| length_missing(step))?;
                builder.input_rows(*rows, length)
            }
            StepText::Constant { elements } => builder.constant(&field_elements(elements)),
            StepText::Powers { base, length, first } => {
                let first = first.map_or(Fr::from(1), |first| first.0);
                builder.powers(first, base.0, *length)
            }
            StepText::Ntt {
                lg_n, direction, coset_generator, input_order, output_order, ..
            } => {
                let transform = NttTransform {
                    lg_n: *lg_n,
                    direction: *direction,
                    coset: coset_generator.map(|generator| generator.0),
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
            StepText::Scale { factor, .. } => builder.scale(inputs[0], factor.0),
            StepText::LinearCombination { factors, .. } => {
                builder.linear_combination(&inputs, &field_elements(factors))
            }
            StepText::Slice { offset, length, .. } => builder.slice(inputs[0], *offset, *length),
            StepText::Concat { .. } => builder.concat(&inputs),
            StepText::Pad { length, .. } => builder.pad(inputs[0], *length),
            StepText::Evaluate { point, .. } => builder.evaluate(inputs[0], point.0),
            StepText::DivideByLinear { point, .. } => builder.divide_by_linear(inputs[0], point.0),
            StepText::DivideByVanishing { lg_n, coset_generator, .. } => {
                builder.divide_by_vanishing(inputs[0], *lg_n, coset_generator.0)
            }
            StepText::PolyMul { cyclic, negacyclic, .. } => {
                let reduction = poly_reduction(step, *cyclic, *negacyclic)?;
                builder.poly_mul(inputs[0], inputs[1], reduction)
            }
            StepText::Msm { .. } => unreachable!("MSMs make points"),
            StepText::SparseProduct { .. } => unreachable!("its matrix is found first"),
        };
        added.map_err(|error| in_step(step, error.into()))
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
        let find = |name: &String| {
            let problem = match self.values.get(name) {
                Some(NamedValue::Vector(vector)) => return Ok(*vector),
                Some(_) => format!("'{name}' is a list of points, but must be a vector"),
                None => format!("no earlier step has the name '{name}'"),
            };
            let problem = format!("program.steps[{index}].{}: {problem}", step.kind);
            Err(in_step(step, CliFailure::new(Exit::Data, problem)))
        };
        step.text.inputs().iter().map(find).collect()
    }
}

fn length_missing(step: &NamedStep) -> CliFailure {
    let name = &step.name;
    let advice = format!("specify its length, or its elements with --input {name}=FILE");
    in_step(step, CliFailure::new(Exit::Usage, advice))
}

fn field_elements(texts: &[FrText]) -> Vec<Fr> {
    texts.iter().map(|text| text.0).collect()
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
