"""A cache of folders that take long to make, kept from one release to the next."""

import tempfile
from collections.abc import Callable
from pathlib import Path


def once(place: Path, make: Callable[[Path], object]) -> Path:
    """Have `make` write a folder if it does not exist, and return its path.

    The folder is complete, even if two processes make it at the same time.
    """
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            unfinished = Path(scratch) / place.name
            make(unfinished)
            _move(unfinished, place)
    return place


def _move(unfinished: Path, place: Path) -> None:
    try:
        unfinished.rename(place)
    except OSError:
        # Another process may have moved its folder there first.
        if not place.exists():
            raise
