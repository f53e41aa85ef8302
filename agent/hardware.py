"""
Read the machine from /sys/devices/system as the kubelet sees it.

What matters is not what a machine is but what its kubelet takes it for: the kubelet asks cadvisor
(GetNodesInfo of utils/sysinfo in google/cadvisor), and sorts the CPUs it gets (Discover in the kubelet's
cm/cpumanager/topology). So threads are one core if they share their zone, core_id and package. The cache that
cores share is the first one above level 2 that is not shared by the whole zone; without one, their socket
replaces it. CPUs that are offline do not count. A machine whose kernel knows no zones has one for each
socket, without memory.

Symbolic links are followed as long as they stay inside that directory.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

from agent.observation import LARGEST_ZONE, Hardware
from numalign.kube.decode.machines import ZoneMemory
from numalign.model import quantity
from numalign.model.bitset import union
from numalign.model.errors import BadInput, Mistake, cut
from numalign.model.machine import MOST_CPUS, Core, CpuSet, read_list
from numalign.model.resources import EMPTY, Resources, ZoneId

SYSFS = Path("/sys")

_LONGEST_FILE = 2**16
_SHOWN = 64
# The errors of opening without following links: for the last part of a path, and for a directory.
_IS_A_LINK = (errno.ELOOP, errno.ENOTDIR)
_KIBI = 1024

_ZONE = re.compile(r"node([0-9]{1,4})")
_CPU = re.compile(r"cpu([0-9]{1,4})")
_CACHE = re.compile(r"index([0-9]{1,4})")
_PAGES = re.compile(r"hugepages-([0-9]{1,12})kB")
_MEMORY = re.compile(r"MemTotal:\s*([0-9]{1,15}) kB")
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_MASK = re.compile(r"[0-9a-fA-F,]{1,4096}")
_PRIVATE_LEVELS = 2


class BadHardware(BadInput):
    """Raised when the kernel's files do not describe the machine; each mistake names its file."""


def hardware(sysfs: Path = SYSFS) -> Hardware:
    """Return the machine under this mount of sysfs; raise `BadHardware` with every mistake."""
    root = sysfs / "devices/system"
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BadHardware([Mistake(str(root), f"cannot be opened: {error.strerror}")]) from error
    try:
        files = _Files(root, fd)
        read = _Reader(files).hardware()
    finally:
        os.close(fd)
    if files.mistakes:
        raise BadHardware(files.mistakes)
    return read


class _Files:
    """Files in an open directory, and the mistakes in them."""

    def __init__(self, root: Path, fd: int) -> None:
        self._root, self._fd = root, fd
        self.mistakes: list[Mistake] = []

    def wrong(self, path: str, message: str) -> None:
        self.mistakes.append(Mistake(str(self._root / path), message))

    def text(self, path: str) -> str:
        """Return the text of a file, stripped; "" and a mistake if it cannot be read."""
        read = self.optional(path)
        if not read:
            self.wrong(path, "is missing, or cannot be read" if read is None else "is empty")
        return read or ""

    def optional(self, path: str) -> str | None:
        """Return the same as `text`; None if it cannot be read."""
        try:
            fd = self._open(path, os.O_NONBLOCK)
            try:
                content = os.read(fd, _LONGEST_FILE + 1)
            finally:
                os.close(fd)
        except (OSError, ValueError):
            return None
        if len(content) > _LONGEST_FILE:
            self.wrong(path, f"is longer than {_LONGEST_FILE} bytes")
        return content.decode("ascii", errors="replace")[:_LONGEST_FILE].strip()

    def number(self, path: str) -> int:
        """Return a whole number; 0 and a mistake if it is not one."""
        text = self.text(path)
        if text and not _NUMBER.fullmatch(text):
            self.wrong(path, f'"{cut(text, _SHOWN)}" is not a number')
        return int(text) if _NUMBER.fullmatch(text) else 0

    def folders(self, path: str, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
        """Return the number and the name of each entry that matches, ordered by name as in cadvisor."""
        try:
            fd = self._open(path, os.O_DIRECTORY)
        except (OSError, ValueError):
            return []
        try:
            names = sorted(os.listdir(fd))  # noqa: PTH208  a path would be opened again
        finally:
            os.close(fd)
        return [(int(match[1]), name) for name in names if (match := pattern.fullmatch(name))]

    def _open(self, path: str, flags: int) -> int:
        """Open a path inside the directory, through links that stay inside; raise `OSError`."""
        try:
            return self._open_plain(path.split("/"), flags)
        except OSError as error:
            if error.errno not in _IS_A_LINK:
                raise
        root = self._root.resolve()
        # Raises ValueError for a link that leads outside.
        inside = Path(os.path.realpath(root / path)).relative_to(root)
        return self._open_plain(inside.parts, flags)

    def _open_plain(self, path: Sequence[str], flags: int) -> int:
        """Do the same as `_open`, without following links."""
        *folders, last = path
        fd = self._fd
        try:
            for folder in folders:
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                self._close(fd)
                fd = inner
            return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=fd)
        finally:
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd != self._fd:
            os.close(fd)


