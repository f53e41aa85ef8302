"""A machine as its kernel tells it, seen with the eyes of the kubelet."""

from collections.abc import Callable
from dataclasses import replace
from errno import ENOENT
from itertools import count
from os import strerror
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.hardware import BadHardware, hardware
from agent.observation import Hardware
from numalign.kube.decode.machines import ZoneMemory
from numalign.model.machine import Core
from numalign.model.resources import EMPTY, Resources, ZoneId
from tests.unit.agent.fabricated import Folder, write
from tests.worlds.notation import table

GIB = 2**30
HUGE = Resources({"hugepages-2Mi": 512 * 2**20, "hugepages-1Gi": GIB})


def bank(zone: int, *distances: int, memory: int = 16 * GIB, huge: Resources = HUGE) -> ZoneMemory:
    return ZoneMemory(ZoneId(zone), memory, None, huge, distances)


def core(zone: int, threads: int, *, socket: int = 0, cache: int = 0) -> Core:
    return Core(ZoneId(zone), socket, cache, threads)


TWO_ZONES = Hardware((bank(0, 10, 21), bank(1, 21, 10)), (
    core(0, 0b10001, cache=4), core(0, 0b100010, cache=7),
    core(1, 0b1000100, socket=1, cache=8), core(1, 0b10001000, socket=1, cache=9),
))  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return write(TWO_ZONES, tmp_path)


def mistakes(folder: Folder) -> list[str]:
    with pytest.raises(BadHardware) as bad:
        hardware(folder.sysfs)
    return [str(mistake).removeprefix(f"{folder.system}/") for mistake in bad.value.mistakes]


def test_this_machine_has_a_core_and_memory() -> None:
    here = hardware()
    assert here.cores
    assert here.banks


@st.composite
def machines(draw: st.DrawFn) -> Hardware:
    """Any machine: sparse zones, some without CPUs, cores of one to three threads with ids in any order."""
    zones = sorted(draw(st.sets(st.integers(0, 1023), min_size=1, max_size=5)))
    distances = st.lists(st.integers(10, 255), min_size=len(zones), max_size=len(zones)).map(tuple)
    sizes = st.dictionaries(st.sampled_from(["hugepages-2Mi", "hugepages-1Gi"]), st.integers(0, 9))

    def drawn(zone: int) -> ZoneMemory:
        memory, pages = 1024 * draw(st.integers(0, 2**40)), draw(sizes)
        huge = {name: count * (2**21 if name.endswith("Mi") else GIB) for name, count in pages.items()}
        return ZoneMemory(ZoneId(zone), memory, None, Resources(huge), draw(distances))

    banks = [drawn(zone) for zone in zones]
    hosts = draw(st.lists(st.sampled_from(zones), min_size=1, max_size=5))
    threads = draw(st.integers(1, 3))
    cpus = iter(draw(st.permutations(range(threads * len(hosts)))))
    cores = [
        Core(ZoneId(zone), draw(st.integers(0, 3)), 0, sum(1 << next(cpus) for _ in range(threads)))
        for zone in hosts
    ]
    # Caches are of two cores at most, and not of a whole zone: see the examples.
    numbers = count(100)
    cached = [replace(each, cache=next(numbers)) for each in cores]
    alone = {zone for zone in hosts if hosts.count(zone) == 1}
    seen = (replace(each, cache=each.socket) if each.zone in alone else each for each in cached)
    return Hardware(tuple(banks), tuple(sorted(seen, key=lambda each: each.threads & -each.threads)))


# Each example writes a hundred files.
@settings(max_examples=min(25, settings().max_examples))
@given(machines())
def test_any_machine_is_read_as_it_was_written(machine: Hardware) -> None:
    with TemporaryDirectory() as sysfs:
        write(machine, Path(sysfs))
        assert hardware(Path(sysfs)) == machine


