"""The list of files that is printed at the end of a release."""

from collections.abc import Iterable

from tools.release.artefacts import Artefact


def table(artefacts: Iterable[Artefact]) -> str:
    """Return a line for each file: its name, its size, its digest."""
    rows = [(each.name, size(each.size), each.sha256) for each in artefacts]
    width = max((len(name) for name, _, _ in rows), default=0)
    return "\n".join(f"{name:{width}}  {shown:>9}  sha256:{digest}" for name, shown, digest in rows)


def size(count: int) -> str:
    """Return a number of bytes in a readable unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:  # noqa: PLR2004  the factor between units
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
