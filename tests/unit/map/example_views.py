"""Views of the map: small ones, hostile ones, and five thousand nodes."""

import random
from collections import Counter
from collections.abc import Sequence

from numalign.cache.pod_question import StatedBy
from numalign.decision.alignment import Judgement
from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.exporters import TopologySource
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.ledger.model import Basis, Source, Stage
from numalign.map.views import (
    CacheBox,
    ClassGroup,
    Condition,
    CoreBox,
    CpuBox,
    CpuUse,
    DeviceBox,
    Fleet,
    FleetQuery,
    HeldInZones,
    NodeTile,
    NodeView,
    Placed,
    PodOnNode,
    PodView,
    SocketBox,
    WhatIfAnswer,
    WhatIfNode,
    WhatIfResult,
    WhatIfTemplate,
    ZoneBox,
    ZoneUse,
)
from numalign.model.demand import Step
from numalign.model.intent import Intent, IntentAnnotations, Policy, Scope
from numalign.model.pod import Role
from numalign.model.resources import Resources, ZoneId

NOW = 1_700_000_000.0
GIB = 2**30
GPU = "nvidia.com/gpu"
ANY = FleetQuery()
ALIGNS = (Policy.SINGLE_NUMA_NODE, Scope.CONTAINER)

HOSTILE = (
    "<script>window.caught=1</script>",
    '"><img src=x onerror="window.caught=1">',
    "</title></svg><script>window.caught=1</script>",
    "'onfocus='window.caught=1' autofocus='",
    "\u202egnp.exe\u202c",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.caught=1",
    "a" * 253,
)
"""Names that no API server accepts, but a file may have."""


def zone(number: int, cpus: int = 62, free: int = 62, gpus: int = 4, gpus_free: int = 4) -> ZoneUse:
    """A zone with CPUs, 8 GiB of memory for each, and GPUs."""
    amounts = [
        Resources({"cpu": 1000 * count, "memory": 8 * GIB * count, GPU: pieces})
        for count, pieces in ((cpus, gpus), (free, gpus_free))
    ]
    return ZoneUse(ZoneId(number), f"node-{number}", *amounts)


def tile(
    name: str = "dgx-1",
    zones: Sequence[ZoneUse] = (zone(0, free=30, gpus_free=1), zone(1)),
    conditions: frozenset[Condition] = frozenset(),
    node_class: str = "2x64cpu-4gpu-single-numa-node-container-0bf5c769",
) -> NodeTile:
    """A node of two zones."""
    return NodeTile(
        name,
        node_class,
        *ALIGNS,
        tuple(zones),
        conditions,
        TopologySource.AGENT,
        NOW - 42,
        Basis.OBSERVED,
        pods=3,
        misaligned=int(Condition.MISALIGNED in conditions),
    )


def fleet(tiles: Sequence[NodeTile], unknown: Sequence[str] = ()) -> Fleet:
    """All of these nodes, by class."""
    classes = sorted({each.node_class for each in tiles})
    groups = tuple(_group([each for each in tiles if each.node_class == name]) for name in classes)
    counts = {condition: sum(condition in each.conditions for each in tiles) for condition in Condition}
    filters = (("cpu", "memory", GPU), tuple(classes), (Policy.SINGLE_NUMA_NODE,))
    every = len(tiles) + len(unknown)
    return Fleet(groups, tuple(unknown), *filters, counts, every, every, 7, NOW)


def _group(tiles: Sequence[NodeTile]) -> ClassGroup:
    allocatable, free = Counter[str](), Counter[str]()
    for each in (zone for node in tiles for zone in node.zones):
        allocatable.update(each.allocatable)
        free.update(each.free)
    amounts = Resources(allocatable), Resources(free)
    return ClassGroup(tiles[0].node_class, *ALIGNS, tuple(tiles), *amounts)


def many(count: int) -> Fleet:
    """So many nodes of a few classes, of one, two, four and eight zones."""
    dice = random.Random(7)  # noqa: S311  a fleet, and no secret
    return fleet([_drawn(number, dice) for number in range(count)])


def _drawn(number: int, dice: random.Random) -> NodeTile:
    zones = (2, 4, 8, 1)[number % 4]
    uses = [
        zone(at, 62, dice.choice((0, 62, dice.randrange(63))), 4, dice.randrange(5)) for at in range(zones)
    ]
    conditions = frozenset(condition for condition in Condition if dice.random() < 0.01)
    return tile(f"node-{number:05}", uses, conditions, f"{zones}x64cpu-single-numa-node-{number % 24:08x}")


def pod(number: int = 0, name: str | None = "trainer-0", namespace: str = "team-a") -> PodOnNode:
    """A pod with 16 CPUs, memory and a GPU of zone 0; one without a name is hidden."""
    amounts = (HeldInZones(("node-0",), Resources({"cpu": 8000, "memory": 64 * GIB, GPU: 1})),)
    shown = (f"uid-{number}", namespace, "StatefulSet trainer")
    uid, space, owner = (None, None, None) if name is None else shown
    return PodOnNode(
        uid,
        space,
        name,
        owner,
        Policy.SINGLE_NUMA_NODE,
        exclusive=False,
        stage=Stage.ADMITTED,
        leaving=False,
        predicted=amounts,
        observed=amounts,
        cpus=0xFF << 8 * number,
        source=Source.KUBELET,
        judgement=Judgement.ALIGNED,
        aligned=True,
        why="",
        agrees=True,
    )


