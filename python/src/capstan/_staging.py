"""Memory shared with a server on the same host, through which large payloads travel.

The client copies a payload once, and devices read and write it there. In messages, it would be
copied several times.
"""

import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capstan import _region
from capstan._calls import Call, CallBudget
from capstan._region import ClientRegion
from capstan._space import FreePlace, RegionSpace, whole_pages

# Smaller payloads travel in messages.
STAGED_BYTES_MIN = 128 << 10
# A client takes at most this part of the server's memory for regions.
_SHARE = 4
# A region holds at least this much, so that it serves several calls at a time.
_REGION_BYTES_MIN = 32 << 20
# Opening a region takes longer than a call gains, so the first payload does not open one.
_PAYLOADS_BEFORE_OPENING = 2
_WIPED_AFTER_S = 0.1
_CLOSED_AFTER_S = 10.0
# Pause after the server has refused a region.
_REFUSAL_PAUSE_S = 10.0


class StagingRegion:
    """A region and its free places."""

    def __init__(self, region: ClientRegion):
        self.region = region
        self.space = RegionSpace(len(region.memory))
        self.last_use = time.monotonic()


@dataclass
class OldPlaces:
    """Places of a region that are to be wiped."""

    staged: StagingRegion
    memory: np.ndarray
    places: list[FreePlace]


class RegionLayout:
    """Gives places of a region to vectors of at least `bytes_min` bytes, one after another."""

    def __init__(self, sizes: list[int], bytes_min: float):
        self.size = 0
        self.sizes = sizes
        # Where each vector begins; None for those that travel in messages.
        self.starts: list[int | None] = []
        for size in sizes:
            start = whole_pages(self.size) if size >= bytes_min else None
            self.starts.append(start)
            if start is not None:
                self.size = start + size


