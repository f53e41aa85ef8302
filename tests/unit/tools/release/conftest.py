"""Makes what is released once for all tests."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.tools.release.installed import Installed
from tests.unit.tools.release.keys import keyring, new_key
from tools.release import distributions
from tools.release.commit import Commit

ROOT = Path(__file__).parents[4]


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How a new key is named, in a keyring that is the one of this process during the test."""
    with keyring(tmp_path / "keys") as home:
        monkeypatch.setenv("GNUPGHOME", str(home))
        yield new_key(home)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Path]:
    """A keyring with nothing in it."""
    with keyring(tmp_path / "stranger") as home:
        yield home


@pytest.fixture(scope="session")
def tree() -> Commit:
    """The working tree, as if it were committed."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return Commit("0" * 40, ROOT, version, epoch=1_700_000_000)


@pytest.fixture(scope="session")
def made(tree: Commit, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel, the source distribution and the lock of the working tree."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "wheel").mkdir()
    return distributions.make(tree, distributions.make_wheel(tree, folder / "wheel"), folder)


@pytest.fixture(scope="session")
def wheel(made: list[Path]) -> Path:
    """The wheel of the working tree."""
    return made[0]


@pytest.fixture(scope="session")
def installed(made: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel and what it needs, installed by the one command that users run."""
    wheel, _, lock = made
    environment = Installed(tmp_path_factory.mktemp("installed"))
    environment.create()
    # Tests import a fraction of what pip would compile.
    environment.pip("install", "--no-compile", "--require-hashes", "--requirement", lock, folder=wheel.parent)
    return environment