def node_view(pods: Sequence[PodOnNode] | None = None, name: str = "dgx-1") -> NodeView:
    """A node of two sockets whose CPUs are known, with these pods, or three."""
    pods = tuple(pods if pods is not None else (pod(0), pod(1, "trainer-1"), pod(2, None)))
    return NodeView(
        tile(name),
        (SocketBox(0, (_zone_box(0, pods),)), SocketBox(1, (_zone_box(1, ()),))),
        (),
        (DeviceBox("rdma/hca", (ZoneId(0), ZoneId(1)), 2, 2, 1),),
        pods,
        machine_known=True,
        exact=True,
        labels={"topology.kubernetes.io/zone": "rack-a"},
        taints=("dedicated=gpu:NoSchedule",),
        revision=7,
        now=NOW,
    )


def _zone_box(number: int, pods: Sequence[PodOnNode]) -> ZoneBox:
    use = zone(number, free=62 - 8 * len(pods), gpus_free=4 - len(pods))
    cores = [
        CoreBox(first, tuple(_cpu(at, pods) for at in (first, first + 64)))
        for first in range(32 * number, 32 * number + 32)
    ]
    caches = tuple(CacheBox(at, tuple(cores[8 * at : 8 * at + 8])) for at in range(4))
    devices = (DeviceBox(GPU, (ZoneId(number),), 4, 4, 4 - len(pods)),)
    return ZoneBox(use, caches, devices, tuple(range(len(pods))))


def _cpu(number: int, pods: Sequence[PodOnNode]) -> CpuBox:
    if number in (0, 64):
        return CpuBox(number, CpuUse.RESERVED)
    holder = next((at for at, each in enumerate(pods) if (each.cpus or 0) >> number & 1), None)
    return CpuBox(number, CpuUse.FREE if holder is None else CpuUse.HELD, holder)


def pod_info(name: str = "trainer-0", **changes: object) -> PodInfo:
    """A pod that runs, as it is listed."""
    values: dict[str, object] = {
        "uid": "4dbb3a42",
        "namespace": "team-a",
        "name": name,
        "node": "dgx-1",
        "scheduler": "default-scheduler",
        "created": int(NOW) - 3600,
        "started": int(NOW) - 3600,
        "phase": Phase.RUNNING,
        "acknowledged": True,
        "leaving": False,
        "reason": "",
        "message": "",
        "request": PodRequest(None, IntentAnnotations()),
        "record": None,
        "priority": 1000,
    }
    return PodInfo(**{**values, **changes})  # type: ignore[arg-type]  # each field stands in the table


def pod_view(info: PodInfo | None = None, **changes: object) -> PodView:
    """A pod that runs on a node, aligned."""
    memory, devices = Resources({"memory": 64 * GIB}), Resources({GPU: 1})
    step = Step("main", Role.APP, 8000, memory, devices)
    values: dict[str, object] = {
        "pod": info or pod_info(),
        "owner": "StatefulSet trainer",
        "node": "dgx-1",
        "intent": Intent(Policy.SINGLE_NUMA_NODE),
        "by": StatedBy.POD,
        "containers": (step,),
        "total": step.requests,
        "on_node": pod(),
        "zones": (zone(0, free=30, gpus_free=1), zone(1)),
        "beside": (),
        "beside_hidden": 0,
        "mistakes": (),
        "revision": 7,
        "now": NOW,
    }
    return PodView(**{**values, **changes})  # type: ignore[arg-type]  # each field stands in the table


def what_if_result() -> WhatIfResult:
    """A pod that fits on one node, not now on another, and never on a third."""
    placement = (HeldInZones(("node-1",), Resources({"cpu": 32000, GPU: 4})),)
    small = "has at most 3 nvidia.com/gpu free in any NUMA zone"
    nodes = (
        WhatIfNode("dgx-1", "big", WhatIfAnswer.FITS, "", 94, placement, (ZoneId(1),), ()),
        WhatIfNode("dgx-2", "big", WhatIfAnswer.NOT_NOW, small, None, (), (), ()),
        WhatIfNode("cpu-1", "small", WhatIfAnswer.NEVER, "has no nvidia.com/gpu in total", None, (), (), ()),
    )
    reasons = tuple((1, node.answer, node.reason) for node in nodes)
    view, webhook = pod_view(), (None, ("shares its zone",), None)
    counts = dict.fromkeys((node.answer for node in nodes), 1)
    asked = ("", view.intent, view.by, view.containers, view.total)
    template = WhatIfTemplate(*asked, *webhook, nodes, ("burst-1",), counts, reasons)
    placed = (Placed(0, "dgx-1", ("node-1",)),)
    about = ("Pod", "team-a", "trainer", (template,), 3, 1)
    return WhatIfResult(*about, placed, bounded=False, revision=7)