class _Reader:
    """Reads one machine; what is invalid is added to the mistakes of the files, and read as 0."""

    def __init__(self, files: _Files) -> None:
        self._files, self._wrong = files, files.wrong

    def hardware(self) -> Hardware:
        zones = self._files.folders("node", _ZONE)
        for number, name in zones:
            if number > LARGEST_ZONE:
                self._wrong(f"node/{name}", f"is above {LARGEST_ZONE}, the highest NUMA node ID of Linux")
        cores: list[Core] = []
        if zones:
            banks = [self._bank(ZoneId(zone), f"node/{name}", len(zones)) for zone, name in zones]
            for zone, name in zones:
                cores += self._cores(ZoneId(zone), self._cpus(f"node/{name}"))
        else:
            # Each socket is a zone (getCPUTopology of utils/sysinfo).
            by_socket: dict[int, list[int]] = {}
            for cpu in self._cpus("cpu"):
                by_socket.setdefault(self._socket(cpu), []).append(cpu)
            banks = [ZoneMemory(ZoneId(socket), 0, None, EMPTY, ()) for socket in by_socket]
            for socket, cpus in by_socket.items():
                cores += self._cores(ZoneId(socket), cpus)
        if not cores:
            self._wrong("cpu", "lists no CPU that is online")
        cores.sort(key=lambda core: core.threads & -core.threads)
        every: CpuSet = 0
        for core in cores:
            if core.threads & every:
                self._wrong("node", f"has CPUs that are in two zones, one of them {core.zone}")
            every |= core.threads
        return Hardware(tuple(sorted(banks, key=lambda bank: bank.zone)), tuple(cores))

    def _cpus(self, folder: str) -> Iterator[int]:
        for cpu, name in self._files.folders(folder, _CPU):
            if cpu >= MOST_CPUS:
                self._wrong(f"{folder}/{name}", f"is above {MOST_CPUS - 1}, the highest CPU ID of Linux")
            elif self._online >> cpu & 1:
                yield cpu

    @cached_property
    def _online(self) -> CpuSet:
        """Return the online CPUs; all, if the kernel has no such file because it cannot take CPUs offline."""
        text = self._files.optional("cpu/online")
        if text is None:
            return (1 << MOST_CPUS) - 1
        try:
            return read_list(text)
        except ValueError as error:
            self._wrong("cpu/online", str(error))
            return 0

    def _socket(self, cpu: int) -> int:
        """Return the package of a CPU; without packages, firmware reports -1 for all."""
        return max(self._files.number(f"cpu/cpu{cpu}/topology/physical_package_id"), 0)

    def _cores(self, zone: ZoneId, cpus: Iterable[int]) -> Iterator[Core]:
        """
        Yield the cores of one zone, with their threads grouped as by getCoresInfo of utils/sysinfo.

        Each has the ID of the cache that it shares (addCacheInfo), or else of its socket. After a file that
        cannot be read, the caches of the cores that follow are not read.
        """
        by_core: dict[tuple[int, int], list[int]] = {}
        for cpu in cpus:
            core_id = self._files.number(f"cpu/cpu{cpu}/topology/core_id")
            by_core.setdefault((self._socket(cpu), core_id), []).append(cpu)
        readable = True
        for (socket, _), threads in by_core.items():
            cache = None
            for shared in self._shared_caches(threads[0]) if readable else ():
                if shared is None:
                    readable = False
                    break
                number, sharing = shared
                if cache is None and sharing != len(by_core) * len(threads):
                    cache = number
            yield Core(zone, socket, socket if cache is None else cache, union(1 << cpu for cpu in threads))

    def _shared_caches(self, cpu: int) -> Iterator[tuple[int, int] | None]:
        """Yield the ID of each cache above the private ones, and how many CPUs share it; None if unread."""
        folder = f"cpu/cpu{cpu}/cache"
        listed = self._files.folders(folder, _CACHE)
        if not listed:
            yield None
        for _, name in listed:
            level, number = (self._files.optional(f"{folder}/{name}/{field}") for field in ("level", "id"))
            if not (_is_number(level) and _is_number(number)):
                yield None
            elif int(level) > _PRIVATE_LEVELS:
                mask = self._files.optional(f"{folder}/{name}/shared_cpu_map")
                if mask and _MASK.fullmatch(mask):
                    yield int(number), int(mask.replace(",", ""), 16).bit_count()
                else:
                    yield None

    def _bank(self, zone: ZoneId, folder: str, count: int) -> ZoneMemory:
        """Return the memory of a zone, and its distances to each of the `count` zones that are online."""
        path = f"{folder}/meminfo"
        text = self._files.text(path)
        match = _MEMORY.search(text)
        if text and not match:
            self._wrong(path, "contains no MemTotal in kB")
        memory = int(match[1]) * _KIBI if match else 0
        pages = {}
        for kibibytes, name in self._files.folders(f"{folder}/hugepages", _PAGES):
            page = kibibytes * _KIBI
            held = self._files.number(f"{folder}/hugepages/{name}/nr_hugepages")
            pages[f"hugepages-{quantity.render_units(page)}"] = page * max(held, 0)
        path = f"{folder}/distance"
        # The kernel may report none.
        reported = self._files.optional(path)
        distances = tuple((reported or "").split())
        if reported is not None and (len(distances) != count or not all(map(str.isdigit, distances))):
            shown = cut(reported, _SHOWN)
            self._wrong(path, f'"{shown}" does not have one distance for each of {count} zones')
            distances = ()
        return ZoneMemory(zone, memory, None, Resources(pages), tuple(map(int, distances)))


def _is_number(text: str | None) -> TypeGuard[str]:
    return text is not None and _NUMBER.fullmatch(text) is not None
