//! Evaluates pieces of each row by Horner's rule, and adds their values.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    engines::EngineWork,
    error::Result,
    operation::EvaluateStep,
    ops::host::{
        self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep, StepTypes,
    },
};

impl AnyFieldStep for EvaluateStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let point = field.constant(self.point)?;
        let value = |row: &Vec<F::Element>| host::evaluate(field, row, point, context.control);
        let rows = input.rows(field)?.par_iter().map(|row| value(row).map(|value| vec![value]));
        let rows = Zeroizing::new(rows.collect::<Result<Vec<_>>>()?);
        Ok(HostResult::of_rows(field, rows))
    }
}

impl HostStep for EvaluateStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        vec![types.scan(1)]
    }
}
