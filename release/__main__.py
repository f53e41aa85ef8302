"""`python -m release`: makes all that is released of a commit, and prints what that is."""

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from harness.gotools import BrokenError
from release import commit, distributions, report
from release.artefacts import Artefact, UnavailableError, artefact, checksums
from release.commands import FailedError
from release.image.errors import BuildError
from release.parts import PARTS, Order
from release.plugin.wheels import UnreadableLockError
from release.signatures import Signer

ROOT = Path(__file__).resolve().parents[1]
INCOMPLETE = 69
"""EX_UNAVAILABLE of sysexits.h: something that was asked for cannot be made on this machine."""
SUMS = "SHA256SUMS"
KEY_FILE = "release-key.asc"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("dist"),
    help="Folder to write to; a release in it is replaced.",
)
@click.option(
    "--only",
    type=click.Choice(list(PARTS)),
    multiple=True,
    help="Make only this part; may be given several times.",
)
@click.option(
    "--url",
    envvar="RELEASE_URL",
    help="Address below which the files will be published; the krew manifest names it.",
)
@click.option("--key", envvar="RELEASE_KEY", help="GnuPG key to sign with, as gpg --local-user takes it.")
@click.option("--complete", is_flag=True, help=f"Exit with {INCOMPLETE} if anything is skipped.")
def program(out: Path, only: tuple[str, ...], url: str | None, key: str | None, complete: bool) -> None:  # noqa: FBT001
    """Make a release of the commit that is checked out: wheel, plugin, manifests, chart, images and SBOMs.

    Uncommitted changes are not part of it. The same commit gives the same bytes, except for signatures.
    """
    check_replaceable(out)
    try:
        for line in commit.uncommitted(ROOT):
            click.echo(f"not released, because it is not committed: {line}", err=True)
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "release"
            made.mkdir()
            signer = Signer(key) if key else None
            skipped = make(only or tuple(PARTS), made, Path(folder), url=url, signer=signer)
            # A release that failed half-way leaves the one before as it was.
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(made, out)
    except (FailedError, UnreadableLockError, BrokenError, BuildError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(report.table(released_files(out)))
    for reason in skipped:
        click.echo(f"SKIPPED: {reason}", err=True)
    sys.exit(INCOMPLETE if skipped and complete else 0)


def make(
    parts: Iterable[str], out: Path, scratch: Path, *, url: str | None, signer: Signer | None
) -> list[str]:
    """Write the parts, their checksums and signatures into `out`; why others are not there."""
    released = commit.exported(ROOT, scratch / "tree")
    (scratch / "wheel").mkdir()
    wheel = distributions.make_wheel(released, scratch / "wheel")
    order = Order(released, wheel, out, url, signer)
    skipped = []
    for part in parts:
        click.echo(f"making: {part}", err=True)
        try:
            PARTS[part](order)
        except UnavailableError as error:
            skipped.append(f"{part}: {error}")
    sums = out / SUMS
    sums.write_text(checksums(released_files(out)))
    if signer is None:
        skipped.append("signatures: set RELEASE_KEY to a key of GnuPG")
    else:
        signer.detached(sums)
        signer.public_key(out / KEY_FILE)
    return skipped


def released_files(out: Path) -> list[Artefact]:
    """The files of a release, by name."""
    return [artefact(path) for path in sorted(out.iterdir())]


def check_replaceable(folder: Path) -> None:
    """Raise `ClickException` where a folder holds anything but a release."""
    if folder.exists() and any(folder.iterdir()) and not (folder / SUMS).exists():
        raise click.ClickException(f"{folder} is not empty, and has no release in it: name another folder")


if __name__ == "__main__":
    program()
