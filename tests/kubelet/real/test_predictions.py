"""Pods of all kinds on real kubelets: each decision is predicted from what agents published before it."""

from collections.abc import Callable

import pytest

from numalign.ledger.model import Basis
from numalign.model.node import Known
from tests.kubelet.real.conftest import VERSIONS
from tests.kubelet.real.playing import Machine, play_all, running
from tools.generate.recordings import scenarios

MACHINES = (
    # Three zones of three cores, single-numa-node, two kinds of devices, CPUs reserved on each.
    Machine("partial", 12),
    # Init containers and sidecars under pod scope and best-effort, two kinds of devices.
    Machine("inits", 11),
    # full-pcpus-only and strict-cpu-reservation, no memory manager, hugepages.
    Machine("options", 4),
    # Zones 1 and 3 of a machine that has no others, restricted.
    Machine("odd", 1),
    # Several last-level caches in a zone: prefer-align-cpus-by-uncorecache, align-by-socket.
    Machine("caches", 9),
    # Devices between zones, hugepages, pod scope.
    Machine("multidev", 5),
)
WHOLE = (Machine("whole", 2), Machine("bubble", 4))
"""Pods that state resources as a whole: from 1.36 on managers can serve them as a whole, if a gate is on."""

PODS = 300
DRAWN_EACH = 60
"""Not all that is drawn fits."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
async def test_published_topologies_predict_every_decision(version: str, tell: Callable[[str], None]) -> None:
    known = scenarios.kinds(version)
    machines = (*MACHINES, *(machine for machine in WHOLE if machine.kind in known))
    async with running(machines, version) as (_, _, _, stages):
        tallies = await play_all([*stages.values()], pods=DRAWN_EACH)

    for name, tally in tallies.items():
        tell(f"{version} {name}: {tally}")
        for difference in tally.differences:
            tell(f"  {difference}")
    assert not [each for tally in tallies.values() for each in tally.differences]
    assert {basis for tally in tallies.values() for basis in tally.known} == {
        f"{Known.MACHINE}, {Basis.OBSERVED}"
    }
    assert sum(tally.decisions for tally in tallies.values()) >= PODS
