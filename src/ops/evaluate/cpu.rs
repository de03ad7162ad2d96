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
    fn run(&self, inputs: Vec<HostArgument<'_>>, _: &HostContext<'_>) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let value = |row: &Vec<Fr>| vec![host::evaluate(row, self.point)];
        let rows: Vec<_> = input.rows()?.par_iter().map(value).collect();
        Ok(Zeroizing::new(rows).into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.scan(1)
    }
}
