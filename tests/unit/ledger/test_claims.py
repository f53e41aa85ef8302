"""How much of a record of a pod is believed; records are written `0 cpu=4; 0,1 mem=6Gi`."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from numalign.ledger import claims
from numalign.ledger.claims import checked, due, static_facts
from numalign.model import demand as demands
from numalign.model.demand import Demand
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.pod import Role
from numalign.model.resources import CPU, MEMORY, Resources
from tests.unit.ledger.conftest import held
from tests.worlds.notation import GPU, HUGE, asks, bag, machine, node, options, pod, table

PAIR = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy="single-numa-node")
HUGE_PAIR = node("cpu=8 mem=8Gi huge=4Gi", "cpu=8 mem=8Gi huge=4Gi", policy="best-effort")
STRICT = node(*["cpu=8 mem=8Gi"] * 3, policy="restricted")
STRICT_POD = replace(STRICT, scope=STRICT.scope.POD)
APART = machine("cpu=0-3", "cpu=4-7", devices="gpu=0,1,-", policy="best-effort")
ILL = replace(node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=2", policy="single-numa-node"), health=PAIR)
"""The pair, since one of its devices has failed."""

SHARED = replace(PAIR, cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)


CLAIMS = [
    # what it shows, the node, what the pod asks, what its record says
    #     the resources of which it is not believed, what is believed
    ("what it requests", PAIR, "cpu=4 mem=1Gi gpu=1", "0 cpu=4 mem=1Gi gpu=1", [], "0 cpu=4 mem=1Gi gpu=1"),
    ("from any zone", PAIR, "cpu=4 mem=9Gi", "0 cpu=1; 1 cpu=3; 0,1 mem=9Gi",
         [], "0 cpu=1; 1 cpu=3; 0,1 mem=9Gi"),
    ("a tiny pod that claims its node", PAIR, "cpu=100m mem=1Gi", "0 cpu=8 mem=1Gi; 1 cpu=8",
         [CPU], "0 mem=1Gi"),
    ("a huge pod that claims a little", PAIR, "cpu=8 mem=8Gi", "0 cpu=1 mem=8Gi", [CPU], "0 mem=8Gi"),
    ("a device that it does not request", PAIR, "cpu=1 mem=1Gi", "0 cpu=1 mem=1Gi gpu=2",
         [GPU], "0 cpu=1 mem=1Gi"),
    ("a device of which it requests none", PAIR, "cpu=1 mem=1Gi gpu=0", "0 cpu=1 mem=1Gi gpu=1",
         [GPU], "0 cpu=1 mem=1Gi"),
    ("more than a zone has", PAIR, "cpu=12 mem=1Gi", "0 cpu=12 mem=1Gi", [CPU], "0 mem=1Gi"),
    ("memory that binds more zones than it needs", PAIR, "cpu=1 mem=1Gi", "0 cpu=1; 0,1 mem=1Gi",
         [MEMORY], "0 cpu=1"),
    ("as many zones as it needs", STRICT, "cpu=1 mem=9Gi", "0 cpu=1; 0,1 mem=9Gi",
         [], "0 cpu=1; 0,1 mem=9Gi"),
    ("as many as the pod needs in pod scope", STRICT_POD, "cpu=1 mem=4Gi | cpu=1 mem=5Gi",
         "0 cpu=2; 0,1 mem=9Gi", [], "0 cpu=2; 0,1 mem=9Gi"),
    ("any number of zones at best effort", HUGE_PAIR, "cpu=1 mem=1Gi", "0 cpu=1; 0,1 mem=1Gi",
         [], "0 cpu=1; 0,1 mem=1Gi"),
    ("no more than an unhealthy node had in health", ILL, "cpu=1 mem=1Gi gpu=3", "0 cpu=1 mem=1Gi gpu=3",
         [GPU], "0 cpu=1 mem=1Gi"),
    ("what lies on no zone", PAIR, "cpu=4 mem=1Gi gpu=1", "- cpu=4 mem=1Gi gpu=1", [CPU, MEMORY, GPU], ""),
    ("devices without a zone", APART, "cpu=1 mem=1Gi gpu=2", "0 cpu=1 gpu=1; - gpu=1",
         [], "0 cpu=1 gpu=1; - gpu=1"),
    ("no more devices without a zone than there are", APART, "cpu=1 mem=1Gi gpu=2", "0 cpu=1; - gpu=2",
         [GPU], "0 cpu=1"),
    ("a zone that does not exist", PAIR, "cpu=4 mem=1Gi", "0 cpu=2 mem=1Gi; 7 cpu=2", [CPU, MEMORY], ""),
    ("a record without memory, as KAI's", PAIR, "cpu=4 mem=9Gi", "0 cpu=2; 1 cpu=2", [MEMORY],
         "0 cpu=2; 1 cpu=2"),
    ("what no manager gives out is not checked", SHARED, "cpu=4 mem=1Gi gpu=1", "0 cpu=64 mem=1Ti gpu=1", [],
         "0 gpu=1"),
    ("a container without exclusive resources", PAIR, "cpu=4.. mem=1Gi..", "0 cpu=4 mem=1Gi",
         [CPU, MEMORY], ""),
    ("an exporter omits what init containers keep", PAIR, "init cpu=4 mem=4Gi gpu=2 | cpu=1 mem=1Gi",
         "0 cpu=1 mem=1Gi", [], "0 cpu=1 mem=1Gi"),
    ("a prediction has it", PAIR, "init cpu=4 mem=4Gi gpu=2 | cpu=1 mem=1Gi", "0 cpu=4 mem=1Gi gpu=2",
         [], "0 cpu=4 mem=1Gi gpu=2"),
    ("no more than they got, and no memory", PAIR, "init cpu=4 mem=4Gi gpu=2 | cpu=1 mem=1Gi",
         "0 cpu=6 mem=4Gi gpu=2", [CPU, MEMORY], "0 gpu=2"),
    ("memory of each size counts for itself", HUGE_PAIR, "cpu=1 mem=1Gi huge=2Gi", "0 cpu=1 mem=3Gi",
         [HUGE, MEMORY], "0 cpu=1"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "containers", "record", "refuted", "believed"), table(CLAIMS))
def test_record_counts_up_to_the_requests(
    host: Node, containers: str, record: str, refuted: list[str], believed: str
) -> None:
    demand = asks(*containers.split("|"))
    claim = checked(host, demand, held(record))
    assert (sorted(claim.refuted), claim.held) == (sorted(refuted), held(believed))


def test_pod_level_resources_are_claimed_as_one() -> None:
    gated = replace(PAIR, scope=PAIR.scope.POD, options=options("PodLevelResourceManagers", minor=36))
    demand = demands.of(pod("cpu=2 mem=1Gi gpu=1", "", requests="cpu=6 mem=4Gi", limits="cpu=6 mem=4Gi"))
    assert dict(due(gated, demand).running) == {CPU: 6000, MEMORY: 4 * 2**30}
    assert not checked(gated, demand, held("0 cpu=6 mem=4Gi")).refuted
    assert checked(gated, demand, held("0 cpu=2 mem=1Gi")).refuted
    assert not checked(PAIR, demand, held("0 gpu=1")).refuted, (
        "such a pod gets devices alone without the gate"
    )


def test_claims_depend_on_static_facts_of_a_node() -> None:
    busy = replace(PAIR, zones=tuple(replace(zone, free=bag("cpu=1")) for zone in PAIR.zones))
    assert static_facts(busy) == static_facts(PAIR)
    assert static_facts(ILL) != static_facts(replace(ILL, health=None))
    others = (PAIR, HUGE_PAIR, SHARED, replace(PAIR, scope=PAIR.scope.POD))
    assert len({*map(static_facts, others)}) == 4


def test_ignored_pod_costs_no_time_per_container(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Node] = []

    def steps(node: Node, _: Demand) -> Sequence[tuple[Role, Resources]]:
        counted.append(node)
        return ()

    monkeypatch.setattr(claims, "steps", steps)
    level = "cpu=60 mem=4Gi"
    demand = demands.of(pod(" | ".join(["cpu=1 mem=1Mi"] * 60), requests=level, limits=level))

    assert (claims.exclusive_cpus(PAIR, demand), counted) == (0, [])
