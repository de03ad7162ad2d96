"""The free places of a region."""

from dataclasses import dataclass

# Places begin at multiples of a page, and consist of whole pages.
PAGE_BYTES = 4096


def whole_pages(size: int) -> int:
    """Round up to pages."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


@dataclass
class FreePlace:
    """Bytes from `start` up to `end` that no payload has."""

    start: int
    end: int
    # When the last payload left it; None if it has been wiped since.
    left: float | None = None


class RegionSpace:
    """The places of a region, by bytes."""

    def __init__(self, size: int):
        self.size = size
        # Sorted, without overlaps. Neighbours may touch.
        self.free = [FreePlace(0, size)]
        self.lost = 0

    def take(self, size: int) -> int | None:
        """Return the start of the first `size` free bytes, rounded up to pages."""
        size = whole_pages(size)
        first = 0
        for last, place in enumerate(self.free):
            if last > 0 and self.free[last - 1].end < place.start:
                first = last
            start = self.free[first].start
            if place.end - start >= size:
                place.start = start + size
                is_used_up = place.start == place.end
                del self.free[first : last + is_used_up]
                return start
        return None

    def give_back(self, start: int, size: int, now: float | None) -> None:
        """Return what `take` gave, or what has been wiped since if `now` is None."""
        self.free.append(FreePlace(start, start + whole_pages(size), now))
        self.free.sort(key=lambda place: place.start)

    def lose(self, size: int) -> None:
        """Give up what `take` gave: the server may still use it."""
        self.lost += whole_pages(size)

    def take_old(self, left_before: float) -> list[FreePlace]:
        """Take the places that payloads left before this time, to wipe them."""
        old = [place for place in self.free if place.left is not None and place.left < left_before]
        self.free = [place for place in self.free if place not in old]
        return old

    def is_unused(self) -> bool:
        """Return whether no payload has a place, apart from lost ones."""
        return self.lost + sum(place.end - place.start for place in self.free) == self.size
