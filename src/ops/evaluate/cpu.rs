//! Evaluates pieces of each row by Horner's rule, and adds their values.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::EvaluateStep;
use crate::{
    curve::Fr,
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for EvaluateStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let value = |row: &Vec<Fr>| host::evaluate(row, self.point, context.control);
        let rows = input.rows()?.par_iter().map(|row| value(row).map(|value| vec![value]));
        Ok(Zeroizing::new(rows.collect::<Result<Vec<_>>>()?).into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.scan(1)
    }
}
