"""
Machines drawn from a recipe: zones on sockets, cores and their threads, memory, devices.

They are such as can be built and such as should not be, but each is one that a kubelet can be told of.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tools.generate.recordings.recipes import Recipe

Json = dict[str, Any]
Cores = list[list[int]]

GI = 2**30
MI = 2**20
PAGES: Mapping[str, int] = {"1Gi": GI, "2Mi": 2 * MI}

GPU, NIC, FLAT, WIDE = "nvidia.com/gpu", "rdma/hca", "example.com/flat", "example.com/wide"

PERMUTATIONS = 70_000
"""How many combinations of hints the kubelet may have to merge: it tries each of them."""


def happens(rng: random.Random, share: float) -> bool:
    return rng.random() < share


def machine(rng: random.Random, recipe: Recipe, config: Json) -> Json:
    count = rng.choice(recipe.zones)
    cores = _cores(rng, recipe, count)
    silent = rng.choice(recipe.silent) if recipe.silent else 0
    ids = sorted(rng.sample(range(count + silent), count)) if silent else _ids(rng, recipe, count)
    sockets = _sockets(rng, recipe, count)
    sizes = rng.choice(recipe.huge)
    far = _DISTANCES[rng.choice(recipe.distances)](rng, sockets)
    zones = [
        {"id": ids[at], "socket": sockets[at], "cores": cores[at]}
        | ({"distances": far[at]} if far[at] else {})
        | _memory(rng, recipe, sizes)
        | _caches(rng, recipe, cores[at])
        for at in range(count)
    ]
    if silent:
        zones = _with_silent(rng, zones, silent)
    found = {"zones": zones} | _reserved(rng, recipe, zones) | {"devices": _devices(rng, recipe, ids)}
    return _bounded(found, config)


def _with_silent(rng: random.Random, zones: list[Json], count: int) -> list[Json]:
    """These zones among others, as GPU memory shows that is not in use, at any distances."""
    by_id = {zone["id"]: zone for zone in zones}
    pages = dict.fromkeys(zones[0]["hugepages"], 0)
    bare = {"socket": 0, "cores": [], "memory": 0, "reservedMemory": 0, "hugepages": pages}
    every = range(len(zones) + count)
    far = [[10 if one == other else rng.choice((12, 20, 40, 80)) for other in every] for one in every]
    return [by_id.get(at, bare) | {"id": at, "distances": far[at]} for at in every]


def for_pods(zone: Json) -> int:
    """The memory of a zone that is neither kept for the system nor in hugepages, in bytes."""
    huge = sum(PAGES[size] * count for size, count in zone["hugepages"].items())
    return int(zone["memory"] - zone["reservedMemory"] - huge)


def numbered(sizes: Sequence[int], threads: int, how: str) -> list[Cores]:
    """The CPU ids of cores by zone: `adjacent` siblings or far ones, zones in turn (`scattered`) or not."""
    owners = [zone for zone, size in enumerate(sizes) for _ in range(size)]
    if how == "scattered":
        turns = ((turn, zone) for zone, size in enumerate(sizes) for turn in range(size))
        owners = [zone for _, zone in sorted(turns)]
    found: list[Cores] = [[] for _ in sizes]
    for core, zone in enumerate(owners):
        first, step = (core * threads, 1) if how == "adjacent" else (core, len(owners))
        found[zone].append([first + thread * step for thread in range(threads)])
    return found


def _ids(rng: random.Random, recipe: Recipe, count: int) -> list[int]:
    some = range(2 * count + 2) if happens(rng, recipe.sparse) else range(count)
    return sorted(rng.sample(some, count))


def _cores(rng: random.Random, recipe: Recipe, count: int) -> list[Cores]:
    same = rng.choice(recipe.cores)
    uneven = happens(rng, recipe.uneven)
    sizes = [rng.choice(recipe.cores) if uneven else same for _ in range(count)]
    sizes = [0 if at and happens(rng, recipe.bare) else size for at, size in enumerate(sizes)]
    whole = numbered(sizes, rng.choice(recipe.threads), rng.choice(recipe.numbering))
    # Someone may have switched off a thread of a core.
    return [
        [
            sorted(rng.sample(core, len(core) - 1)) if len(core) > 1 and happens(rng, recipe.ragged) else core
            for core in cores
        ]
        for cores in whole
    ]


def _sockets(rng: random.Random, recipe: Recipe, count: int) -> list[int]:
    per_socket = rng.choice(recipe.per_socket)
    in_turn = per_socket > 1 and happens(rng, 0.15)
    sockets = -(-count // per_socket)
    return [at % sockets if in_turn else at // per_socket for at in range(count)]


def _by_sockets(_rng: random.Random, sockets: Sequence[int]) -> list[list[int]]:
    return [
        [10 if a == b else 12 if one == other else 21 for b, other in enumerate(sockets)]
        for a, one in enumerate(sockets)
    ]


def _at_random(rng: random.Random, sockets: Sequence[int]) -> list[list[int]]:
    lopsided = happens(rng, 0.3)
    far = [[rng.choice((11, 12, 16, 20, 21, 28, 31)) for _ in sockets] for _ in sockets]
    every = range(len(sockets))
    return [[10 if a == b else far[a][b] if a < b or lopsided else far[b][a] for b in every] for a in every]


_DISTANCES: Mapping[str, Callable[[random.Random, Sequence[int]], list[list[int]]]] = {
    "sockets": _by_sockets,
    "random": _at_random,
    "untold": lambda _, sockets: [[] for _ in sockets],
}


def _memory(rng: random.Random, recipe: Recipe, sizes: Sequence[str]) -> Json:
    """Every zone lists every size of page: the kubelet falls over one that a zone does not know."""
    if happens(rng, recipe.empty):
        return {"memory": 0, "reservedMemory": 0, "hugepages": dict.fromkeys(sizes, 0)}
    pages = {"1Gi": (0, 0, 1, 2, 4), "2Mi": (0, 0, 128, 512)}
    return {
        "memory": rng.choice(recipe.memory) * GI,
        "reservedMemory": int(rng.choice(recipe.kept_memory) * GI),
        "hugepages": {size: rng.choice(pages[size]) for size in sizes},
    }


def _caches(rng: random.Random, recipe: Recipe, cores: Cores) -> Json:
    count = min(rng.choice(recipe.caches), len(cores))
    if not count:
        return {}
    even = [len(cores) * part // count for part in range(1, count)]
    cuts = sorted(rng.sample(range(1, len(cores)), count - 1)) if happens(rng, 0.3) else even
    edges = [0, *cuts, len(cores)]
    shares = [cores[start:end] for start, end in pairwise(edges)]
    return {"uncoreCaches": [sorted(cpu for core in share for cpu in core) for share in shares]}


def _reserved(rng: random.Random, recipe: Recipe, zones: list[Json]) -> Json:
    """At least one CPU is left to pods, and some memory is kept: without, no static policy starts."""
    if not any(zone["reservedMemory"] for zone in zones) and 1 in recipe.kept_memory[-2:]:
        largest = max(zones, key=lambda zone: int(zone["memory"]))
        largest["reservedMemory"] = GI if largest["memory"] else 0
    owners = [zone["cores"] for zone in zones if zone["cores"]]
    every = [cpu for cores in owners for core in cores for cpu in core]
    how = rng.choice(recipe.reserved)
    if how == "count":
        return {"reservedCPUs": rng.randint(1, max(1, len(every) // 3))}
    kept = _RESERVED[how](rng, owners)
    return {"reservedSystemCPUs": ",".join(map(str, sorted(kept if len(kept) < len(every) else every[:1])))}


def _broken(rng: random.Random, owners: list[Cores]) -> list[int]:
    every = [cpu for cores in owners for core in cores for cpu in core]
    return rng.sample(every, rng.randint(1, max(1, len(every) // 4)))


_RESERVED: Mapping[str, Callable[[random.Random, list[Cores]], list[int]]] = {
    "core": lambda _, owners: owners[0][0],
    "each": lambda _, owners: [cpu for cores in owners for cpu in cores[0]],
    "broken": _broken,
    "zone": lambda rng, owners: [cpu for core in rng.choice(owners) for cpu in core],
    "nothing": lambda _, _owners: [],
}


def _devices(rng: random.Random, recipe: Recipe, ids: list[int]) -> Json:
    drawn = dict(_DEVICES[word](rng, ids) for word in rng.choice(recipe.devices).split())
    return {
        name: [
            {
                "id": f"d{at:02}",
                "zones": zones,
                **({"healthy": False} if happens(rng, recipe.unhealthy) else {}),
            }
            for at, zones in enumerate(places)
        ]
        for name, places in drawn.items()
        if places
    }


Places = tuple[str, list[list[int]]]


def _gpus(rng: random.Random, ids: list[int]) -> Places:
    most = rng.choice((1, 2, 2, 4))
    counts = {zone: rng.choice((most, most, most, rng.randint(0, most))) for zone in ids}
    return GPU, [[zone] for zone in ids for _ in range(counts[zone])]


def _wide(rng: random.Random, ids: list[int]) -> Places:
    widths = (min(len(ids), rng.choice((1, 2, 2, 3))) for _ in range(rng.randint(1, 5)))
    return WIDE, sorted(sorted(rng.sample(ids, width)) for width in widths)


def _mixed(rng: random.Random, ids: list[int]) -> Places:
    """Some on a zone, some between zones, some nobody knows where."""
    counts = (rng.randint(1, 4), rng.randint(0, 2), rng.randint(1, 3))
    spans = [[rng.choice(ids)] for _ in range(counts[0])]
    spans += [sorted(rng.sample(ids, min(2, len(ids)))) for _ in range(counts[1])]
    return GPU, [*sorted(spans), *([] for _ in range(counts[2]))]


def _unknown(rng: random.Random, ids: list[int]) -> Places:
    """Some on a zone, or none; the others on -1, which plugins report if they do not know the zone."""
    known = [[rng.choice(ids)] for _ in range(rng.choice((0, 0, 1, 2)))]
    return GPU, [*sorted(known), *([-1] for _ in range(rng.randint(1, 3)))]


_DEVICES: Mapping[str, Callable[[random.Random, list[int]], Places]] = {
    "gpus": _gpus,
    "nics": lambda rng, ids: (NIC, [[zone] for zone in ids for _ in range(rng.choice((0, 1, 1, 2)))]),
    "flat": lambda rng, _: (FLAT, [[] for _ in range(rng.randint(1, 6))]),
    "wide": _wide,
    "mixed": _mixed,
    "unknown": _unknown,
}


def _bounded(found: Json, config: Json) -> Json:
    """The machine with no more to align than the kubelet can merge in a moment."""
    hints = 2 ** sum(bool(zone["cores"] or zone["memory"]) for zone in found["zones"]) - 1
    while hints ** len(_aligned(found, config)) > PERMUTATIONS:
        if found["zones"][0]["hugepages"]:
            found = found | {"zones": [zone | {"hugepages": {}} for zone in found["zones"]]}
        elif config["memoryManagerPolicy"] == "Static" and len(found["devices"]) < 2:
            config["memoryManagerPolicy"] = "None"
        else:
            found["devices"].popitem()
    return found


def _aligned(found: Json, config: Json) -> list[str]:
    if config["topologyManagerPolicy"] == "none":
        return []
    names = list(found["devices"])
    names += ["cpu"] if config["cpuManagerPolicy"] == "static" else []
    memory = ["memory", *found["zones"][0]["hugepages"]]
    return names + (memory if config["memoryManagerPolicy"] == "Static" else [])
