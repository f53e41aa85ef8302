"""`python -m tools.release`: makes the files of a release from the checked-out commit."""

import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import click

from tools.clusters.gotools import BrokenError, UnavailableError
from tools.release import deployment, distributions, plugin
from tools.release.order import Order, output, sha256

ROOT = Path(__file__).resolve().parents[2]
SUMS = "SHA256SUMS"
PARTS: dict[str, Callable[[Order], None]] = {
    "python": distributions.make,
    "plugin": plugin.make,
    "manifests": deployment.make_manifests,
    "chart": deployment.make_chart,
    "sbom": distributions.make_bills,
}

_OUT = "Output folder. A release that it contains is replaced."
_ONLY = "Make only this part. Can be repeated."
_URL = "Base URL of the published files, for the krew manifest."


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), help=_OUT)
@click.option("--only", type=click.Choice(list(PARTS)), multiple=True, help=_ONLY)
@click.option("--url", envvar="RELEASE_URL", default="", help=_URL)
def program(out: Path, only: tuple[str, ...], url: str) -> None:
    """Make the files of a release from the checked-out commit, and their checksums."""
    if changed := output("git", "status", "--porcelain", folder=ROOT):
        raise click.ClickException(f"commit these files or remove them, then make the release:\n{changed}")
    if out.exists() and any(out.iterdir()) and not (out / SUMS).exists():
        raise click.ClickException(f"{out} is not empty and contains no release: choose another folder")
    epoch = output("git", "log", "-1", "--format=%ct", folder=ROOT).strip()
    os.environ.setdefault("SOURCE_DATE_EPOCH", epoch)
    try:
        with tempfile.TemporaryDirectory() as folder:
            made = make(only or tuple(PARTS), Path(folder), url)
            # Only a complete release replaces the previous one.
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(made, out)
    except (subprocess.CalledProcessError, FileNotFoundError, BrokenError, UnavailableError) as error:
        raise click.ClickException(str(error)) from error
    click.echo((out / SUMS).read_text(), nl=False)


def make(parts: tuple[str, ...], folder: Path, url: str) -> Path:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    into = folder / "release"
    into.mkdir()
    order = Order(ROOT, version, distributions.build("wheel", ROOT, folder / "wheel"), into, url)
    for part in parts:
        PARTS[part](order)
    (into / SUMS).write_text("".join(f"{sha256(file)}  {file.name}\n" for file in sorted(into.iterdir())))
    return into


if __name__ == "__main__":
    program()
