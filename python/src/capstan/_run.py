"""Runs programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from capstan import _session, _upload, encodings, errors, results
from capstan._arguments import Seconds, SumEncoding, Verify, checked
from capstan._calls import Call
from capstan._run_transfer import RunInput, RunOutput, RunTransfer
from capstan._session import Session
from capstan._upload import Progress
from capstan.encodings import FR_BYTES, ScalarsLike
from capstan.program import Program, ProgramValue
from capstan.results import Execution, Timing, Vector

ValueKey = ProgramValue | str


@dataclass(frozen=True)
class StepReport:
    """What one step took.

    Attributes:
        operation: Such as `ntt`.
        seconds: Time to compute the value, without its check.
        method: How the engine computed it, such as the plan of an MSM.
        verified: The check that the value passed: `none`, `full` or `probabilistic`.
    """

    operation: str
    seconds: float
    method: str
    verified: Verify


@dataclass(frozen=True)
class RunResult:
    """The outputs of a run: `result[value]` or `result["name"]`. The representation hides them.

    A vector is an array of shape (n, 32) uint8, or (rows, n, 32) of several rows; points are a list
    of bytes.

    Attributes:
        timing: Time of each phase.
        execution: Engine, device and stages.
        steps: One report for each step of the program.
    """

    _values: dict[int, np.ndarray | list[bytes]] = field(repr=False)
    _kept: dict[int, Vector] = field(repr=False)
    _program: Program = field(repr=False)
    timing: Timing
    execution: Execution
    steps: list[StepReport]

    def __getitem__(self, key: ValueKey) -> np.ndarray | list[bytes]:
        return self._values[self._program[key].index]

    def kept(self, key: ValueKey) -> Vector:
        """Return the vector on the server that holds a value of `keep`."""
        return self._kept[self._program[key].index]


@checked
def run(
    session: Session,
    program: Program,
    inputs: Mapping[ProgramValue, ScalarsLike | Vector] | Mapping[str, ScalarsLike | Vector],
    outputs: Sequence[ValueKey],
    *,
    keep: Sequence[ValueKey] = (),
    montgomery: bool = False,
    reduce: bool = False,
    encoding: SumEncoding = "compressed",
    verify: Verify = "none",
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[RunResult]:
    """Run a program in one call.

    Args:
        program: The steps.
        inputs: The elements of each input that the outputs need, by value or name: arrays as for
            `msm`, or vectors on the server. Narrow integers are allowed if only MSMs read them.
        outputs: Values or names of the vectors and points to return.
        keep: Values or names of vectors to leave on the server.
        montgomery: Whether 32-byte elements of inputs and outputs are in Montgomery form.
        reduce: Reduce 32-byte elements modulo r; otherwise the server refuses those of r or more.
        encoding: Encoding of points: `compressed` or `uncompressed`.
        verify: Check of the result on the server: `none`, `full` or `probabilistic`.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes sent and received and their total, possibly by another
            thread.

    Raises:
        InvalidInput: An input is missing or invalid, or a step is wrong: `field` has its path.
        NotFound: The server does not have bases, a matrix or a vector.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    given = {program[key].index: values for key, values in inputs.items()}
    planned = []
    for value in program.inputs:
        if value.index not in given:
            raise errors.invalid(f"program.steps[{value.index}].input", "no elements were given")
        planned.append(_plan_input(value, given.pop(value.index), montgomery, reduce))
    if given:
        raise errors.invalid(f"program.steps[{min(given)}]", "is not an input")
    vector_encoding = encodings.MONTGOMERY if montgomery else encodings.CANONICAL
    vectors = [program[key].elements for key in outputs if program[key].group is None]
    limits = yield from session.limits(budget)
    limits.check_result("outputs", sum(vectors) * FR_BYTES)
    wanted = [_plan_output(program[key], vector_encoding, encoding) for key in outputs]
    for key in keep:
        value = program[key]
        vector = Vector(_upload.random_id(), vector_encoding, 0, value.elements)
        wanted.append(RunOutput(value, vector_encoding, kept=vector))
    transfer = RunTransfer(
        program=program.message,
        inputs=planned,
        outputs=wanted,
        verify=_session.VERIFICATIONS[verify],
        report=progress,
    )
    result = yield from transfer.run(session, limits, budget)
    return RunResult(
        _values={
            output.value.index: _content(output, points, encoding)
            for output, points in zip(wanted, result.points, strict=True)
            if output.kept is None
        },
        _kept={output.value.index: output.kept for output in wanted if output.kept is not None},
        _program=program,
        timing=results.timing_from(result.timing, budget.elapsed()),
        execution=results.execution_from(result.execution, verify),
        steps=[
            StepReport(
                operation=step.operation,
                seconds=step.time_us * 1e-6,
                method=step.method,
                verified=_session.verify_name(step.verified),
            )
            for step in result.steps
        ],
    )


def _plan_input(
    value: ProgramValue, values: ScalarsLike | Vector, montgomery: bool, reduce: bool
) -> RunInput:
    path = f"program.steps[{value.index}].input.elements"
    if isinstance(values, Vector):
        if values.length < value.elements:
            raise errors.wrong_length(path, value.elements, values.length)
        return RunInput(reduce=reduce, stored=values)
    elements = encodings.encode_scalars(path, values, montgomery=montgomery)
    if elements.count != value.elements:
        raise errors.wrong_length(path, value.elements, elements.count)
    return RunInput(reduce=reduce, elements=elements)


def _plan_output(value: ProgramValue, vector_encoding: int, point_encoding: str) -> RunOutput:
    if value.group is not None:
        return RunOutput(value, encodings.SUM_ENCODINGS[point_encoding])
    shape = (value.length, FR_BYTES) if value.rows == 1 else (value.rows, value.length, FR_BYTES)
    return RunOutput(value, vector_encoding, received=np.empty(shape, dtype="u1"))


def _content(output: RunOutput, points: bytes, encoding: str) -> np.ndarray | list[bytes]:
    if output.received is not None:
        return output.received
    width = encodings.point_width(output.value.group, encoding)
    if len(points) != output.value.rows * width:
        raise errors.invalid_response("the number of points is wrong")
    return [points[start : start + width] for start in range(0, len(points), width)]
