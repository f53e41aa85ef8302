"""Folders that take long to make, and are kept from one release to the next."""

import tempfile
from collections.abc import Callable
from pathlib import Path


def once(place: Path, make: Callable[[Path], object]) -> Path:
    """A folder that `make` writes if it is not there yet: complete, even if two processes make it at once."""
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
        # Another process was faster.
        if not place.exists():
            raise
