"""
Machines drawn from a recipe: zones on sockets, cores and their threads, memory, devices.

They are such as can be built and such as should not be, but each is one that a kubelet can be told of.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from tools.generate.recordings.recipes import Draw, Json

Cores = list[list[int]]
Places = list[list[int]]
"""The zones of each device."""

GI = 2**30
MI = 2**20
PAGES: Mapping[str, int] = {"1Gi": GI, "2Mi": 2 * MI}

PERMUTATIONS = 70_000
"""How many combinations of hints the kubelet may have to merge: it tries each of them."""


def machine(draw: Draw, config: Json) -> Json:
    count = draw.pick("zones")
    cores = _cores(draw, count)
    silent = draw.pick("silent") if draw.recipe["silent"] else 0
    sparse = not silent and draw.happens("sparse")
    ids = sorted(draw.rng.sample(range(2 * count + 2 if sparse else count + silent), count))
    sockets = _sockets(draw, count)
    sizes = draw.pick("huge").split()
    far = _DISTANCES[draw.pick("distances")](draw, sockets)
    zones = [
        {"id": ids[at], "socket": sockets[at], "cores": cores[at]}
        | ({"distances": far[at]} if far[at] else {})
        | _memory(draw, sizes)
        | _caches(draw, cores[at])
        for at in range(count)
    ]
    if silent:
        zones = _with_silent(draw, zones, silent)
    return _bounded({"zones": zones, **_reserved(draw, zones), "devices": _devices(draw, ids)}, config)


def _with_silent(draw: Draw, zones: list[Json], count: int) -> list[Json]:
    """These zones among others, as GPU memory shows that is not in use, at any distances."""
    by_id = {zone["id"]: zone for zone in zones}
    pages = dict.fromkeys(zones[0]["hugepages"], 0)
    bare = {"socket": 0, "cores": [], "memory": 0, "reservedMemory": 0, "hugepages": pages}
    every = range(len(zones) + count)
    far = [[10 if one == other else draw.rng.choice((12, 20, 40, 80)) for other in every] for one in every]
    return [by_id.get(at, bare) | {"id": at, "distances": far[at]} for at in every]


def for_pods(zone: Json) -> int:
    """The memory of a zone that is neither kept for the system nor in hugepages, in bytes."""
    huge = sum(PAGES[size] * count for size, count in zone["hugepages"].items())
    return int(zone["memory"] - zone["reservedMemory"] - huge)


def _cores(draw: Draw, count: int) -> list[Cores]:
    """The cores of each zone."""
    same = draw.pick("cores")
    uneven = draw.happens("uneven")
    sizes = [draw.pick("cores") if uneven else same for _ in range(count)]
    sizes = [0 if at and draw.happens("bare") else size for at, size in enumerate(sizes)]
    threads, numbering = draw.pick("threads"), draw.pick("numbering")
    places = [(turn, zone) for zone, size in enumerate(sizes) for turn in range(size)]
    # Cores are numbered zone by zone, or on all zones in turn.
    owners = [zone for _, zone in (sorted(places) if numbering == "scattered" else places)]
    found: list[Cores] = [[] for _ in sizes]
    for core, zone in enumerate(owners):
        first, step = (core * threads, 1) if numbering == "adjacent" else (core, len(owners))
        found[zone].append([first + thread * step for thread in range(threads)])
    # Someone may have switched off a thread of a core.
    return [
        [
            sorted(draw.rng.sample(core, len(core) - 1)) if len(core) > 1 and draw.happens("ragged") else core
            for core in cores
        ]
        for cores in found
    ]


def _sockets(draw: Draw, count: int) -> list[int]:
    per_socket = draw.pick("per_socket")
    in_turn = per_socket > 1 and draw.happens(0.15)
    sockets = -(-count // per_socket)
    return [at % sockets if in_turn else at // per_socket for at in range(count)]


def _by_sockets(_draw: Draw, sockets: Sequence[int]) -> list[list[int]]:
    return [
        [10 if a == b else 12 if one == other else 21 for b, other in enumerate(sockets)]
        for a, one in enumerate(sockets)
    ]


def _at_random(draw: Draw, sockets: Sequence[int]) -> list[list[int]]:
    lopsided = draw.happens(0.3)
    far = [[draw.rng.choice((11, 12, 16, 20, 21, 28, 31)) for _ in sockets] for _ in sockets]
    every = range(len(sockets))
    return [[10 if a == b else far[a][b] if a < b or lopsided else far[b][a] for b in every] for a in every]


_DISTANCES: Mapping[str, Callable[[Draw, Sequence[int]], list[list[int]]]] = {
    "sockets": _by_sockets,
    "random": _at_random,
    "unknown": lambda _, sockets: [[] for _ in sockets],
}


def _memory(draw: Draw, sizes: Sequence[str]) -> Json:
    """Every zone lists every size of page: the kubelet falls over one that a zone does not know."""
    if draw.happens("empty"):
        return {"memory": 0, "reservedMemory": 0, "hugepages": dict.fromkeys(sizes, 0)}
    pages = {"1Gi": (0, 0, 1, 2, 4), "2Mi": (0, 0, 128, 512)}
    return {
        "memory": draw.pick("memory") * GI,
        "reservedMemory": int(draw.pick("kept_memory") * GI),
        "hugepages": {size: draw.rng.choice(pages[size]) for size in sizes},
    }


def _caches(draw: Draw, cores: Cores) -> Json:
    count = min(draw.pick("caches"), len(cores))
    if not count:
        return {}
    even = [len(cores) * part // count for part in range(1, count)]
    cuts = sorted(draw.rng.sample(range(1, len(cores)), count - 1)) if draw.happens(0.3) else even
    shares = [cores[start:end] for start, end in pairwise([0, *cuts, len(cores)])]
    return {"uncoreCaches": [sorted(cpu for core in share for cpu in core) for share in shares]}


def _reserved(draw: Draw, zones: list[Json]) -> Json:
    """At least one CPU is left to pods, and some memory is kept: without, no static policy starts."""
    if not any(zone["reservedMemory"] for zone in zones) and 1 in draw.recipe["kept_memory"][-2:]:
        largest = max(zones, key=lambda zone: int(zone["memory"]))
        largest["reservedMemory"] = GI if largest["memory"] else 0
    owners = [zone["cores"] for zone in zones if zone["cores"]]
    every = [cpu for cores in owners for core in cores for cpu in core]
    kept: list[int] = []
    match draw.pick("reserved"):
        case "count":
            return {"reservedCPUs": draw.rng.randint(1, max(1, len(every) // 3))}
        case "core":
            kept = owners[0][0]
        case "each":
            kept = [cpu for cores in owners for cpu in cores[0]]
        case "broken":
            kept = draw.rng.sample(every, draw.rng.randint(1, max(1, len(every) // 4)))
        case "zone":
            kept = [cpu for core in draw.rng.choice(owners) for cpu in core]
    return {"reservedSystemCPUs": ",".join(map(str, sorted(kept if len(kept) < len(every) else every[:1])))}


def _devices(draw: Draw, ids: list[int]) -> Json:
    words = [_DEVICES[word] for word in draw.pick("devices").split()]
    drawn = {name: places(draw, ids) for name, places in words}
    return {
        name: [
            {"id": f"d{at:02}", "zones": zones, **({"healthy": False} if draw.happens("unhealthy") else {})}
            for at, zones in enumerate(places)
        ]
        for name, places in drawn.items()
        if places
    }


def _gpus(draw: Draw, ids: list[int]) -> Places:
    most = draw.rng.choice((1, 2, 2, 4))
    counts = [draw.rng.choice((most, most, most, draw.rng.randint(0, most))) for _ in ids]
    return [[zone] for zone, count in zip(ids, counts, strict=True) for _ in range(count)]


def _wide(draw: Draw, ids: list[int]) -> Places:
    widths = (min(len(ids), draw.rng.choice((1, 2, 2, 3))) for _ in range(draw.rng.randint(1, 5)))
    return sorted(sorted(draw.rng.sample(ids, width)) for width in widths)


def _mixed(draw: Draw, ids: list[int]) -> Places:
    """Some on a zone, some between zones, some of no zone."""
    counts = (draw.rng.randint(1, 4), draw.rng.randint(0, 2), draw.rng.randint(1, 3))
    spans = [[draw.rng.choice(ids)] for _ in range(counts[0])]
    spans += [sorted(draw.rng.sample(ids, min(2, len(ids)))) for _ in range(counts[1])]
    return [*sorted(spans), *([] for _ in range(counts[2]))]


def _unknown(draw: Draw, ids: list[int]) -> Places:
    """Some on a zone, or none; the others on -1, which plugins report if they do not know the zone."""
    known = [[draw.rng.choice(ids)] for _ in range(draw.rng.choice((0, 0, 1, 2)))]
    return [*sorted(known), *([-1] for _ in range(draw.rng.randint(1, 3)))]


_DEVICES: Mapping[str, tuple[str, Callable[[Draw, list[int]], Places]]] = {
    "gpus": ("nvidia.com/gpu", _gpus),
    "nics": (
        "rdma/hca",
        lambda draw, ids: [[zone] for zone in ids for _ in range(draw.rng.choice((0, 1, 1, 2)))],
    ),
    "flat": ("example.com/flat", lambda draw, _: [[] for _ in range(draw.rng.randint(1, 6))]),
    "wide": ("example.com/wide", _wide),
    "mixed": ("nvidia.com/gpu", _mixed),
    "unknown": ("nvidia.com/gpu", _unknown),
}


def _bounded(found: Json, config: Json) -> Json:
    """The machine with no more to align than the kubelet can merge in a moment."""
    hints = 2 ** sum(bool(zone["cores"] or zone["memory"]) for zone in found["zones"]) - 1
    while hints ** _aligned(found, config) > PERMUTATIONS:
        if found["zones"][0]["hugepages"]:
            found = found | {"zones": [zone | {"hugepages": {}} for zone in found["zones"]]}
        elif config["memoryManagerPolicy"] == "Static" and len(found["devices"]) < 2:
            config["memoryManagerPolicy"] = "None"
        else:
            found["devices"].popitem()
    return found


def _aligned(found: Json, config: Json) -> int:
    """How many resources have hints."""
    if config["topologyManagerPolicy"] == "none":
        return 0
    cpu, memory = config["cpuManagerPolicy"] == "static", config["memoryManagerPolicy"] == "Static"
    return int(len(found["devices"]) + cpu + memory * (1 + len(found["zones"][0]["hugepages"])))
