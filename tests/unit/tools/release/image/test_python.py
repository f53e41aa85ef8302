"""What stands in /opt/numalign comes out of wheels."""

import platform
import sys
from pathlib import Path

import pytest

from tests.unit.tools.release.image.packages import wheel
from tools.release.image import python
from tools.release.image.errors import BuildError

PROGRAMS = "[console_scripts]\ngreet = greeting.main:run\n\n[other]\nx = y\n"


def greeting(folder: Path) -> Path:
    """A wheel with one program."""
    files = {"greeting/main.py": "def run(): ...\n", "greeting-1.2.3.dist-info/entry_points.txt": PROGRAMS}
    return wheel(folder, "greeting", files)


def test_programs_are_the_entry_points_of_the_wheel(tmp_path: Path) -> None:
    python.make_environment(greeting(tmp_path), tmp_path / "root")
    home = tmp_path / "root" / "opt" / "numalign"
    program = home / "bin" / "greet"

    assert program.read_text().startswith("#!/opt/numalign/bin/python\n")
    assert "from greeting.main import run\n\nsys.exit(run())\n" in program.read_text()
    assert program.stat().st_mode & 0o111
    assert (home / "bin" / "python").readlink() == Path("/usr/bin/python3.11")
    assert (home / "lib/python3.11/site-packages/greeting/main.py").is_file()
    assert "home = /usr/bin\n" in (home / "pyvenv.cfg").read_text()


def test_a_wheel_that_wants_files_elsewhere_is_refused(tmp_path: Path) -> None:
    scripts = wheel(tmp_path, "odd", {"odd-1.2.3.data/scripts/odd": "#!python\n"})
    with pytest.raises(
        BuildError, match=r"odd-1\.2\.3.*outside of site-packages: odd-1\.2\.3\.data/scripts/odd"
    ):
        python.unpack(scripts, tmp_path / "packages")


def test_wheels_may_want_the_bases_glibc_and_no_newer_one() -> None:
    tags = python.MACHINES["linux/arm64"].tags
    assert tags[0] == "manylinux_2_36_aarch64"
    assert {"manylinux_2_17_aarch64", "manylinux2014_aarch64"} < set(tags)


def test_a_machine_for_which_there_is_no_image_builds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(BuildError, match=r"requires linux/amd64 or linux/arm64: this is \S+ riscv64"):
        python.own_platform()


def test_another_python_than_the_bases_builds_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    with pytest.raises(BuildError, match=r"requires Python 3\.11"):
        python.install_requirements(tmp_path / "none.txt", python.MACHINES["linux/amd64"], tmp_path)
