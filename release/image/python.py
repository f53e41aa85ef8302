"""What stands in /opt/numalign: a virtual environment for the base's Python, made without running it.

Dependencies are wheels by hash, unpacked as they are; programs are the wheel's entry points.
"""

import configparser
import hashlib
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from release.image.commands import run
from release.image.downloads import cache
from release.image.errors import BuildError
from release.kept import once

VERSION = (3, 11)
"""Of the Python in the base, and of the one that builds, for which pip evaluates environment markers."""

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
"""The minor versions of glibc that wheels may want: the oldest that wheels name, and the base's."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor, by the names that wheels, Python and Debian's folders have for it."""

    wheels: str
    folder: str
    loader: str

    @property
    def tags(self) -> list[str]:
        """The platforms of wheels that run on it with the base's glibc, the newest first."""
        minors = range(_BASES_GLIBC, _OLDEST_GLIBC - 1, -1)
        return [f"manylinux_2_{minor}_{self.wheels}" for minor in minors] + [f"manylinux2014_{self.wheels}"]


MACHINES: Mapping[str, Machine] = {
    "linux/amd64": Machine("x86_64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "linux/arm64": Machine("aarch64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}


def own_platform() -> str:
    """The platform of this machine, whose base can run on it; raises `BuildError` if there is none."""
    for name, machine in MACHINES.items():
        if (sys.platform, platform.machine()) == ("linux", machine.wheels):
            return name
    raise BuildError(
        f"building images requires {' or '.join(MACHINES)}: this is {sys.platform} {platform.machine()}"
    )


def install_requirements(requirements: Path, machine: Machine, folder: Path) -> None:
    """Unpack the wheels of a requirements file below a root; raises `BuildError` if pip lacks one."""
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
    """Unpack a wheel into a folder of packages; raises `BuildError` for one with files for other folders."""
    with zipfile.ZipFile(wheel) as content:
        elsewhere = [name for name in content.namelist() if name.partition("/")[0].endswith(".data")]
        if elsewhere:
            raise BuildError(f"{wheel.name} contains files outside of site-packages: {elsewhere[0]}")
        content.extractall(packages)


def make_environment(wheel: Path, folder: Path) -> None:
    """The wheel of numalign with its programs, and what makes /opt/numalign an environment."""
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
    """The programs of a wheel: by name, the module and the function, as in webhook.__main__:main."""
    listed = configparser.ConfigParser(delimiters=("=",))
    with zipfile.ZipFile(wheel) as content:
        [file] = [name for name in content.namelist() if name.endswith(".dist-info/entry_points.txt")]
        listed.read_string(content.read(file).decode())
    return dict(listed["console_scripts"])


def compile_all(base: Path, root: Path, folders: Sequence[Path]) -> None:
    """
    Compile the modules in folders below a root by the Python of a base of this machine.

    The base's own loader runs it, so this takes neither root nor a chroot. Compiled files hold the hash of
    their source in place of its time (PEP 552): the same sources give the same bytes on every machine.
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
