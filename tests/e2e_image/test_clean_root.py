"""A new user with nothing but Python and make runs the commands of README, and installs the wheel."""

import subprocess
from pathlib import Path

import pytest

from release.image.recipes import ROOT
from tests.e2e_image import roots
from tests.e2e_image.conftest import Images
from tests.e2e_image.test_images import VERSION

README = ROOT / "README.md"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> roots.Root:
    """A clean Debian, with a copy of what is committed as a download has it: no history, no environment."""
    folder = tmp_path_factory.mktemp("clean")
    made = roots.made(folder / "root")
    tar = folder / "numalign.tar"
    command = ("git", "archive", "--prefix=numalign/", f"--output={tar}", "HEAD")
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603  words of ours
    made.unpack(tar)
    return made


def first_commands() -> list[str]:
    """The commands that README begins with, their comments left off."""
    block = README.read_text().partition("```sh\n")[2].partition("```")[0]
    return [line.partition("#")[0].strip() for line in block.splitlines()]


def test_readme_begins_with_two_commands() -> None:
    assert first_commands() == ["make demo", "make test"]


def test_the_first_command_of_readme_shows_what_numalign_does(root: roots.Root) -> None:
    [first, _] = first_commands()
    assert "denied" in root.run(f"cd numalign && {first}", seconds=600)


def test_the_wheel_is_installed_into_an_environment_of_its_own(root: roots.Root, images: Images) -> None:
    root.give(images.wheel)
    root.run(f"python3 -m venv bare && bare/bin/pip install --quiet ./{images.wheel.name}", seconds=600)

    assert root.run("bare/bin/kubectl-numa --version", seconds=60).split()[-1] == VERSION
    root.give(ROOT / "examples" / "data" / "cluster.yaml")
    listed = root.run("bare/bin/kubectl-numa nodes --snapshot cluster.yaml", seconds=60)
    assert "zone 0" in listed
    assert packages(root.home / "bare") >= {"numalign"}


def packages(environment: Path) -> set[str]:
    """The names that an environment has in site-packages."""
    [folder] = environment.glob("lib/python3*/site-packages")
    return {path.name for path in folder.iterdir()}
