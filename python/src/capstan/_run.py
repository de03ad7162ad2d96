"""Runs programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capstan import _calls, _session, _transfer, encodings, errors, results
from capstan._arguments import Seconds, SumEncoding, Verify, checked
from capstan._calls import Call
from capstan._session import Session
from capstan._staging import STAGED_BYTES_MIN, StagedVector
from capstan._transfer import Progress, Source, Transfer
from capstan.encodings import FR_BYTES, Payload, ScalarsLike
from capstan.program import Program, ProgramValue
from capstan.results import Execution, Timing, Vector
from capstan.v1 import program_pb2

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


@dataclass(frozen=True)
class RunOutput:
    """A value to return or to keep."""

    value: ProgramValue
    # A field of ProgramOutput, with the fields of its message.
    delivery: dict[str, dict[str, Any]]
    # Without elements for points, and for vectors that stay on the server.
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype="u1"), repr=False)
    kept: Vector | None = None

    def fields(self, place: StagedVector | None) -> dict[str, Any]:
        """Return the fields of ProgramOutput."""
        delivery = self.delivery
        if place is not None:
            delivery = {"region": place.place | delivery["send"]}
        return {"value": self.value.index, **delivery}


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
        planned.append(_check_input(value, given.pop(value.index), montgomery))
    if given:
        raise errors.invalid(f"program.steps[{min(given)}]", "is not an input")
    vector_encoding = encodings.MONTGOMERY if montgomery else encodings.CANONICAL
    vectors = [program[key].elements for key in outputs if program[key].group is None]
    limits = yield from session.limits(budget)
    limits.check_result("outputs", sum(vectors) * FR_BYTES)
    wanted = [_plan_output(program[key], vector_encoding, encoding) for key in outputs]
    for key in keep:
        value = program[key]
        vector = Vector(_transfer.random_id(), vector_encoding, 0, value.elements)
        delivery = {"keep": {"upload_id": vector.id, "encoding": vector_encoding}}
        wanted.append(RunOutput(value, delivery, kept=vector))

    def first_message(
        sources: list[Source], places: list[StagedVector | None]
    ) -> program_pb2.RunRequest:
        header = program_pb2.RunHeader(
            program={"inline": program.message},
            inputs=[{"reduce": reduce, **source} for source in sources],
            outputs=[output.fields(place) for output, place in zip(wanted, places, strict=True)],
            verify=_session.VERIFICATIONS[verify],
        )
        return program_pb2.RunRequest(header=header)

    transfer = Transfer(
        limits,
        budget,
        stream=_calls.RUN,
        first_message=first_message,
        inputs=planned,
        outputs=[output.rows.reshape(-1) for output in wanted],
        report=progress,
        # The program takes its part of the first message.
        header_bytes=program.message.ByteSize(),
        staged_bytes_min=STAGED_BYTES_MIN,
    )
    result = (yield from transfer.run()).result
    if len(result.points) != len(wanted):
        raise errors.invalid_response("the stream ended without a result")
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


def _check_input(
    value: ProgramValue, values: ScalarsLike | Vector, montgomery: bool
) -> Payload | Vector:
    path = f"program.steps[{value.index}].input.elements"
    if isinstance(values, Vector):
        if values.length < value.elements:
            raise errors.wrong_length(path, value.elements, values.length)
        return values
    elements = encodings.encode_scalars(path, values, montgomery=montgomery)
    if elements.count != value.elements:
        raise errors.wrong_length(path, value.elements, elements.count)
    return elements


def _plan_output(value: ProgramValue, vector_encoding: int, point_encoding: str) -> RunOutput:
    if value.group is not None:
        return RunOutput(value, {"points": {"encoding": encodings.SUM_ENCODINGS[point_encoding]}})
    shape = (value.length, FR_BYTES) if value.rows == 1 else (value.rows, value.length, FR_BYTES)
    rows = np.empty(shape, dtype="u1")
    return RunOutput(value, {"send": {"encoding": vector_encoding}}, rows)


def _content(output: RunOutput, points: bytes, encoding: str) -> np.ndarray | list[bytes]:
    if output.value.group is None:
        return output.rows
    width = encodings.point_width(output.value.group, encoding)
    if len(points) != output.value.rows * width:
        raise errors.invalid_response("the number of points is wrong")
    return [points[start : start + width] for start in range(0, len(points), width)]
