"""`python -m tools.release.twice`: makes a release in two environments, and reports the files that differ.

Each is a clone of the commit, with another path, umask, time zone and language.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tools.release.artefacts import artefact
from tools.release.commands import FailedError, run
from tools.release.parts import PARTS

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Place:
    """An environment of a build; no file of the release may depend on it."""

    folder: str
    umask: int
    environ: tuple[tuple[str, str], ...]


PLACES = (
    Place("one", 0o022, (("TZ", "UTC"), ("LC_ALL", "C.UTF-8"))),
    Place("another/of/a longer name", 0o077, (("TZ", "Asia/Kathmandu"), ("LC_ALL", "C"))),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", type=click.Choice(list(PARTS)), multiple=True, help="Compare only this part. Can be repeated."
)
@click.option("--url", default="https://example.com/release", help="Base URL in the krew manifest.")
def program(only: tuple[str, ...], url: str) -> None:
    """Make a release of the commit twice, and compare the files byte by byte."""
    arguments = [f"--url={url}", *(f"--only={part}" for part in only)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            first, second = (made(place, Path(folder), arguments) for place in PLACES)
        except FailedError as error:
            raise click.ClickException(str(error)) from error
        names = differing(first, second)
        count = len(list(first.iterdir()))
    if names:
        raise click.ClickException(f"the two releases differ in: {', '.join(names)}")
    click.echo(f"{count} files are identical")


def made(place: Place, folder: Path, arguments: Sequence[str]) -> Path:
    """Make a release in a new clone, and return its folder. Raise `FailedError` if a command fails."""
    clone = folder / place.folder
    clone.parent.mkdir(parents=True, exist_ok=True)
    # Git creates files with the umask of its process.
    run("git", "clone", "--quiet", "--no-hardlinks", ROOT, clone, umask=place.umask)
    run(
        *(sys.executable, "-m", "release", f"--out={clone / 'dist'}", *arguments),
        folder=clone,
        environ=dict(place.environ),
        umask=place.umask,
    )
    return clone / "dist"


def differing(first: Path, second: Path) -> list[str]:
    """Return the names of files that are in only one of the folders, or differ."""
    one, other = ({path.name: artefact(path).sha256 for path in each.iterdir()} for each in (first, second))
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


if __name__ == "__main__":
    program()
