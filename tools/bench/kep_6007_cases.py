"""The smallest cases in which the options of KEP-6007 differ: one node, and three pods in turn."""

from dataclasses import dataclass

from numalign.kubelet.admit import admit, charge
from numalign.model import demand
from numalign.model.intent import Policy
from numalign.model.node import Known, Node, Zone
from numalign.model.options import Options
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId

DEVICE = "example.com/nic"
GIB = 2**30


@dataclass(frozen=True, slots=True)
class CasePod:
    """A Guaranteed pod of so many CPUs, each with 1 GiB of memory, and of devices."""

    name: str
    cpus: int
    devices: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A node of two zones of 8 CPUs with so many devices in the second, and the pods that arrive in turn."""

    title: str
    devices: int
    pods: tuple[CasePod, ...]


SMALL, LARGE = CasePod("4 CPUs", 4), CasePod("8 CPUs", 8)
PINNED = CasePod("4 CPUs and a device of zone 1", 4, 1)

CASES = (
    Case("A pod is pinned to zone 1 by its device, as in the KEP's figures", 1, (PINNED, SMALL, LARGE)),
    Case("The same, but the last pod needs the other device of zone 1", 2, (PINNED, SMALL, PINNED)),
    Case("Nothing is pinned", 0, (SMALL, SMALL, LARGE)),
)


def outcome(case: Case, options: Options) -> list[int | None]:
    """Return the zone that each pod gets, None if the kubelet rejects it."""
    node, zones = _node(case, options), list[int | None]()
    for pod in case.pods:
        admission = admit(node, demand.of(_written(pod)))
        node = charge(node, admission)
        zones.append(None if admission.refusal else min(admission.placement.zones))
    return zones


def _node(case: Case, options: Options) -> Node:
    amounts = [Resources({CPU: 8 * MILLI, MEMORY: 16 * GIB, DEVICE: count}) for count in (0, case.devices)]
    zones = tuple(
        Zone(ZoneId(at), f"node-{at}", each, each, each, ((ZoneId(at), 10), (ZoneId(1 - at), 21)))
        for at, each in enumerate(amounts)
    )
    return Node("node", zones, policy=Policy.SINGLE_NUMA_NODE, known=Known.CONFIGURED, options=options)


def _written(pod: CasePod) -> Pod:
    devices = {DEVICE: pod.devices} if pod.devices else {}
    amounts = Resources({CPU: pod.cpus * MILLI, MEMORY: pod.cpus * GIB, **devices})
    return Pod(pod.name, containers=(Container("main", requests=amounts, limits=amounts),))
