"""Client of Capstan: multi-scalar multiplication and number-theoretic transforms over BLS12-381.

`Client` blocks, `capstan.aio.Client` has the same methods for asyncio. Arrays of numpy go in and
come out; points are bytes.
"""

from capstan._admin import ServerInfo
from capstan._groth16 import Groth16Key, Groth16Proof
from capstan._kzg import KzgOpening
from capstan._run import RunResult, StepReport
from capstan._wtns import read_wtns
from capstan.client import Client
from capstan.encodings import FR_MODULUS, integers, scalars, to_montgomery
from capstan.errors import (
    AccessDenied,
    CapstanError,
    Exhausted,
    InvalidInput,
    InvalidResponse,
    NotFound,
    TimedOut,
    Unavailable,
    VerificationFailed,
)
from capstan.program import Program, ProgramValue
from capstan.results import (
    Bases,
    DeviceResidency,
    DeviceStage,
    Execution,
    Matrix,
    MsmResult,
    NttResult,
    Objects,
    Timing,
    Vector,
)

__all__ = [
    "FR_MODULUS",
    "AccessDenied",
    "Bases",
    "CapstanError",
    "Client",
    "DeviceResidency",
    "DeviceStage",
    "Execution",
    "Exhausted",
    "Groth16Key",
    "Groth16Proof",
    "InvalidInput",
    "InvalidResponse",
    "KzgOpening",
    "Matrix",
    "MsmResult",
    "NotFound",
    "NttResult",
    "Objects",
    "Program",
    "ProgramValue",
    "RunResult",
    "ServerInfo",
    "StepReport",
    "TimedOut",
    "Timing",
    "Unavailable",
    "Vector",
    "VerificationFailed",
    "integers",
    "read_wtns",
    "scalars",
    "to_montgomery",
]
