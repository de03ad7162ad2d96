//! Decodes and checks the elements.

use crate::{
    engines::EngineWork,
    error::{Error, Result},
    operation::InputStep,
    ops::host::{
        self, AnyVectorStep, HostArgument, HostContext, HostElements, HostResult, HostStep,
        StepTypes,
    },
};

impl AnyVectorStep for InputStep {
    fn run_on<F: HostElements>(
        &self,
        field: F,
        _: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let elements = context.input;
        let elements =
            elements.ok_or_else(|| Error::Internal("the step's input is missing".into()))?;
        let mut rows = host::zeros(context.shape()?, context.control)?;
        let mut first = 0;
        for row in rows.iter_mut() {
            elements.decode_elements(field, first, row, context.control)?;
            first += row.len();
        }
        Ok(HostResult::of_rows(field, rows))
    }
}

impl HostStep for InputStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_on_any_vector(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.transfer()]
    }
}
