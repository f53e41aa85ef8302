"""The contents of /opt/numalign: a virtual environment for the Python of the base, made without running it.

Dependencies are wheels that are pinned by hash and unpacked unchanged. The programs are the entry points of
the wheel of numalign.
"""

import configparser
import hashlib
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.release.image.commands import run
from tools.release.image.downloads import cache
from tools.release.image.errors import BuildError
from tools.release.kept import once

VERSION = (3, 11)
"""The version of the base's Python; the build needs the same, as pip evaluates markers for its own Python."""

HOME = Path("opt/numalign")
PACKAGES = HOME / "lib" / "python3.11" / "site-packages"
_INTERPRETER = "usr/bin/python3.11"
_SETTINGS = "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n"
_PROGRAM = """\
#!/{home}/bin/python
import sys

from {module} import {function}

sys.exit({function}())
"""

_OLDEST_GLIBC, _BASES_GLIBC = 17, 36
"""The range of minor versions of glibc for wheels: the oldest that wheels require, and that of the base."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor architecture, and its names in wheels, in Debian's folders and in the dynamic loader."""

    wheels: str
    folder: str
    loader: str

    @property
    def tags(self) -> list[str]:
        """The platform tags of wheels that run on it with the glibc of the base, the newest first."""
        minors = range(_BASES_GLIBC, _OLDEST_GLIBC - 1, -1)
        return [f"manylinux_2_{minor}_{self.wheels}" for minor in minors] + [f"manylinux2014_{self.wheels}"]


MACHINES: Mapping[str, Machine] = {
    "linux/amd64": Machine("x86_64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "linux/arm64": Machine("aarch64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}


def own_platform() -> str:
    """Return the platform of this machine, whose base can run here. Raise `BuildError` if there is none."""
    for name, machine in MACHINES.items():
        if (sys.platform, platform.machine()) == ("linux", machine.wheels):
            return name
    raise BuildError(
        f"building images requires {' or '.join(MACHINES)}: this is {sys.platform} {platform.machine()}"
    )


def install_requirements(requirements: Path, machine: Machine, folder: Path) -> None:
    """Unpack the wheels of a requirements file below a root. Raise `BuildError` if a download fails."""
    for wheel in _downloaded(requirements, machine):
        unpack(wheel, folder / PACKAGES)


def _downloaded(requirements: Path, machine: Machine) -> list[Path]:
    if sys.version_info[:2] != VERSION:
        raise BuildError(f"building images requires Python 3.11: this is {platform.python_version()}")
    made_of = hashlib.sha256(f"{machine.tags}".encode() + requirements.read_bytes()).hexdigest()[:12]
    folder = cache() / "wheels" / f"{requirements.stem}-{machine.wheels}-{made_of}"
    return sorted(once(folder, lambda made: _download(requirements, machine, made)).glob("*.whl"))


def _download(requirements: Path, machine: Machine, folder: Path) -> None:
    platforms = [word for tag in machine.tags for word in ("--platform", tag)]
    command = (
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", "3.11", *platforms),
        *("--dest", str(folder), "--requirement", str(requirements)),
    )
    run(command, otherwise=f"pip cannot download {requirements} for {machine.wheels}")


def unpack(wheel: Path, packages: Path) -> None:
    """Unpack a wheel into a folder of packages. Raise `BuildError` if it has files for other folders."""
    with zipfile.ZipFile(wheel) as content:
        elsewhere = [name for name in content.namelist() if name.partition("/")[0].endswith(".data")]
        if elsewhere:
            raise BuildError(f"{wheel.name} contains files outside of site-packages: {elsewhere[0]}")
        content.extractall(packages)


def make_environment(wheel: Path, folder: Path) -> None:
    """Install the wheel of numalign and its programs below a root, and make /opt/numalign an environment."""
    unpack(wheel, folder / PACKAGES)
    programs = folder / HOME / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(f"/{_INTERPRETER}")
    (folder / HOME / "pyvenv.cfg").write_text(_SETTINGS)
    for name, target in entry_points(wheel).items():
        module, _, function = target.partition(":")
        program = programs / name
        program.write_text(_PROGRAM.format(home=HOME, module=module, function=function))
        program.chmod(0o755)


def entry_points(wheel: Path) -> dict[str, str]:
    """Return the module and function of each program of a wheel by its name, like webhook.__main__:main."""
    listed = configparser.ConfigParser(delimiters=("=",))
    with zipfile.ZipFile(wheel) as content:
        [file] = [name for name in content.namelist() if name.endswith(".dist-info/entry_points.txt")]
        listed.read_string(content.read(file).decode())
    return dict(listed["console_scripts"])


def compile_all(base: Path, root: Path, folders: Sequence[Path]) -> None:
    """
    Compile the modules in folders below a root with the Python of a base for this machine.

    The dynamic loader of the base starts it, so neither root nor a chroot is needed. Compiled files contain
    the hash of their source instead of its time (PEP 552): the same sources give the same bytes everywhere.
    """
    machine = MACHINES[own_platform()]
    libraries = [base / "lib" / machine.folder, base / "usr" / "lib" / machine.folder]
    command = (
        *(str(libraries[0] / machine.loader), "--library-path", ":".join(map(str, libraries))),
        *(str(base / _INTERPRETER), "-I", "-B", "-m", "compileall", "-q", "-f"),
        *("--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"),
        *(str(root / folder) for folder in folders),
    )
    run(command, otherwise=f"the base's Python cannot compile {root}", PYTHONHASHSEED="0")
