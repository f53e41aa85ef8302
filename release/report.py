"""The list of files that is printed at the end."""

from collections.abc import Iterable

from release.artefacts import Artefact


def table(artefacts: Iterable[Artefact]) -> str:
    """A line for each file: its name, its size, its digest."""
    rows = [(each.name, size(each.size), each.sha256) for each in artefacts]
    width = max((len(name) for name, _, _ in rows), default=0)
    return "\n".join(f"{name:{width}}  {shown:>9}  sha256:{digest}" for name, shown, digest in rows)


def size(count: int) -> str:
    """A number of bytes in a readable unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:  # noqa: PLR2004  what a unit holds of the one before
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
