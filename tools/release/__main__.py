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
from tools.release import files, plugin
from tools.release.files import Order, sha256

ROOT = Path(__file__).resolve().parents[2]
SUMS = "SHA256SUMS"
PARTS: dict[str, Callable[[Order], None]] = {
    "python": files.make_distributions,
    "plugin": plugin.make,
    "manifests": files.make_manifests,
    "chart": files.make_chart,
    "sbom": files.make_bills,
}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), help="Its release is replaced.")
@click.option(
    "--only", type=click.Choice(list(PARTS)), multiple=True, help="Make this part alone. Repeatable."
)
@click.option("--url", envvar="RELEASE_URL", default="", help="Of published files, for the krew manifest.")
def program(out: Path, only: tuple[str, ...], url: str) -> None:
    """Make the files of a release from the checked-out commit, and their checksums."""
    if changed := _git("status", "--porcelain"):
        raise click.ClickException(f"commit these files or remove them, then make the release:\n{changed}")
    if out.exists() and any(out.iterdir()) and not (out / SUMS).exists():
        raise click.ClickException(f"{out} is not empty and contains no release: choose another folder")
    os.environ.setdefault("SOURCE_DATE_EPOCH", _git("log", "-1", "--format=%ct").strip())
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
    order = Order(ROOT, version, files.build("wheel", ROOT, folder / "wheel"), into, url)
    for part in parts:
        PARTS[part](order)
    (into / SUMS).write_text("".join(f"{sha256(file)}  {file.name}\n" for file in sorted(into.iterdir())))
    return into


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True)  # noqa: S603, S607


if __name__ == "__main__":
    program()
