//! Checks that an answer of a worker suits its request, so that a faulty worker process cannot harm
//! the server.

use std::fmt;

use super::{
    failure::WorkerFailure,
    message::{Advanced, AwaitedInput, LaneOutcome, RunState, SumsOfOutput, WrittenBytes},
};
use crate::{
    buffer::RangeSet,
    curve::points::{BadElement, MsmSums},
    engine::{DeviceResidency, cuda::GpuFacts},
    error::EngineError,
    exec::{RunCall, RunReport},
    program::{PointsShape, StepKind, ValueType},
};

/// Why an answer cannot be used. Its worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsuitableReply(&'static str);

impl fmt::Display for UnsuitableReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its answer does not suit the request: {}", self.0)
    }
}

/// What a run has written to one of its outputs.
pub struct OutputProgress {
    /// The bytes of the output; `None` for points, which come with the reply.
    placed: Option<u64>,
    written: RangeSet,
}

impl OutputProgress {
    /// For an output of which no byte has been written.
    pub fn new(placed: Option<u64>) -> Self {
        Self { placed, written: RangeSet::default() }
    }

    fn is_complete(&self) -> bool {
        self.written.covered() == self.placed.unwrap_or(0)
    }
}

fn require(suits: bool, what: &'static str) -> Result<(), UnsuitableReply> {
    suits.then_some(()).ok_or(UnsuitableReply(what))
}

