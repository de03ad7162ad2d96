//! A client as a runner of programs, for proof systems.

use capstan_math::{
    builder::{BuiltProgram, ProgramBases, ProgramMatrix},
    runner::{
        EarlyListener, GivenInput, InputRow, MadeValue, NewOutput, NewRun, ProgramRunner,
        RunContent, RunOptions, RunValues, StoreState,
    },
    sparse::SparseMatrix,
};

use crate::{
    BasesId, Client, ClientError, CurvePoint, InputElements, ProgramRun, PutOptions, RunResult,
    SharedVector, VectorInfo,
    error::Result,
    run::{Delivery, GivenElements, OutputContent, WantedOutput},
};

impl ProgramRunner for Client {
    type Error = ClientError;
    type Input<'a> = InputElements<'a>;

    async fn put_points<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: &[A],
    ) -> Result<ProgramBases<A>> {
        self.put_bases_with(options, points).await.map(ProgramBases::from)
    }

    async fn put_sparse(
        &self,
        options: PutOptions,
        matrix: &SparseMatrix,
    ) -> Result<ProgramMatrix> {
        Ok((&self.put_matrix_with(options, matrix).await?).into())
    }

    async fn run_program<'a>(
        &self,
        run: NewRun<'a, InputElements<'a>>,
        options: RunOptions,
    ) -> Result<RunValues> {
        let result = self.run_with(ProgramRun::from(&run), options).await?;
        Ok(result.into())
    }

    async fn store_program(&self, program: &BuiltProgram) -> Result<BuiltProgram> {
        self.put_program(program).await
    }

    async fn store_state(&self) -> Result<StoreState> {
        let bases = self.list(None).await?.into_iter().map(|info| info.id.0);
        let matrices = self.list_matrices().await?.into_iter().map(|info| info.id.0);
        let objects = bases.chain(matrices).collect();
        let limits = self.info().await?.limits;
        Ok(StoreState { objects, bytes_max: limits.map(|limits| limits.store_bytes) })
    }

    async fn release_object(&self, id: [u8; 32]) -> Result<()> {
        self.release(BasesId(id)).await
    }
}

impl<'a> From<&'a NewRun<'_, InputElements<'a>>> for ProgramRun<'a> {
    /// A run that can be made again.
    fn from(run: &'a NewRun<'_, InputElements<'a>>) -> Self {
        let inputs = run.inputs.iter().map(|GivenInput { program, value, input }| GivenInput {
            program: *program,
            value: *value,
            input: GivenElements::Elements(input.clone()),
        });
        let outputs = run.outputs.iter().map(|NewOutput { program, value, points }| WantedOutput {
            program: *program,
            value: *value,
            delivery: points.map_or(Delivery::Send, Delivery::Points),
        });
        let early = run.early.iter().map(|listener| EarlyListener {
            output: listener.output,
            call: Box::new(|sums| (listener.call)(sums)),
        });
        Self {
            program: run.program.clone(),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            vectors: Vec::new(),
            early: early.collect(),
        }
    }
}

impl From<RunResult> for RunValues {
    fn from(result: RunResult) -> Self {
        let RunResult { program, outputs, timing, execution, steps } = result;
        let outputs = outputs.into_iter().filter_map(|output| {
            let content = match output.content {
                OutputContent::Vector(elements) => RunContent::Vector(elements),
                OutputContent::Points(points) => RunContent::Points(points),
                _ => return None,
            };
            Some(MadeValue { value: output.value, content })
        });
        Self::new(program, outputs.collect(), timing, execution, steps)
    }
}

impl From<&VectorInfo> for InputRow<InputElements<'_>> {
    fn from(vector: &VectorInfo) -> Self {
        Self { elements: InputElements::stored(vector.id, 0), length: vector.count }
    }
}

impl<'a> From<&'a SharedVector> for InputRow<InputElements<'a>> {
    fn from(vector: &'a SharedVector) -> Self {
        Self { elements: vector.into(), length: vector.len() as u64 }
    }
}
