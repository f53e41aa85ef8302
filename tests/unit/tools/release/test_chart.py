"""The chart is packed as helm packs it, in the same bytes each time."""

import asyncio
from pathlib import Path

import pytest
import yaml

from tests.worlds.asked_for import RELEASE
from tools.clusters.helm import build
from tools.release import chart, tar_files
from tools.release.commands import run
from tools.release.commit import Commit

ROOT = Path(__file__).parents[4]
COMMIT = Commit("0" * 40, ROOT, "0.1.0", 86400)

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def helm() -> Path:
    with RELEASE.or_skipped():
        [program] = asyncio.run(build.find())
    return program


def test_the_package_is_the_same_each_time_and_has_every_template(helm: Path, tmp_path: Path) -> None:
    packages = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        packages.append(chart.make(COMMIT, helm, tmp_path / name))
    assert packages[0].read_bytes() == packages[1].read_bytes()

    source = ROOT / "deploy" / "chart"
    templates = {
        f"numalign/{path.relative_to(source)}" for path in source.rglob("templates/**/*") if path.is_file()
    }
    assert templates <= {member.name for member in tar_files.read(packages[0])}
    about = yaml.safe_load(run(helm, "show", "chart", packages[0]))
    assert packages[0].name == f"numalign-{about['version']}.tgz"
