"""Programs: several operations in one call, whose intermediate values stay on the server."""

from collections.abc import Sequence
from dataclasses import dataclass

from capstan import _ntt, encodings, errors
from capstan._arguments import Batch, Direction, Group, Length, LogSize, Order, checked
from capstan.results import Bases, Matrix
from capstan.v1 import program_pb2

_FR = program_pb2.FIELD_BLS12_381_FR
_POINTWISE = {
    "add": program_pb2.POINTWISE_OPERATION_ADD,
    "subtract": program_pb2.POINTWISE_OPERATION_SUBTRACT,
    "multiply": program_pb2.POINTWISE_OPERATION_MULTIPLY,
    "multiply_add": program_pb2.POINTWISE_OPERATION_MULTIPLY_ADD,
    "multiply_subtract": program_pb2.POINTWISE_OPERATION_MULTIPLY_SUBTRACT,
    "invert": program_pb2.POINTWISE_OPERATION_INVERT,
}


@dataclass(frozen=True)
class ProgramValue:
    """What a step of a program makes: rows of elements of Fr, or points.

    Attributes:
        index: Index of the step.
        rows: Number of rows; of points, their number.
        length: Elements of each row; 0 for points.
        group: The group of points; None for a vector.
        name: The name of the value in results, or None.
    """

    index: int
    rows: int
    length: int
    group: Group | None
    name: str | None

    @property
    def elements(self) -> int:
        """Number of elements of all rows."""
        return self.rows * self.length


