//! Checks that an answer of a worker suits its request, so that a faulty worker process cannot harm
//! the server.

use std::fmt;

use super::{
    failure::WorkerFailure,
    message::{
        Advanced, AwaitedInput, FinishedRun, LaneOutcome, RunState, SerializedSums, SumsOfOutput,
        WrittenBytes,
    },
};
use crate::{
    curve::points::BadElement,
    engine::{DeviceResidency, cuda::GpuFacts},
    exec::call::RunCall,
    program::{PointsShape, ValueType},
};

/// Why an answer cannot be used. Its worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsuitableReply(&'static str);

impl fmt::Display for UnsuitableReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its answer does not suit the request: {}", self.0)
    }
}

fn require(suits: bool, what: &'static str) -> Result<(), UnsuitableReply> {
    suits.then_some(()).ok_or(UnsuitableReply(what))
}

impl LaneOutcome {
    /// How far a run of `call` has come; `Corrupt` if a sum is not on the curve. `placed` has the
    /// bytes of each output; `None` for points.
    pub fn into_advanced(
        self,
        call: &RunCall,
        placed: &[Option<u64>],
    ) -> Result<Result<Advanced, WorkerFailure>, UnsuitableReply> {
        match self {
            Self::Advanced(advanced) => {
                advanced.check(call, placed)?;
                let is_valid = advanced.sums().all(|sums| sums.0.are_on_curve());
                Ok(if is_valid { Ok(advanced) } else { Err(WorkerFailure::Corrupt) })
            }
            Self::Failed(failure) => {
                if let WorkerFailure::Element { step, .. } = failure {
                    let is_known = (step as usize) < call.program.steps().len();
                    require(is_known, "a step that failed")?;
                }
                Ok(Err(failure))
            }
            Self::Checked(_) => Err(UnsuitableReply("it checked points")),
            Self::Residency(_) => Err(UnsuitableReply("it changed what the device holds")),
        }
    }

    /// Whether `count` points are valid.
    pub fn into_checked(
        self,
        count: usize,
    ) -> Result<Result<Result<(), BadElement>, WorkerFailure>, UnsuitableReply> {
        match self {
            Self::Checked(checked) => {
                let is_known = checked.err().is_none_or(|bad| bad.index < count as u64);
                require(is_known, "a wrong point")?;
                Ok(Ok(checked))
            }
            Self::Failed(failure) => Ok(Err(failure)),
            Self::Advanced(_) => Err(UnsuitableReply("it advanced a run")),
            Self::Residency(_) => Err(UnsuitableReply("it changed what the device holds")),
        }
    }

    /// What `device` holds of an object after a change.
    pub fn into_residency(
        self,
        device: &GpuFacts,
    ) -> Result<Result<DeviceResidency, WorkerFailure>, UnsuitableReply> {
        match self {
            Self::Residency(residency) => {
                let is_possible = residency.bytes <= device.arena_bytes;
                require(residency.device == device.index && is_possible, "what a device holds")?;
                Ok(Ok(residency))
            }
            Self::Failed(failure) => Ok(Err(failure)),
            Self::Advanced(_) => Err(UnsuitableReply("it advanced a run")),
            Self::Checked(_) => Err(UnsuitableReply("it checked points")),
        }
    }
}

impl Advanced {
    fn sums(&self) -> impl Iterator<Item = &SerializedSums> {
        let finished = match &self.state {
            RunState::Done(finished) => Some(finished),
            RunState::Awaits(_) => None,
        };
        let early = self.early_sums.iter().map(|early| &early.sums);
        early.chain(finished.into_iter().flat_map(|finished| finished.points.iter().flatten()))
    }