impl LaneOutcome {
    /// How far a run of `call` has come; `Corrupt` if a sum is not on the curve. Adds what was
    /// written to `outputs`, which has the progress of each output: a run that has ended must have
    /// written every byte.
    pub fn into_advanced(
        self,
        call: &RunCall,
        outputs: &mut [OutputProgress],
    ) -> Result<Result<Advanced, WorkerFailure>, UnsuitableReply> {
        match self {
            Self::Advanced(advanced) => {
                advanced.check(call, outputs)?;
                let is_valid = advanced.sums().all(|sums| sums.are_on_curve());
                Ok(if is_valid { Ok(advanced) } else { Err(EngineError::Corrupt.into()) })
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

    /// Whether `count` points are valid. If they are, all of their `bytes` must have been written.
    pub fn into_checked(
        self,
        count: usize,
        bytes: u64,
    ) -> Result<Result<Result<(), BadElement>, WorkerFailure>, UnsuitableReply> {
        match self {
            Self::Checked(checked) => {
                match checked {
                    Ok(written) => require(written == bytes, "the bytes of decoded points")?,
                    Err(bad) => require(bad.index < count as u64, "a wrong point")?,
                }
                Ok(Ok(checked.map(|_| ())))
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
    fn sums(&self) -> impl Iterator<Item = &MsmSums> {
        let finished = match &self.state {
            RunState::Done(finished) => Some(finished),
            RunState::Awaits(_) => None,
        };
        let early = self.early_sums.iter().map(|early| &early.sums);
        early.chain(finished.into_iter().flat_map(|finished| finished.points.iter().flatten()))
    }

    fn check(&self, call: &RunCall, outputs: &mut [OutputProgress]) -> Result<(), UnsuitableReply> {
        let is_step = (self.longest_step as usize) < call.program.steps().len();
        require(is_step, "the longest step")?;
        for WrittenBytes { output, bytes } in &self.written {
            let progress = outputs.get_mut(*output as usize);
            let inside = progress.filter(|progress| {
                let is_inside = |len| bytes.start <= bytes.end && bytes.end <= len;
                progress.placed.is_some_and(is_inside)
            });
            let progress = inside.ok_or(UnsuitableReply("written bytes"))?;
            progress.written.insert(bytes.clone());
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
            RunState::Done(finished) => {
                let are_complete = outputs.iter().all(OutputProgress::is_complete);
                require(are_complete, "bytes of an output are missing")?;
                check_report(finished, call)
            }
        }
    }
}

fn has_shape(sums: &MsmSums, PointsShape { group, count }: PointsShape) -> bool {
    sums.group() == group && sums.len() == count as usize
}

fn check_report(report: &RunReport, call: &RunCall) -> Result<(), UnsuitableReply> {
    let RunReport { points, steps, executor } = report;
    let operations = call.program.steps().iter().map(StepKind::name);
    let are_those = steps.iter().map(|step| step.operation).eq(operations);
    require(are_those, "the steps")?;
    let mut stages: Vec<_> = executor.stages.iter().map(|stage| stage.name).collect();
    stages.sort_unstable();
    require(stages.is_sorted_by(|stage, next| stage < next), "a stage comes twice")?;
    let outputs = call.output_specs();
    require(points.len() == outputs.len(), "the number of outputs")?;
    let suits = points.iter().zip(outputs).all(|(sums, output)| {
        let shape = call.program.value_type(output.value);
        match (sums, shape) {
            (Some(sums), Some(ValueType::Points(shape))) => has_shape(sums, shape),
            (None, Some(ValueType::Vector(_))) => true,
            _ => false,
        }
    });
    require(suits, "the sums of an output")
}

#[cfg(test)]
mod tests {
    use std::{ops::Range, sync::Arc, time::Duration};

    use ark_ec::AffineRepr;

    use super::*;
    use crate::{
        curve::{
            G1Affine, G1Projective, G2Projective, Group, points::CurvePoint,
            scalars::ScalarEncoding,
        },
        engine::StageTime,
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
        let input = InputSpec::new(ScalarEncoding::Canonical, 4);
        RunCall::new(Arc::new(program), &[input], &outputs, false).unwrap()
    }

    /// No byte of the outputs of [`call`] has been written.
    fn progress() -> [OutputProgress; 2] {
        [Some(128), None].map(OutputProgress::new)
    }

    fn answer(output: u32, sums: MsmSums) -> LaneOutcome {
        LaneOutcome::Advanced(Advanced {
            modelled_total: Duration::ZERO,
            longest_step: 1,
            written: vec![],
            early_sums: vec![SumsOfOutput { output, sums }],
            state: RunState::Awaits(None),
        })
    }

    #[test]
    fn early_sums_must_suit_their_output_and_be_on_the_curve() {
        let call = call();
        let advanced = |output, sums| answer(output, sums).into_advanced(&call, &mut progress());
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
        assert!(matches!(corrupt, Ok(Err(WorkerFailure::Engine(EngineError::Corrupt)))));
    }

    #[test]
    fn a_run_that_has_ended_must_have_written_every_byte_of_its_outputs() {
        let call = call();
        let mut report = call.new_report("cuda", String::new());
        report.points[1] = Some(G1Affine::into_sums(vec![G1Projective::default()]));
        let done = || RunState::Done(Box::new(report.clone()));
        let advance = |outputs: &mut [OutputProgress], bytes: Range<u64>, state| {
            let written = vec![WrittenBytes { output: 0, bytes }];
            let (modelled_total, longest_step, early_sums) = Default::default();
            let advanced = Advanced { modelled_total, longest_step, written, early_sums, state };
            LaneOutcome::Advanced(advanced).into_advanced(&call, outputs)
        };
        let mut outputs = progress();
        assert!(advance(&mut outputs, 0..128, done()).is_ok());
        for missing in [0..127, 1..128, 0..0] {
            assert!(advance(&mut progress(), missing, done()).is_err());
        }
        let mut outputs = progress();
        assert!(advance(&mut outputs, 32..128, RunState::Awaits(None)).is_ok());
        assert!(advance(&mut outputs, 0..32, done()).is_ok(), "in two answers");
        let mut outputs = progress();
        assert!(advance(&mut outputs, 0..96, RunState::Awaits(None)).is_ok());
        assert!(advance(&mut outputs, 64..96, done()).is_err(), "the same bytes twice");
        assert!(advance(&mut progress(), 0..129, RunState::Awaits(None)).is_err());
    }

    #[test]
    fn a_report_of_other_steps_or_with_unknown_names_is_refused() {
        let call = call();
        let report = |engine: &'static str, stages: &[&'static str]| {
            let mut report = call.new_report(engine, String::new());
            report.points[1] = Some(G1Affine::into_sums(vec![G1Projective::default()]));
            let stage = |name: &&'static str| StageTime { name, duration: Duration::ZERO };
            report.executor.stages = stages.iter().map(stage).collect();
            report
        };
        let received = |report: &RunReport| -> Result<(), UnsuitableReply> {
            let bytes = postcard::to_stdvec(report).unwrap();
            let received = postcard::from_bytes::<RunReport>(&bytes);
            check_report(&received.map_err(|_| UnsuitableReply("unknown"))?, &call)
        };
        let all = ["sort", "accumulate", "reduce", "transform", "check"];
        for engine in ["cpu", "cuda"] {
            assert!(received(&report(engine, &all)).is_ok());
        }
        assert!(received(&report("", &[])).is_err());
        assert!(received(&report("cuda", &["sort", "a name that would be kept"])).is_err());
        assert!(received(&report("cuda", &["sort", "check", "sort"])).is_err());
        let mut other = report("cuda", &[]);
        other.steps.swap(0, 1);
        assert!(received(&other).is_err());
        other.steps[0].operation = "a name that would be kept";
        assert!(received(&other).is_err());
    }

    #[test]
    fn decoded_points_that_are_valid_must_all_have_been_written() {
        let checked = |checked| LaneOutcome::Checked(checked).into_checked(2, 192);
        assert!(matches!(checked(Ok(192)), Ok(Ok(Ok(())))));
        assert!(checked(Ok(96)).is_err() && checked(Ok(0)).is_err());
    }
}
