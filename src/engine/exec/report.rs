//! What a run reports.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    curve::points::MsmSums,
    engines::{ExecutedBy, StaticName, known_name},
    ops::OperationKind,
    program::ValueId,
    verify::Verification,
};

/// The modelled time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelledTime {
    pub total: Duration,
    /// The first of the steps that take longest.
    pub longest: ValueId,
}

impl ModelledTime {
    pub(super) fn of_steps(steps: impl Iterator<Item = (ValueId, Duration)>) -> Self {
        let mut total = Duration::ZERO;
        let mut longest = None;
        for (id, time) in steps {
            total = total.saturating_add(time);
            if longest.is_none_or(|(_, known)| time > known) {
                longest = Some((id, time));
            }
        }
        Self { total, longest: longest.map_or(ValueId(0), |(id, _)| id) }
    }
}

/// What one step took. A step that no output needs takes no time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// Such as `ntt`.
    #[serde(deserialize_with = "operation_name")]
    pub operation: StaticName,
    pub duration: Duration,
    /// How the engine computed it; empty if the host did.
    pub method: String,
    /// How the value was checked.
    pub verified: Verification,
    /// Time spent checking, in addition to `duration`.
    pub verify_time: Duration,
}

fn operation_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StaticName, D::Error> {
    let names: Vec<_> = OperationKind::ALL.iter().map(|kind| kind.name()).collect();
    known_name(deserializer, &names)
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// One per output; `None` for vectors.
    pub points: Vec<Option<MsmSums>>,
    /// One per step of the program.
    pub steps: Vec<StepReport>,
    pub executor: ExecutedBy,
}

impl StepReport {
    /// The report of a step that has not been run.
    pub const fn not_run(operation: &'static str) -> Self {
        Self {
            operation,
            duration: Duration::ZERO,
            method: String::new(),
            verified: Verification::None,
            verify_time: Duration::ZERO,
        }
    }
}
