"""The machines that the plugin supports: operating systems, processors, and versions of Python."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

from packaging.tags import compatible_tags, cpython_tags, mac_platforms

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
"""Each needs its own native libraries; an archive contains all of them."""

OLDEST_MACOS = (13, 0)
OLDEST_GLIBC = range(28, 16, -1)
"""Minor versions of glibc 2 for which wheels are taken: no newer than Debian 10's and RHEL 8's."""


class CompletePlatform(TypedDict):
    """What pex calls a complete platform: the properties by which it chooses wheels for another machine."""

    marker_environment: dict[str, str]
    compatible_tags: list[str]


@dataclass(frozen=True)
class Platform:
    """An operating system and a processor, as Go and krew name them and as Python does."""

    os: str
    arch: str
    system: str
    """The value of `platform.system()`; `sys.platform` is the same in lower case."""
    machine: str

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Platform tags of wheels that run there, the best one first."""
        if self.os == "darwin":
            return tuple(mac_platforms(OLDEST_MACOS, self.machine))
        glibc = [f"manylinux_2_{minor}_{self.machine}" for minor in OLDEST_GLIBC]
        return (*glibc, f"manylinux2014_{self.machine}", f"linux_{self.machine}")

    @property
    def name(self) -> str:
        """Its name in the names of archives."""
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
        """The ABI tag of its wheels."""
        major, minor = self.python
        return f"cp{major}{minor}"

    @property
    def name(self) -> str:
        """Its name in the names of files and folders."""
        return f"{self.platform.name}_{self.abi}"

    def markers(self) -> dict[str, str]:
        """The environment in which markers of requirements are evaluated."""
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
        """The description that pex takes."""
        return {"marker_environment": self.markers(), "compatible_tags": list(self._tags())}

    def _tags(self) -> Iterator[str]:
        for tag in cpython_tags(self.python, [self.abi], self.platform.tags):
            yield str(tag)
        for tag in compatible_tags(self.python, self.abi, self.platform.tags):
            yield str(tag)
