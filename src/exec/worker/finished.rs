//! The report of a run as a message.

use super::{
    message::{FinishedRun, FinishedStage, FinishedStep, SerializedSums},
    names::static_name,
};
use crate::{
    engine::{ExecutedBy, StageTime},
    exec::{RunReport, StepReport},
    ops::OperationProgram,
    program::StepKind,
};

impl FinishedRun {
    pub fn new(report: RunReport) -> Self {
        let RunReport { points, steps, executor } = report;
        let steps = steps.into_iter().map(|step| FinishedStep {
            duration: step.duration,
            method: step.method,
            verified: step.verified,
            verify_time: step.verify_time,
        });
        let stages = executor.stages.iter();
        let stages = stages
            .map(|stage| FinishedStage { name: stage.name.to_owned(), duration: stage.duration });
        Self {
            points: points.into_iter().map(|sums| sums.map(SerializedSums)).collect(),
            steps: steps.collect(),
            engine: executor.engine.to_owned(),
            device: executor.device,
            stages: stages.collect(),
            checked_on_device: executor.checked_on_device,
        }
    }

    pub fn into_report(self, program: &OperationProgram) -> RunReport {
        let steps = self.steps.into_iter().zip(program.steps());
        let steps = steps.map(|(step, operation)| StepReport {
            operation: operation.name(),
            duration: step.duration,
            method: step.method,
            verified: step.verified,
            verify_time: step.verify_time,
        });
        let stages = self.stages.into_iter();
        let stages = stages
            .map(|stage| StageTime { name: static_name(&stage.name), duration: stage.duration });
        let executor = ExecutedBy {
            engine: static_name(&self.engine),
            device: self.device,
            stages: stages.collect(),
            checked_on_device: self.checked_on_device,
        };
        let points = self.points.into_iter().map(|sums| sums.map(|sums| sums.0)).collect();
        RunReport { points, steps: steps.collect(), executor }
    }
}
