//! The report of a run as a message.

use super::message::{FinishedRun, FinishedStage, FinishedStep, SerializedSums};
use crate::{
    engine::{ENGINES, ExecutedBy, STAGES, StageTime},
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

    /// Whether the names of the engine and of all stages are known, and no stage comes twice.
    pub fn has_known_names(&self) -> bool {
        let mut stages: Vec<_> = self.stages.iter().map(|stage| stage.name.as_str()).collect();
        let are_known = stages.iter().all(|name| STAGES.contains(name));
        stages.sort_unstable();
        let are_distinct = stages.is_sorted_by(|name, next| name < next);
        are_known && are_distinct && ENGINES.contains(&self.engine.as_str())
    }

    /// The report. The names are known: see [`Self::has_known_names`].
    pub fn into_report(self, program: &OperationProgram) -> RunReport {
        let steps = self.steps.into_iter().zip(program.steps());
        let steps = steps.map(|(step, operation)| StepReport {
            operation: operation.name(),
            duration: step.duration,
            method: step.method,
            verified: step.verified,
            verify_time: step.verify_time,
        });
        let stages = self.stages.into_iter().map(|stage| StageTime {
            name: constant(&STAGES, &stage.name),
            duration: stage.duration,
        });
        let executor = ExecutedBy {
            engine: constant(&ENGINES, &self.engine),
            device: self.device,
            stages: stages.collect(),
            checked_on_device: self.checked_on_device,
        };
        let points = self.points.into_iter().map(|sums| sums.map(|sums| sums.0)).collect();
        RunReport { points, steps: steps.collect(), executor }
    }
}

/// The constant that is equal to `name`.
fn constant(names: &[&'static str], name: &str) -> &'static str {
    names.iter().find(|known| **known == name).copied().unwrap_or_default()
}
