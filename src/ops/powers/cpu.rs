//! Computes pieces of the powers, each from its first one.

use ark_ff::Field;

use super::PowersStep;
use crate::{
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for PowersStep {
    fn run(&self, _: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let mut rows = host::zeros(context.shape()?, context.control)?;
        host::for_each_piece(&mut rows, context.control, |piece, elements| {
            let mut power = self.first * self.base.pow([piece.first as u64]);
            for element in elements {
                *element = power;
                power *= self.base;
            }
        })?;
        Ok(rows.into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        types.scan(1)
    }
}