class StagingPool:
    """The regions of a client. Threads may share it."""

    def __init__(self, target: str, region_bytes: int):
        self._target = target
        self._bytes_max = region_bytes // _SHARE
        self._lock = threading.Lock()
        self._regions: list[StagingRegion] = []
        self._misses = 0
        self._is_opening = False
        self._refused: float | None = None
        self._is_maintained = False

    def memory(
        self, sizes: list[int], bytes_min: float, budget: CallBudget
    ) -> Call["StagedMemory | None"]:
        """Return memory for those vectors that have at least `bytes_min` bytes.

        None if all vectors are to travel in messages.
        """
        layout = RegionLayout(sizes, bytes_min)
        if not STAGED_BYTES_MIN <= layout.size <= self._bytes_max:
            return None
        memory = self._take(layout)
        region_bytes = self._begin_opening(layout.size) if memory is None else None
        if region_bytes is None:
            return memory
        try:
            region = yield from _region.open_region(self._target, region_bytes, budget)
        except BaseException:
            # The call was cancelled or out of time: the next one tries again.
            self._is_opening = False
            raise
        self._end_opening(region)
        return self._take(layout)

    def close(self) -> None:
        """Wipe and return all regions. No call may be in progress."""
        with self._lock:
            regions, self._regions = self._regions, []
        for staged in regions:
            staged.region.memory[:] = 0
            staged.region.close()

    def forget_parent(self) -> None:
        """Unmap the regions in a child process. They are the parent's: not wiped, not returned.

        A thread of the parent may have held the lock, so the child gets another one.
        """
        self._lock = threading.Lock()
        for staged in self._regions:
            # Closes the child's copy of the connection only.
            staged.region.close()
        self._regions = []

    def _take(self, layout: RegionLayout) -> "StagedMemory | None":
        with self._lock:
            for staged in self._regions:
                if staged.space.lost == 0:
                    start = staged.space.take(layout.size)
                    if start is not None:
                        return StagedMemory(self, staged, start, layout)
        return None

    def _begin_opening(self, size: int) -> int | None:
        """Return the size of a region to open for payloads like this one; None for no region."""
        with self._lock:
            self._misses += 1
            now = time.monotonic()
            is_paused = self._refused is not None and now - self._refused < _REFUSAL_PAUSE_S
            if self._misses < _PAYLOADS_BEFORE_OPENING or self._is_opening or is_paused:
                return None
            opened = sum(staged.space.size for staged in self._regions)
            region_bytes = max(1 << (size - 1).bit_length(), _REGION_BYTES_MIN)
            region_bytes = min(region_bytes, self._bytes_max - opened)
            self._is_opening = region_bytes >= size
            return region_bytes if self._is_opening else None

    def _end_opening(self, region: ClientRegion | None) -> None:
        with self._lock:
            self._is_opening = False
            if region is None:
                self._refused = time.monotonic()
                return
            self._regions.append(StagingRegion(region))
            if not self._is_maintained:
                self._is_maintained = True
                maintenance = threading.Thread(
                    target=_maintain, args=(weakref.ref(self),), name="capstan-staging", daemon=True
                )
                maintenance.start()

    def give_back(self, staged: StagingRegion, start: int, size: int) -> None:
        """Make a place free for other payloads."""
        with self._lock:
            staged.last_use = time.monotonic()
            staged.space.give_back(start, size, staged.last_use)

    def lose(self, staged: StagingRegion, size: int) -> None:
        """Give up a place: its region is closed when its other payloads have left it."""
        with self._lock:
            staged.space.lose(size)

    def maintain(self) -> bool:
        """Wipe places that payloads left, and close unused regions; False without regions."""
        now = time.monotonic()
        with self._lock:
            closed = [staged for staged in self._regions if _is_done(staged, now)]
            self._regions = [staged for staged in self._regions if staged not in closed]
            old = [
                OldPlaces(staged, staged.region.memory, places)
                for staged in self._regions
                if (places := staged.space.take_old(now - _WIPED_AFTER_S))
            ]
            self._is_maintained = bool(self._regions)
            is_maintained = self._is_maintained
        for staged in closed:
            if staged.space.lost == 0:
                staged.region.memory[:] = 0
            staged.region.close()
        for wiped in old:
            for place in wiped.places:
                wiped.memory[place.start : place.end] = 0
            with self._lock:
                for place in wiped.places:
                    wiped.staged.space.give_back(place.start, place.end - place.start, None)
        return is_maintained


def _is_done(staged: StagingRegion, now: float) -> bool:
    is_idle = now - staged.last_use >= _CLOSED_AFTER_S
    return staged.space.is_unused() and (is_idle or staged.space.lost > 0)


def _maintain(reference: "weakref.ref[StagingPool]") -> None:
    while True:
        time.sleep(_WIPED_AFTER_S)
        pool = reference()
        if pool is None or not pool.maintain():
            return
        del pool


@dataclass(frozen=True)
class StagedVector:
    """A vector in shared memory."""

    # The fields of RegionPlace.
    place: dict[str, Any]
    data: np.ndarray = field(repr=False)


class StagedMemory:
    """Shared memory for the vectors of one call."""

    def __init__(self, pool: StagingPool, staged: StagingRegion, start: int, layout: RegionLayout):
        self._pool = pool
        self._staged = staged
        self._start = start
        self._size = layout.size
        self._is_taken = True
        # None for vectors that travel in messages.
        self.vectors = [
            None if offset is None else self._vector(start + offset, size)
            for offset, size in zip(layout.starts, layout.sizes, strict=True)
        ]

    def _vector(self, start: int, size: int) -> StagedVector:
        region = self._staged.region
        place = {"region_id": region.id, "offset": start}
        return StagedVector(place, region.memory[start : start + size])

    def release(self) -> None:
        """Return the memory: the server's last response shows that it no longer uses it."""
        if self._is_taken:
            self._is_taken = False
            self._pool.give_back(self._staged, self._start, self._size)

    def lose(self) -> None:
        """Give up the memory unless it was released: the server may still use it."""
        if self._is_taken:
            self._is_taken = False
            self._pool.lose(self._staged, self._size)
