//! Copies the range of each row.

use zeroize::Zeroizing;

use super::SliceStep;
use crate::{
    engine::EngineWork,
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

impl HostStep for SliceStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, _: &HostContext<'_>) -> Result<HostResult> {
        let (start, length) = (self.offset as usize, self.length as usize);
        let input = host::only(inputs)?;
        let rows = input.rows()?.iter().map(|row| row[start..start + length].to_vec());
        Ok(Zeroizing::new(rows.collect::<Vec<_>>()).into())
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        // The copied range is read, too.
        StepTypes { inputs: &[types.value], ..*types }.pass(0)
    }
}
