"""Downloads of vectors and results."""

import numpy as np

from capstan import _calls, errors
from capstan._calls import Call, CallBudget
from capstan._frames import PayloadChunk
from capstan._upload import TransferProgress
from capstan.v1 import store_pb2


class ReceivedRows:
    """Copies the chunks of a result, which come in order, to an array of bytes."""

    def __init__(self, out: np.ndarray, progress: TransferProgress):
        self._out = out
        self._progress = progress
        self.filled = 0

    def add(self, chunk: PayloadChunk) -> None:
        """Copy the next chunk."""
        data = np.frombuffer(chunk.data, dtype="u1")
        end = self.filled + data.size
        if chunk.offset != self.filled or end > self._out.size:
            raise errors.invalid_response("a chunk has the wrong offset or length")
        self._out[self.filled : end] = data
        self.filled = end
        self._progress.add(data.size)

    def check_complete(self) -> None:
        """Raise InvalidResponse if bytes are missing."""
        if self.filled != self._out.size:
            raise errors.invalid_response("the result has the wrong length")


def download(
    request: store_pb2.GetRequest,
    width: int,
    out: np.ndarray,
    progress: TransferProgress,
    budget: CallBudget,
) -> Call[None]:
    """Fill `out` with elements of `width` bytes, over several streams if some break."""
    done = 0
    while done < out.size:
        part = store_pb2.GetRequest()
        part.CopyFrom(request)
        part.offset += done // width
        part.length = (out.size - done) // width
        rows = ReceivedRows(out[done:], progress)
        rpc = _calls.Rpc(_calls.GET, part, budget.remaining(), rows.add)
        try:
            yield rpc
            rows.check_complete()
            return
        except errors.CapstanError as error:
            yield from budget.wait_before_retry(error)
        done += rows.filled // width * width
        progress.done -= rows.filled % width
