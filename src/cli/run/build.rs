//! Builds a program from the steps of a file.

use std::collections::HashMap;

use capstan_math::field::FieldId;

use super::{
    checks::{self, in_step},
    elements::FileElements,
    file::{InputText, NamedStep, ProgramFile, StepContext, StepParts},
};
use crate::{
    bases,
    client::{
        BasesHandle, BasesInfo, BitMatrixValue, Client, ClientError, ClientProgram, CurvePoint,
        G1Affine, G2Affine, Group, MatrixHandle, PointsValue, ProgramBuilder, ProgramRun,
        VectorValue,
    },
    error::FieldProblem,
    exit::{CliFailure, Exit, Result},
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
        let builder = ProgramBuilder::new();
        let mut building = FileBuilder { elements, builder, values: HashMap::new() };
        for (index, step) in file.steps.iter().enumerate() {
            let value = building.add(client, index, step).await;
            let value = value.map_err(|failure| in_step(step, failure))?;
            building.values.insert(step.name.clone(), value);
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
            file.steps.iter().filter(|step| step.input.is_some()).nth(input as usize)
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
    /// Adds a step. A vector over GF(2) is a matrix with the columns of the step's inputs.
    async fn add(&mut self, client: &Client, index: usize, step: &NamedStep) -> Result<NamedValue> {
        let inputs = self.inputs(index, step)?;
        let columns = self.columns(step)?;
        let field = step.field.or(inputs.first().map(VectorValue::field)).unwrap_or_default();
        let ids = inputs.iter().map(VectorValue::id).collect();
        let parts = step.parts(&StepContext { ids, field, columns });
        let parts = parts.map_err(|error| CliFailure::new(Exit::Data, error.to_string()))?;
        let builder = &mut self.builder;
        let vector = match parts {
            StepParts::Input(text) => return self.input(step, text),
            StepParts::Msm { bases, offset } => {
                let info = bases::find(client, &bases).await?;
                return self.msm(info, offset, inputs[0]);
            }
            StepParts::SparseProduct { matrix } => {
                let info = bases::find_matrix(client, &matrix).await?;
                builder.multiply_sparse(&MatrixHandle::new(info), inputs[0])?
            }
            StepParts::Ntt(transform) => builder.ntt(inputs[0], transform)?,
            StepParts::Whole(_) if inputs.is_empty() && !field.has_arithmetic() => {
                let problem = FieldProblem::UnsupportedField { field };
                return Err(ClientError::input("field", problem).into());
            }
            StepParts::Whole(operation) => builder.step(operation)?,
        };
        if vector.field() != FieldId::Gf2 {
            return Ok(NamedValue::Vector(vector));
        }
        checks::whole_rows(step, vector, columns)?;
        Ok(NamedValue::Bits(BitMatrixValue::new(vector, columns)))
    }

    /// Adds an input, of the shape that the step or else its file has.
    fn input(&mut self, step: &NamedStep, text: InputText) -> Result<NamedValue> {
        let InputText { field, length, rows, columns } = text;
        let file = self.elements.get(&step.name);
        let missing = |shape| {
            let name = &step.name;
            let advice = format!("specify its {shape}, or its elements with --input {name}=FILE");
            CliFailure::new(Exit::Usage, advice)
        };
        let in_file = file.and_then(|file| file.rows);
        if field == FieldId::Gf2 {
            let rows = rows.map(u64::from).or(in_file);
            let columns = columns.or(file.and_then(|file| file.columns));
            let (Some(rows), Some(columns)) = (rows, columns) else {
                return Err(missing("rows and columns"));
            };
            return Ok(NamedValue::Bits(self.builder.input_bits(rows, columns)?));
        }
        let rows = rows.or(in_file.and_then(|rows| u32::try_from(rows).ok())).unwrap_or(1);
        let row = file.map(|file| file.scalars.count() / u64::from(rows).max(1));
        let length = length.or(row).ok_or_else(|| missing("length"))?;
        Ok(NamedValue::Vector(self.builder.input_over(field, rows, length)?))
    }

    /// The columns of the matrices of bits that the step reads; 1 if it reads none.
    fn columns(&self, step: &NamedStep) -> Result<u64> {
        let matrices = step.inputs.iter().filter_map(|input| match self.values.get(input) {
            Some(NamedValue::Bits(matrix)) => Some(matrix.columns()),
            _ => None,
        });
        let columns: Vec<_> = matrices.collect();
        let first = columns.first().copied().unwrap_or(1);
        match columns.iter().find(|other| **other != first) {
            None => Ok(first),
            Some(other) => {
                let problem = "the inputs have different numbers of columns";
                let problem = format!("{}: {problem}: {first} and {other}", step.kind);
                Err(CliFailure::new(Exit::Data, problem))
            }
        }
    }

    /// Adds an MSM over the stored bases `info` from `offset` on.
    fn msm(&mut self, info: BasesInfo, offset: u64, scalars: VectorValue) -> Result<NamedValue> {
        Ok(match info.group {
            Group::G1 => NamedValue::G1(self.msm_in(info, offset, scalars)?),
            Group::G2 => NamedValue::G2(self.msm_in(info, offset, scalars)?),
        })
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
            let problem = match self.values.get(name).map(NamedValue::vector) {
                Some(Some(vector)) => return Ok(vector),
                Some(None) => format!("'{name}' is a list of points, but must be a vector"),
                None => format!("no earlier step has the name '{name}'"),
            };
            let problem = format!("program.steps[{index}].{}: {problem}", step.kind);
            Err(CliFailure::new(Exit::Data, problem))
        };
        step.inputs.iter().map(find).collect()
    }
}
