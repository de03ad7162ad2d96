"""Copies large arrays with several threads: one core does not reach the memory's rate."""

import functools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# Fewer bytes per thread take less time than waking it.
_BYTES_PER_THREAD_MIN = 1 << 20
# As many as the Rust client uses.
_THREADS_MAX = 8


def copy(target: np.ndarray, source: np.ndarray) -> None:
    """Copy an array of bytes to one of the same size. numpy releases the interpreter's lock."""
    threads = min(target.size // _BYTES_PER_THREAD_MIN, os.cpu_count() or 1, _THREADS_MAX)
    piece_bytes = -(-target.size // max(threads, 1))

    def copy_piece(start: int) -> None:
        target[start : start + piece_bytes] = source[start : start + piece_bytes]

    others = range(piece_bytes, target.size, piece_bytes) if threads > 1 else ()
    pending = [_pool().submit(copy_piece, start) for start in others]
    copy_piece(0)
    for copied in pending:
        copied.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS_MAX - 1, thread_name_prefix="capstan-copy")


# A forked process has none of the threads.
os.register_at_fork(after_in_child=_pool.cache_clear)
