"""
What there is to draw from: one recipe for each kind of scenario.

A recipe is a table of choices; a choice that shall be frequent stands in it more than once. Each kind turns
on one thing that a kubelet does, and `anything` on all of them at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Taste:
    """What the pods of a kind are like.

    `cpus` and `memory` are shares of a zone. `before` counts init containers and sidecars. The other figures
    are how likely it is that an amount of CPU is `fractional`, that a device is asked for, and zero of it,
    that hugepages are, that a pod states resources as a `whole`, that pods are `deleted` after one came, and
    that a pod is kept which does not fit.
    """

    steps: tuple[int, int] = (6, 28)
    quality: tuple[str, ...] = ("guaranteed",) * 7 + ("burstable", "effortless", "mixed")
    apps: tuple[int, ...] = (1, 1, 1, 1, 2, 2, 3)
    before: tuple[int, ...] = (0, 0, 0, 1)
    cpus: tuple[float, ...] = (0.05, 0.1, 0.1, 0.25, 0.25, 0.4, 0.5, 0.75, 1.0, 1.0, 1.1, 1.5, 2.0)
    memory: tuple[float, ...] = (0.02, 0.02, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.9, 1.0, 1.2, 1.6)
    fractional: float = 0.1
    devices: float = 0.5
    zeros: float = 0.03
    huge: float = 0.3
    whole: float = 0.0
    deleted: float = 0.2
    at_once: tuple[int, ...] = (1, 1, 1, 2, 3)
    misfits: float = 0.2


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the machines and configurations of a kind are like. Options and devices stand in one text.

    The figures are how likely it is that zones differ in size (`uneven`), that cores miss threads (`ragged`),
    that a zone has no CPU (`bare`) or no memory (`empty`), that ids have gaps (`sparse`), and that a device
    is `unhealthy`. `silent` is how many zones without CPUs, memory and devices there are besides.
    """

    zones: tuple[int, ...] = (1, 2, 2, 2, 2, 3, 4, 4, 8)
    per_socket: tuple[int, ...] = (1, 1, 2)
    cores: tuple[int, ...] = (2, 3, 4, 4, 6, 8)
    uneven: float = 0.1
    ragged: float = 0.0
    threads: tuple[int, ...] = (1, 2, 2)
    numbering: tuple[str, ...] = ("split", "split", "adjacent", "scattered")
    caches: tuple[int, ...] = (0,)
    bare: float = 0.0
    empty: float = 0.0
    sparse: float = 0.0
    silent: tuple[int, ...] = ()
    memory: tuple[int, ...] = (8, 16, 16, 32, 64)
    huge: tuple[tuple[str, ...], ...] = ((), (), ("1Gi",), ("2Mi",), ("1Gi", "2Mi"))
    kept_memory: tuple[float, ...] = (0, 0, 0.5, 1, 1.5)
    reserved: tuple[str, ...] = ("core", "core", "each", "broken", "count")
    devices: tuple[str, ...] = ("", "gpus", "gpus", "gpus nics", "gpus nics", "flat", "gpus flat")
    unhealthy: float = 0.05
    distances: tuple[str, ...] = ("sockets",)
    policies: tuple[str, ...] = ("none", *("best-effort", "restricted", "single-numa-node") * 2)
    scopes: tuple[str, ...] = ("container", "pod")
    cpu_managers: tuple[str, ...] = ("static",) * 7 + ("none",)
    memory_managers: tuple[str, ...] = ("Static", "Static", "Static", "None")
    cpu_options: tuple[str, ...] = ("",)
    topology_options: tuple[str, ...] = ("",)
    gates: tuple[str, ...] = ("",)
    taste: Taste = field(default_factory=Taste)


ACROSS_NUMA, ACROSS_CORES = "distribute-cpus-across-numa", "distribute-cpus-across-cores"
SOCKET, FULL, STRICT = "align-by-socket", "full-pcpus-only", "strict-cpu-reservation"
CACHE = "prefer-align-cpus-by-uncorecache"