class Program:
    """A list of steps without branches or loops, which `Client.run` runs.

    Each method adds a step and returns its value, which later steps read. A name makes the value
    accessible by that name in inputs, outputs and results. A program holds no secrets: its elements
    may be challenges or domain parameters, but never part of a witness. Elements are integers or 32
    bytes, canonical, little-endian. The server checks the steps; its errors name the step and the
    field, such as `program.steps[7].ntt.input`.
    """

    def __init__(self):
        self.message = program_pb2.Program()
        self._values: list[ProgramValue] = []

    def __getitem__(self, key: str | ProgramValue) -> ProgramValue:
        """Return the value with this name, or a value of this program itself.

        Raises InvalidInput if the program has no such value.
        """
        if isinstance(key, ProgramValue):
            return self._values[self._index(key)]
        for value in self._values:
            if value.name == key:
                return value
        raise errors.invalid("program", f"no value has the name {key!r}")

    @property
    def inputs(self) -> list[ProgramValue]:
        """The values that a run provides, in order."""
        steps = zip(self.message.steps, self._values, strict=True)
        return [value for step, value in steps if step.HasField("input")]

    @checked
    def input(self, length: Length, *, rows: Batch = 1, name: str | None = None) -> ProgramValue:
        """Add a vector of `rows` rows of `length` elements, which each run provides."""
        step = program_pb2.InputStep(field=_FR, rows=rows, length=length)
        return self._add(rows, length, name, input=step)

    @checked
    def constant(self, elements: Sequence[int], *, name: str | None = None) -> ProgramValue:
        """Add a row of up to 1024 elements that are part of the program."""
        data = encodings.scalars(elements).tobytes()
        step = program_pb2.ConstantStep(field=_FR, elements=data)
        return self._add(1, len(elements), name, constant=step)

    @checked
    def powers(
        self, base: int | bytes, length: Length, *, first: int | bytes = 1, name: str | None = None
    ) -> ProgramValue:
        """Add the row first, first * base, first * base^2, ... of `length` elements."""
        step = program_pb2.PowersStep(
            field=_FR, base=_element("base", base), first=_element("first", first), length=length
        )
        return self._add(1, length, name, powers=step)

    @checked
    def ntt(
        self,
        vector: ProgramValue,
        *,
        lg_n: LogSize | None = None,
        direction: Direction = "forward",
        coset: int | bytes | None = None,
        input_order: Order = "natural",
        output_order: Order = "natural",
        name: str | None = None,
    ) -> ProgramValue:
        """Transform each row to 2^lg_n elements, like `Client.ntt`; shorter rows are padded.

        By default, lg_n is the least that fits the rows.
        """
        if lg_n is None:
            lg_n = max(vector.length - 1, 0).bit_length()
        step = program_pb2.NttStep(
            input=self._index(vector),
            lg_n=lg_n,
            direction=_ntt.DIRECTIONS[direction],
            coset_generator=b"" if coset is None else _element("coset", coset),
            input_order=_ntt.ORDERS[input_order],
            output_order=_ntt.ORDERS[output_order],
        )
        return self._add(vector.rows, 1 << lg_n, name, ntt=step)

    @checked
    def add(self, a: ProgramValue, b: ProgramValue, *, name: str | None = None) -> ProgramValue:
        """Add the step a[i] + b[i]."""
        return self._pointwise("add", [a, b], name)

    @checked
    def subtract(
        self, a: ProgramValue, b: ProgramValue, *, name: str | None = None
    ) -> ProgramValue:
        """Add the step a[i] - b[i]."""
        return self._pointwise("subtract", [a, b], name)

    @checked
    def multiply(
        self, a: ProgramValue, b: ProgramValue, *, name: str | None = None
    ) -> ProgramValue:
        """Add the step a[i] * b[i]."""
        return self._pointwise("multiply", [a, b], name)

    @checked
    def multiply_add(
        self, a: ProgramValue, b: ProgramValue, c: ProgramValue, *, name: str | None = None
    ) -> ProgramValue:
        """Add the step a[i] * b[i] + c[i]."""
        return self._pointwise("multiply_add", [a, b, c], name)

    @checked
    def multiply_subtract(
        self, a: ProgramValue, b: ProgramValue, c: ProgramValue, *, name: str | None = None
    ) -> ProgramValue:
        """Add the step a[i] * b[i] - c[i]."""
        return self._pointwise("multiply_subtract", [a, b, c], name)

    @checked
    def invert(self, a: ProgramValue, *, name: str | None = None) -> ProgramValue:
        """Add the step 1 / a[i], which is 0 for 0."""
        return self._pointwise("invert", [a], name)

    @checked
    def linear_combination(
        self,
        vectors: Sequence[ProgramValue],
        factors: Sequence[int | bytes],
        *,
        name: str | None = None,
    ) -> ProgramValue:
        """Add the sum of factors[k] * vectors[k], element by element."""
        _check_any(vectors)
        step = program_pb2.LinearCombinationStep(
            inputs=[self._index(vector) for vector in vectors],
            factors=b"".join(
                _element("factors", factor, index) for index, factor in enumerate(factors)
            ),
        )
        return self._add(vectors[0].rows, vectors[0].length, name, linear_combination=step)

    @checked
    def slice(
        self, vector: ProgramValue, offset: Length, length: Length, *, name: str | None = None
    ) -> ProgramValue:
        """Add elements offset to offset + length - 1 of each row."""
        step = program_pb2.SliceStep(input=self._index(vector), offset=offset, length=length)
        return self._add(vector.rows, length, name, slice=step)

    @checked
    def concat(self, vectors: Sequence[ProgramValue], *, name: str | None = None) -> ProgramValue:
        """Join vectors with the same number of rows, row by row."""
        _check_any(vectors)
        step = program_pb2.ConcatStep(inputs=[self._index(vector) for vector in vectors])
        length = sum(vector.length for vector in vectors)
        return self._add(vectors[0].rows, length, name, concat=step)

    @checked
    def pad(self, vector: ProgramValue, length: Length, *, name: str | None = None) -> ProgramValue:
        """Append zeros to each row, up to `length`."""
        step = program_pb2.PadStep(input=self._index(vector), length=length)
        return self._add(vector.rows, length, name, pad=step)

    @checked
    def evaluate(
        self, vector: ProgramValue, point: int | bytes, *, name: str | None = None
    ) -> ProgramValue:
        """Evaluate each row, as the coefficients of a polynomial: one element for each row."""
        step = program_pb2.EvaluateStep(input=self._index(vector), point=_element("point", point))
        return self._add(vector.rows, 1, name, evaluate=step)

    @checked
    def prefix_product(self, vector: ProgramValue, *, name: str | None = None) -> ProgramValue:
        """Multiply the elements of each row up to each: the product of elements 0 to i."""
        step = program_pb2.PrefixProductStep(input=self._index(vector))
        return self._add(vector.rows, vector.length, name, prefix_product=step)

    @checked
    def divide_by_linear(
        self, vector: ProgramValue, point: int | bytes, *, name: str | None = None
    ) -> ProgramValue:
        """Divide each row, as the coefficients of f: (f - f(point)) / (X - point)."""
        step = program_pb2.DivideByLinearStep(
            input=self._index(vector), point=_element("point", point)
        )
        return self._add(vector.rows, vector.length, name, divide_by_linear=step)

    @checked
    def divide_by_vanishing(
        self, vector: ProgramValue, lg_n: LogSize, coset: int | bytes, *, name: str | None = None
    ) -> ProgramValue:
        """Divide each row, as values on a coset of the domain of n = 2^lg_n, by X^n - 1."""
        step = program_pb2.DivideByVanishingStep(
            input=self._index(vector), lg_n=lg_n, coset_generator=_element("coset", coset)
        )
        return self._add(vector.rows, vector.length, name, divide_by_vanishing=step)

    @checked
    def msm(self, vector: ProgramValue, bases: Bases, *, name: str | None = None) -> ProgramValue:
        """Sum row[i] * bases[i]: one point for each row. Further bases are not used."""
        step = program_pb2.MsmStep(
            input=self._index(vector),
            group=encodings.GROUPS[bases.group],
            object_id=bases.id,
            offset=bases.offset,
        )
        return self._add(vector.rows, 0, name, group=bases.group, msm=step)

    @checked
    def sparse_product(
        self, matrix: Matrix, vector: ProgramValue, *, name: str | None = None
    ) -> ProgramValue:
        """Multiply a matrix of the server by each row."""
        step = program_pb2.SparseProductStep(
            input=self._index(vector), object_id=matrix.id, rows=matrix.rows, terms=matrix.terms
        )
        return self._add(vector.rows, matrix.rows, name, sparse_product=step)

    def _index(self, value: ProgramValue) -> int:
        """Return the index of a step. Raises InvalidInput for a value of another program."""
        if value.index >= len(self._values) or self._values[value.index] is not value:
            raise errors.invalid("program", "a value is of another program")
        return value.index

    def _pointwise(
        self, operation: str, vectors: Sequence[ProgramValue], name: str | None
    ) -> ProgramValue:
        step = program_pb2.PointwiseStep(
            operation=_POINTWISE[operation], inputs=[self._index(vector) for vector in vectors]
        )
        return self._add(vectors[0].rows, vectors[0].length, name, pointwise=step)

    def _add(
        self, rows: int, length: int, name: str | None, *, group: str | None = None, **step: object
    ) -> ProgramValue:
        if name is not None and any(value.name == name for value in self._values):
            raise errors.invalid("name", f"two values have the name {name!r}")
        value = ProgramValue(len(self._values), rows, length, group, name)
        self.message.steps.append(program_pb2.Step(**step))
        self._values.append(value)
        return value


def _check_any(vectors: Sequence[ProgramValue]) -> None:
    if not vectors:
        raise errors.invalid("vectors", "expected at least one")


def _element(name: str, value: int | bytes, index: int | None = None) -> bytes:
    return encodings.encode_element(name, value, index=index)
