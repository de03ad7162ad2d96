"""Times MSMs and NTTs through the Python client, to compare with `capstan bench` on one daemon.

    capstan --server unix:/run/capstan/capstan.sock bench --op ntt --sizes 20 --concurrency 1
    python bench.py unix:/run/capstan/capstan.sock --op ntt

The first MSM takes longer, because the server checks its bases.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import capstan

# Of G1, compressed.
GENERATOR = bytes.fromhex(
    "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac58"
    "6c55e83ff97a1aeffb3af00adb22c6bb"
)


def random_elements(count: int) -> np.ndarray:
    """Return elements below 2^254, which are less than r."""
    elements = np.random.default_rng().integers(0, 256, (count, 32), dtype=np.uint8)
    elements[:, 31] &= 0x3F
    return elements


def prepare(
    client: capstan.Client, operation: str, count: int, montgomery: bool
) -> Callable[[], object]:
    """Return the call to measure, with its arrays in memory."""
    values = random_elements(count)
    if operation == "ntt":
        # In place, like the Rust client.
        return lambda: client.ntt(values, out=values, montgomery=montgomery)
    # Enough different points that a bucket hardly ever holds one of them twice.
    different = min(count, 4096)
    few = client.msm([GENERATOR], values[:different], batch=different, encoding="uncompressed")
    points = np.frombuffer(b"".join(few.points), dtype=np.uint8).reshape(different, 96)
    bases = client.put_bases(np.tile(points, (count // different, 1)))
    return lambda: client.msm(bases, values, montgomery=montgomery)


def main() -> None:
    """Print the times of the calls."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", help="http://host:port, https://host:port or unix:/path")
    parser.add_argument("--op", choices=["msm", "ntt"], default="ntt")
    parser.add_argument("--lg-n", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--montgomery",
        action="store_true",
        help="send Montgomery form, like the Rust client; the CPU engine converts other elements",
    )
    parser.add_argument("--no-shared-memory", action="store_true")
    options = parser.parse_args()
    with capstan.Client(options.target, shared_memory=not options.no_shared_memory) as client:
        call = prepare(client, options.op, 1 << options.lg_n, options.montgomery)
        # Shared memory begins with the second large payload.
        for _ in range(3):
            call()
        times_ms = []
        for _ in range(options.repeats):
            started = time.perf_counter()
            call()
            times_ms.append(1000 * (time.perf_counter() - started))
    print(
        f"{options.op} 2^{options.lg_n}: median {statistics.median(times_ms):.1f} ms, "
        f"least {min(times_ms):.1f}, most {max(times_ms):.1f}, {options.repeats} calls"
    )


if __name__ == "__main__":
    main()