_ALIGNING = ("best-effort", "best-effort", "restricted", "restricted", "none")
_ON_SOCKETS = Recipe(zones=(2, 3, 4, 4, 6, 8), per_socket=(1, 2, 2, 3, 4), policies=_ALIGNING)
_BIG = (0.25, 0.5, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
_SPANNING = Taste(cpus=(0.05, 0.25, 0.5, *_BIG), steps=(4, 16), deleted=0.3)
_GROUPED = Taste(
    steps=(8, 40),
    apps=(1, 1, 1, 2),
    cpus=(0.05, 0.05, 0.1, 0.25),
    memory=(0.05, 0.1, 0.3, 0.5, 0.8, 1.1, 1.3, 1.6),
    fractional=0.5,
    devices=0.15,
    deleted=0.5,
)
# Zones with room for many small pods are often equally good; those that went leave them used unevenly.
_TIED = Recipe(
    zones=(2, 2, 3, 4, 4),
    cores=(4, 6, 8, 12, 16),
    uneven=0.25,
    memory=(16, 32, 64),
    kept_memory=(0, 0.5, 1, 1.5, 4),
    reserved=("core", "each", "broken", "zone", "count"),
    policies=("best-effort", *("restricted", "single-numa-node") * 2),
    taste=Taste(
        steps=(10, 40),
        cpus=(0.05, 0.1, 0.1, 0.15, 0.25, 0.4, 0.6, 1.2),
        memory=(0.02, 0.05, 0.1, 0.15, 0.25, 0.4),
        deleted=0.35,
        before=(0, 0, 0, 1, 2),
    ),
)
_SCORED = ("most", "least", "most weighed", "least weighed", "most of one", "none")
_WHOLE = Taste(whole=0.75, before=(0, 0, 1, 1, 2), apps=(1, 1, 2, 2, 3), misfits=0.05)
_SETS = (
    *("", FULL, STRICT, SOCKET, CACHE, ACROSS_NUMA, ACROSS_CORES),
    *(f"{FULL},{STRICT}", f"{FULL},{SOCKET}", f"{FULL},{ACROSS_NUMA}", f"{FULL},{CACHE}"),
    *(f"{SOCKET},{ACROSS_NUMA}", f"{SOCKET},{CACHE}", f"{SOCKET},{ACROSS_CORES}", f"{STRICT},{ACROSS_CORES}"),
    *(f"{FULL},{SOCKET},{ACROSS_NUMA}", f"{FULL},{SOCKET},{CACHE},{STRICT}"),
)

RECIPES: Mapping[str, Recipe] = {
    "plain": Recipe(),
    "options": Recipe(cpu_options=_SETS, topology_options=("", "", "closest", "max")),
    "odd": Recipe(bare=0.25, empty=0.1, sparse=0.6, uneven=0.3, reserved=("core", "broken", "each", "zone")),
    "closest": Recipe(
        zones=(3, 4, 4, 6, 8), distances=("random",), topology_options=("closest",), taste=_SPANNING
    ),
    "socket": replace(_ON_SOCKETS, cpu_options=(SOCKET, SOCKET, f"{SOCKET},{FULL}")),
    "dist4": Recipe(zones=(2, 3, 4), cores=(3, 4, 5), cpu_options=(ACROSS_NUMA,), taste=_SPANNING),
    "dist8": Recipe(
        zones=(5, 6, 7, 8, 8),
        cores=(2, 3, 4),
        cpu_options=(ACROSS_NUMA,),
        policies=_ALIGNING,
        memory_managers=("None",),
        taste=_SPANNING,
    ),
    "distfull": Recipe(
        zones=(2, 3, 4, 4, 8),
        threads=(2,),
        cores=(2, 3, 4, 6),
        cpu_options=(f"{ACROSS_NUMA},{FULL}",),
        reserved=("core", "broken"),
        taste=_SPANNING,
    ),
    "socketdist": replace(
        _ON_SOCKETS,
        cpu_options=(f"{SOCKET},{ACROSS_NUMA}", f"{SOCKET},{ACROSS_NUMA},{FULL}"),
        memory_managers=("None", "Static"),
        taste=_SPANNING,
    ),
    "asym": Recipe(zones=(2, 2, 3, 4), uneven=1.0, cores=(1, 2, 3, 4, 6, 8)),
    "ragged": Recipe(zones=(2, 2, 3, 4), ragged=0.3, uneven=0.5, threads=(2, 2, 4), cpu_options=_SETS),
    "multidev": Recipe(zones=(2, 3, 4, 4), devices=("wide", "flat", "gpus wide", "mixed", "mixed wide")),
    "unknownzones": Recipe(
        zones=(2, 2, 3), devices=("unknown", "unknown nics", "unknown flat"), taste=Taste(devices=0.8)
    ),
    "trays": Recipe(
        zones=(2, 2, 3),
        silent=(7, 20, 32, 40, 61),
        devices=("gpus", "gpus nics", "wide", "mixed nics"),
        memory_managers=("None",),
        topology_options=("all", "all", "all closest"),
    ),
    "inits": Recipe(taste=Taste(before=(1, 1, 2, 2, 3), apps=(1, 1, 2), steps=(4, 18))),
    "groups": Recipe(
        zones=(2, 2, 3, 4),
        memory=(8, 16),
        policies=("none", "best-effort", "best-effort", "restricted"),
        memory_managers=("Static",),
        taste=_GROUPED,
    ),
    "trace": Recipe(
        zones=(1, 2, 2, 2, 4),
        cores=(16, 24, 32),
        memory=(128, 256),
        uneven=0.0,
        devices=("", "gpus", "gpus nics"),
        taste=Taste(steps=(12, 40), cpus=(0.05, 0.1, 0.1, 0.2, 0.4), memory=(0.01, 0.05, 0.1, 0.2, 0.4)),
    ),
    "caches": Recipe(
        zones=(1, 2, 2, 3, 4),
        caches=(1, 2, 2, 3, 4),
        cores=(4, 6, 8, 12),
        threads=(1, 1, 2, 2, 4),
        reserved=("core", "each", "broken", "broken", "count"),
        cpu_options=(CACHE, CACHE, f"{CACHE},{FULL}", f"{CACHE},{SOCKET}", f"{CACHE},{STRICT}"),
        policies=_ALIGNING,
        taste=Taste(cpus=(0.1, 0.15, 0.2, 0.3, 0.35, 0.5, 0.6, 0.8, 1.0, 1.3), deleted=0.35),
    ),
    "spread": Recipe(
        threads=(1, 2, 2, 4),
        cpu_options=(ACROSS_CORES, f"{ACROSS_CORES},{STRICT}", f"{SOCKET},{ACROSS_CORES}"),
    ),
    "unhealthy": Recipe(unhealthy=0.4, devices=("gpus", "gpus nics", "mixed wide"), taste=Taste(devices=0.8)),
    "zeros": Recipe(taste=Taste(zeros=0.4, devices=0.7, before=(0, 0, 1, 2))),
    "threads": Recipe(
        threads=(4,),
        cores=(1, 2, 3, 4),
        reserved=("broken", "broken", "core", "count"),
        cpu_options=("", FULL, FULL, f"{FULL},{ACROSS_NUMA}", ACROSS_CORES, CACHE),
    ),
    "reserved": Recipe(
        zones=(2, 2, 3, 4), reserved=("zone", "zone", "broken", "count"), cpu_options=("", "", FULL, STRICT)
    ),
    # A small block on one zone of a group, which the kubelet then cannot give back in full: many CPUs with
    # little memory make groups with room, and a device in a group draws small pods into it.
    "leaks": Recipe(
        zones=(3, 3, 4),
        cores=(2, 4),
        memory=(8,),
        policies=("best-effort", "best-effort", "best-effort", "none"),
        scopes=("container", "container", "pod"),
        cpu_managers=("static",),
        memory_managers=("Static",),
        devices=("gpus", "gpus nics"),
        reserved=("core", "zone"),
        taste=Taste(
            steps=(10, 40),
            quality=("guaranteed",),
            apps=(1, 1, 1, 2),
            before=(0, 0, 0, 1),
            cpus=(0.1, 0.1, 0.25, 0.5, 1.2, 1.5),
            memory=(0.02, 0.05, 0.1, 0.2, 0.3, 0.6, 1.2),
            fractional=0.1,
            devices=0.35,
            deleted=0.7,
            at_once=(1, 1, 2, 3, 5),
        ),
    ),
    "partial": Recipe(
        policies=("restricted", "restricted", "single-numa-node", "best-effort"),
        scopes=("container", "container", "container", "pod"),
        taste=Taste(apps=(2, 3, 3, 4), before=(0, 1, 2), memory=(0.1, 0.3, 0.5, 0.7), misfits=0.4),
    ),
    "sockets": replace(
        _ON_SOCKETS, cpu_options=("", "", FULL, SOCKET), uneven=0.3, topology_options=("", "max")
    ),
    "many": Recipe(
        zones=(9, 10, 11),
        cores=(2, 3),
        topology_options=("max",),
        cpu_options=("", "", ACROSS_NUMA, SOCKET),
        devices=("", "gpus"),
        taste=_SPANNING,
    ),
    "anything": Recipe(
        zones=(1, 2, 3, 4, 5, 6, 7, 8),
        per_socket=(1, 2, 3, 4),
        uneven=0.4,
        ragged=0.1,
        threads=(1, 2, 3, 4),
        caches=(0, 0, 1, 2, 3),
        bare=0.1,
        empty=0.03,
        reserved=("core", "each", "broken", "zone", "count"),
        devices=("", "gpus", "gpus nics", "mixed", "wide", "flat wide", "mixed nics"),
        unhealthy=0.1,
        distances=("sockets", "random"),
        cpu_options=_SETS,
        topology_options=("", "", "closest", "max"),
        taste=Taste(before=(0, 0, 1, 2), zeros=0.1),
    ),
    "startup": Recipe(
        zones=(1, 2, 4, 8, 9),
        per_socket=(1, 2),
        bare=0.2,
        kept_memory=(0, 0, 0, 1),
        reserved=("core", "nothing", "count", "zone"),
        cpu_options=(*_SETS, "any"),
        cpu_managers=("static", "none"),
        topology_options=("", "closest", "max", "few"),
        distances=("sockets", "untold"),
        taste=Taste(steps=(1, 3)),
    ),
    "whole": Recipe(zones=(1, 2, 2, 4), taste=_WHOLE),
    "bubble": Recipe(
        zones=(1, 2, 2, 2, 4), gates=("PodLevelResourceManagers",), cpu_options=("", "", *_SETS), taste=_WHOLE
    ),
    "packed": replace(
        _TIED, policies=("single-numa-node",) * 4 + ("restricted",), topology_options=("packed",)
    ),
    "packed-options": replace(
        _TIED,
        policies=("single-numa-node",),
        cpu_options=("", FULL, STRICT, ACROSS_CORES, CACHE),
        topology_options=("packed", "packed", "packed closest", "unpacked"),
    ),
    "scored": replace(_TIED, topology_options=_SCORED),
    "scored-options": replace(
        _TIED,
        cpu_options=_SETS,
        distances=("sockets", "random"),
        topology_options=(*_SCORED, "most closest", "least closest"),
    ),
    "scored-devices": replace(
        _TIED,
        devices=("wide", "flat gpus", "gpus wide", "mixed", "mixed nics", "gpus nics"),
        unhealthy=0.2,
        topology_options=_SCORED,
        taste=replace(_TIED.taste, devices=0.8),
    ),
}
"""By kind."""

OVERLAID: Mapping[str, str] = {
    **dict.fromkeys(("packed", "packed-options"), "prefer-most-allocated"),
    **dict.fromkeys(("scored", "scored-options", "scored-devices"), "numa-allocation-strategy"),
}
"""The overlay of the kubelet that has the options of a kind; the others are of every kubelet."""

SINCE: Mapping[str, int] = {"whole": 34, "bubble": 36, "trays": 36}
"""The minor version of Kubernetes from which on a kind exists."""