    fn check(&self, call: &RunCall, placed: &[Option<u64>]) -> Result<(), UnsuitableReply> {
        let is_step = (self.longest_step as usize) < call.program.steps().len();
        require(is_step, "the longest step")?;
        for WrittenBytes { output, bytes } in &self.written {
            let len = placed.get(*output as usize).copied().flatten();
            let is_inside = len.is_some_and(|len| bytes.start <= bytes.end && bytes.end <= len);
            require(is_inside, "written bytes")?;
        }
        let are_few = self.early_sums.len() <= call.output_specs().len();
        require(are_few, "the number of early sums")?;
        for SumsOfOutput { output, sums } in &self.early_sums {
            let suits = call.output_specs().get(*output as usize).is_some_and(|output| {
                matches!(call.program.value_type(output.value), Some(ValueType::Points(shape))
                    if has_shape(sums, shape))
            });
            require(suits, "early sums")?;
        }
        match &self.state {
            RunState::Awaits(None) => Ok(()),
            RunState::Awaits(Some(AwaitedInput { input, elements })) => {
                let spec = call.input_specs().get(*input as usize);
                let is_inside = spec.is_some_and(|spec| {
                    elements.start <= elements.end && elements.end <= spec.count
                });
                require(is_inside, "awaited elements")
            }
            RunState::Done(finished) => finished.check(call),
        }
    }
}

fn has_shape(sums: &SerializedSums, PointsShape { group, count }: PointsShape) -> bool {
    sums.0.group() == group && sums.0.len() == count as usize
}

impl FinishedRun {
    fn check(&self, call: &RunCall) -> Result<(), UnsuitableReply> {
        require(self.steps.len() == call.program.steps().len(), "the number of steps")?;
        let outputs = call.output_specs();
        require(self.points.len() == outputs.len(), "the number of outputs")?;
        let suits = self.points.iter().zip(outputs).all(|(sums, output)| {
            let shape = call.program.value_type(output.value);
            match (sums, shape) {
                (Some(sums), Some(ValueType::Points(shape))) => has_shape(sums, shape),
                (None, Some(ValueType::Vector(_))) => true,
                _ => false,
            }
        });
        require(suits, "the sums of an output")
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use ark_ec::AffineRepr;

    use super::*;
    use crate::{
        curve::{
            G1Affine, G1Projective, G2Projective, Group,
            points::{CurvePoint, MsmSums},
            scalars::ScalarEncoding,
        },
        field::FieldId,
        ops::{InputStep, MsmStep, OperationProgram},
        program::{InputSpec, OutputKind, OutputSpec, ValueId},
    };

    /// A vector, and the sum of its multiples of bases.
    fn call() -> RunCall {
        let input = InputStep { field: FieldId::Bls12381Fr, rows: 1, length: 4 };
        let msm = MsmStep { input: ValueId(0), object_id: [7; 32], group: Group::G1, offset: 0 };
        let program = OperationProgram::new(vec![input.into(), msm.into()]).unwrap();
        let output = |value, kind| OutputSpec { value: ValueId(value), kind };
        let outputs = [output(0, OutputKind::Elements), output(1, OutputKind::Points)];
        let input = InputSpec { encoding: ScalarEncoding::Canonical, count: 4 };
        RunCall::new(Arc::new(program), &[input], &outputs, false).unwrap()
    }

    fn answer(output: u32, sums: MsmSums) -> LaneOutcome {
        LaneOutcome::Advanced(Advanced {
            modelled_total: Duration::ZERO,
            longest_step: 1,
            written: vec![],
            early_sums: vec![SumsOfOutput { output, sums: SerializedSums(sums) }],
            state: RunState::Awaits(None),
        })
    }

    #[test]
    fn early_sums_must_suit_their_output_and_be_on_the_curve() {
        let call = call();
        let advanced = |output, sums| answer(output, sums).into_advanced(&call, &[Some(128), None]);
        let point = G1Projective::from(G1Affine::generator());
        let sums = |points| G1Affine::into_sums(points);
        assert!(matches!(advanced(1, sums(vec![point])), Ok(Ok(_))));
        for output in [0, 2, u32::MAX] {
            assert!(advanced(output, sums(vec![point])).is_err(), "output {output}");
        }
        assert!(advanced(1, sums(vec![point; 2])).is_err(), "two rows");
        assert!(advanced(1, MsmSums::G2(vec![G2Projective::default()])).is_err(), "another group");
        let outside = G1Projective::new_unchecked(point.x, point.x, point.z);
        let corrupt = advanced(1, sums(vec![outside]));
        assert!(matches!(corrupt, Ok(Err(WorkerFailure::Corrupt))));
    }
}
