"""`python -m release`: makes the artefacts of a release from a commit, and prints their digests."""

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from tools.clusters.gotools import BrokenError
from tools.release import commit, distributions, report
from tools.release.artefacts import Artefact, UnavailableError, artefact, checksums
from tools.release.commands import FailedError
from tools.release.image.errors import BuildError
from tools.release.parts import PARTS, Order
from tools.release.plugin.wheels import UnreadableLockError

ROOT = Path(__file__).resolve().parents[2]
INCOMPLETE = 69
"""EX_UNAVAILABLE of sysexits.h: a part cannot be made on this machine."""
SUMS = "SHA256SUMS"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("dist"),
    help="Output folder. A release that it contains is replaced.",
)
@click.option(
    "--only",
    type=click.Choice(list(PARTS)),
    multiple=True,
    help="Make only this part. Can be repeated.",
)
@click.option(
    "--url",
    envvar="RELEASE_URL",
    help="Base URL of the published files, for the krew manifest.",
)
@click.option("--complete", is_flag=True, help=f"Exit with {INCOMPLETE} if a part is skipped.")
def program(out: Path, only: tuple[str, ...], url: str | None, complete: bool) -> None:  # noqa: FBT001
    """Make a release from the checked-out commit: wheel, plugin, manifests, chart, images and SBOMs.

    Uncommitted changes are ignored. The same commit gives the same bytes. The release workflow signs them.
    """
    check_replaceable(out)
    try:
        for line in commit.uncommitted(ROOT):
            click.echo(f"not released, because it is not committed: {line}", err=True)
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "release"
            made.mkdir()
            skipped = make(only or tuple(PARTS), made, Path(folder), url=url)
            # Only a complete release replaces the previous one.
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(made, out)
    except (FailedError, UnreadableLockError, BrokenError, BuildError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(report.table(released_files(out)))
    for reason in skipped:
        click.echo(f"SKIPPED: {reason}", err=True)
    sys.exit(INCOMPLETE if skipped and complete else 0)


def make(parts: Iterable[str], out: Path, scratch: Path, *, url: str | None) -> list[str]:
    """Write the parts and their checksums into `out`. Return why parts were skipped."""
    released = commit.exported(ROOT, scratch / "tree")
    (scratch / "wheel").mkdir()
    wheel = distributions.make_wheel(released, scratch / "wheel")
    order = Order(released, wheel, out, url)
    skipped = []
    for part in parts:
        click.echo(f"making: {part}", err=True)
        try:
            PARTS[part](order)
        except UnavailableError as error:
            skipped.append(f"{part}: {error}")
    (out / SUMS).write_text(checksums(released_files(out)))
    return skipped


def released_files(out: Path) -> list[Artefact]:
    """Return the files of a release, ordered by name."""
    return [artefact(path) for path in sorted(out.iterdir())]


def check_replaceable(folder: Path) -> None:
    """Raise `ClickException` if a folder contains anything but a release."""
    if folder.exists() and any(folder.iterdir()) and not (folder / SUMS).exists():
        raise click.ClickException(f"{folder} is not empty and contains no release: choose another folder")


if __name__ == "__main__":
    program()
