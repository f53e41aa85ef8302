"""The machines that the plugin supports: operating systems, processors, and versions of Python."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

from packaging.tags import compatible_tags, cpython_tags, mac_platforms

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
"""The supported versions; each needs its own native libraries, and an archive contains those of all."""

OLDEST_MACOS = (13, 0)
OLDEST_GLIBC = range(28, 16, -1)
"""The minor versions of glibc 2 that wheels may require: at most those of Debian 10 and RHEL 8."""


class CompletePlatform(TypedDict):
    """A complete platform of pex: the properties by which pex chooses wheels for another machine."""

    marker_environment: dict[str, str]
    compatible_tags: list[str]


@dataclass(frozen=True)
class Platform:
    """An operating system and a processor, by their names in Go and krew and by those in Python."""

    os: str
    arch: str
    system: str
    """The value of `platform.system()`; `sys.platform` is the same in lower case."""
    machine: str

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The platform tags of wheels that run there, the best one first."""
        if self.os == "darwin":
            return tuple(mac_platforms(OLDEST_MACOS, self.machine))
        glibc = [f"manylinux_2_{minor}_{self.machine}" for minor in OLDEST_GLIBC]
        return (*glibc, f"manylinux2014_{self.machine}", f"linux_{self.machine}")

    @property
    def name(self) -> str:
        """The name in the names of archives."""
        return f"{self.os}_{self.arch}"


# Not macOS on Intel processors: cryptography publishes no wheels for it since version 49.
PLATFORMS = (
    Platform("linux", "amd64", "Linux", "x86_64"),
    Platform("linux", "arm64", "Linux", "aarch64"),
    Platform("darwin", "arm64", "Darwin", "arm64"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A version of CPython on a platform."""

    platform: Platform
    python: tuple[int, int]

    @property
    def abi(self) -> str:
        """The ABI tag of wheels."""
        major, minor = self.python
        return f"cp{major}{minor}"

    @property
    def name(self) -> str:
        """The name in the names of files and folders."""
        return f"{self.platform.name}_{self.abi}"

    def markers(self) -> dict[str, str]:
        """Return the environment to evaluate markers of requirements in."""
        short = ".".join(map(str, self.python))
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{short}.0",
            "os_name": "posix",
            "platform_machine": self.platform.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": self.platform.system,
            "platform_version": "",
            "python_full_version": f"{short}.0",
            "python_version": short,
            "sys_platform": self.platform.system.lower(),
        }

    def complete_platform(self) -> CompletePlatform:
        """Return the description for pex."""
        return {"marker_environment": self.markers(), "compatible_tags": list(self._tags())}

    def _tags(self) -> Iterator[str]:
        for tag in cpython_tags(self.python, [self.abi], self.platform.tags):
            yield str(tag)
        for tag in compatible_tags(self.python, self.abi, self.platform.tags):
            yield str(tag)