def cores(*caches: int, zones: int = 1, socket: int = 3) -> Hardware:
    """A machine of single threads, dealt out to its zones in order; `caches` as the kernel numbers them."""
    each = len(caches) // zones
    return Hardware(
        tuple(bank(zone, *[10] * zones) for zone in range(zones)),
        tuple(core(at // each, 1 << at, socket=socket, cache=cache) for at, cache in enumerate(caches)),
    )


@pytest.mark.parametrize(("written", "seen"), table([
    ("two caches in a zone",        cores(7, 7, 8, 8), (7, 7, 8, 8)),
    ("one cache of the whole zone", cores(7, 7, 7, 7), (3, 3, 3, 3)),
    ("one cache of two zones",      cores(7, 7, 7, 7, zones=2), (7, 7, 7, 7)),
    ("zones unlike each other",     cores(7, 7, 8, 9, zones=2), (3, 3, 8, 9)),
]))  # fmt: skip
def test_cache_of_a_zone_has_its_socket(tmp_path: Path, written: Hardware, seen: tuple[int, ...]) -> None:
    write(written, tmp_path)
    assert tuple(each.cache for each in hardware(tmp_path).cores) == seen


@pytest.mark.parametrize("missing", ["level", "id", "shared_cpu_map"])
def test_missing_cache_hides_those_of_later_cores(tmp_path: Path, missing: str) -> None:
    folder = write(cores(7, 7, 8, 8), tmp_path)
    (folder.system / f"cpu/cpu1/cache/index3/{missing}").unlink()
    assert [each.cache for each in hardware(tmp_path).cores] == [7, 3, 3, 3]
    # So does a garbled one.
    for text in ("", "x", "-", "zz,ff"):
        folder.write("cpu/cpu0/cache/index3/shared_cpu_map", text)
        assert {each.cache for each in hardware(tmp_path).cores} == {3}


def test_a_cpu_that_is_offline_is_none(tmp_path: Path) -> None:
    folder = write(TWO_ZONES, tmp_path, offline=[8, 15])
    assert hardware(tmp_path) == TWO_ZONES
    for cpu in (8, 15):
        (folder.system / f"node/node0/cpu{cpu}").rmdir()
    # A kernel that cannot take CPUs offline has no such file.
    (folder.system / "cpu/online").unlink()
    assert hardware(tmp_path) == TWO_ZONES


def test_a_machine_may_have_neither_distances_nor_hugepages(tmp_path: Path) -> None:
    machine = Hardware((bank(0, huge=EMPTY),), (core(0, 1),))
    assert hardware(write(machine, tmp_path).sysfs) == machine


def test_a_kernel_without_zones_has_one_for_each_socket(folder: Folder) -> None:
    for cpu in range(8):
        (folder.system / f"cpu/cpu{cpu}").mkdir(exist_ok=True)
    (folder.system / "node").rename(folder.sysfs / "elsewhere")
    read = hardware(folder.sysfs)
    assert read.banks == tuple(ZoneMemory(ZoneId(zone), 0, None, EMPTY, ()) for zone in (0, 1))
    assert read.cores == TWO_ZONES.cores


def test_firmware_that_knows_no_package_has_one_socket(folder: Folder) -> None:
    for cpu in range(8):
        folder.write(f"cpu/cpu{cpu}/topology/physical_package_id", -1)
    assert {each.socket for each in hardware(folder.sysfs).cores} == {0}


Change = Callable[[Path], object]


def text(content: str) -> Change:
    return lambda path: path.write_text(content)


def looped(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


MEMORY, DISTANCES, CORE = "node/node0/meminfo", "node/node0/distance", "cpu/cpu7/topology/core_id"
PACKAGE, ONLINE = "cpu/cpu7/topology/physical_package_id", "cpu/online"
PAGES = "node/node0/hugepages/hugepages-2048kB/nr_hugepages"
UNREADABLE, UNEQUAL = "is missing, or cannot be read", "does not have one distance for each of 2 zones"


@pytest.mark.parametrize(("path", "change", "expected"), table([
    # what is wrong        where      how it becomes so    what is said of it
    ("no memory",          MEMORY,    text("MemTotal: much"), f"{MEMORY}: contains no MemTotal in kB"),
    ("too few distances",  DISTANCES, text("10"),          f'{DISTANCES}: "10" {UNEQUAL}'),
    ("no distance",        DISTANCES, text("10 far"),      f'{DISTANCES}: "10 far" {UNEQUAL}'),
    ("no pages",           PAGES,     text("many"),        f'{PAGES}: "many" is not a number'),
    ("no CPUs",            ONLINE,    text("3-1"),
        f'{ONLINE}: "3-1" is not a CPU ID or range, as in 0-3,8'),
    ("none online",        ONLINE,    text("4095"),        "cpu: lists no CPU that is online"),
    ("a long file",        CORE,      text("9" * 70000),   f"{CORE}: is longer than 65536 bytes"),
    ("missing memory",     MEMORY,    Path.unlink,         f"{MEMORY}: {UNREADABLE}"),
    ("a missing package",  PACKAGE,   Path.unlink,         f"{PACKAGE}: {UNREADABLE}"),
    ("a link to itself",   MEMORY,    looped,              f"{MEMORY}: {UNREADABLE}"),
    ("a CPU in two zones", "node/node1/cpu0", Path.mkdir,
        "node: has CPUs that are in two zones, one of them 1"),
    ("a CPU beyond Linux", "node/node0/cpu8192", Path.mkdir,
        "node/node0/cpu8192: is above 8191, the highest CPU ID of Linux"),
    ("a zone beyond Linux", "node/node1024", Path.mkdir,
        "node/node1024: is above 1023, the highest NUMA node ID of Linux"),
]))  # fmt: skip
def test_what_is_wrong_is_named(folder: Folder, path: str, change: Change, expected: str) -> None:
    change(folder.system / path)
    assert expected in mistakes(folder)


def test_all_mistakes_are_listed_at_once(folder: Folder) -> None:
    folder.write("node/node0/meminfo", "")
    folder.write("node/node1/distance", "")
    assert len(mistakes(folder)) == 2


LINKED = ["node/node0/meminfo", "cpu/cpu0/topology", "cpu/cpu0", "node/node1"]


@pytest.mark.parametrize("path", LINKED)
def test_only_links_that_stay_inside_are_followed(folder: Folder, path: str) -> None:
    inside, outside = folder.system / "inside", folder.sysfs / "outside"
    (folder.system / path).rename(inside)
    (folder.system / path).symlink_to(inside)
    assert hardware(folder.sysfs) == TWO_ZONES
    inside.rename(outside)
    (folder.system / path).unlink()
    (folder.system / path).symlink_to(outside)
    assert any(mistake.startswith(path) for mistake in mistakes(folder))


def test_a_folder_that_is_no_sysfs_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadHardware, match=f"{tmp_path}/devices/system: cannot be opened: {strerror(ENOENT)}"):
        hardware(tmp_path)
