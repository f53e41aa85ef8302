"""
What real kubelets gave to pods is believed, all of it: as exporters list it, and as it was predicted.

A record that is not believed costs a node its room, so not one of these may be doubted.
"""

from functools import cache

import pytest

from numalign.decision.evaluate import evaluate
from numalign.ledger import claims
from numalign.ledger.arithmetic import named
from numalign.model.demand import WHOLE_POD
from numalign.model.node import Node
from numalign.model.placement import Held, ZoneSet
from numalign.model.pod import Role
from numalign.model.resources import EMPTY, Resources
from tests.kubelet.recordings.test_cache_on_recordings import RECORDINGS, scenarios, states
from tests.worlds.thoroughness import Thoroughness, thoroughness
from tools.generate import agreement
from tools.generate.agreement import Admission, Level

EVERY = 18 if thoroughness() is Thoroughness.SAMPLE else 1
"""Of the recordings one scenario in so many."""

pytestmark = pytest.mark.timeout(900)


@cache
def admissions(name: str) -> tuple[tuple[Node, Admission], ...]:
    """Every pod that was admitted in these scenarios of a file of recordings, with its node."""
    return tuple(
        (node, step)
        for recorded in agreement.recordings(name, every=EVERY)
        for node in [next(states(recorded, Level.MACHINE))[0]]
        for step in recorded.steps
        if isinstance(step, Admission) and step.observed.seen is not None
    )


def listed(node: Node, request: Admission) -> Held:
    """What an exporter lists of a pod: its containers and sidecars, or what it holds as a whole."""
    running = {step.container for step in request.demand.steps if step.role is not Role.INIT}
    seen = request.observed.seen or ()
    pod = [each for each in seen if each.container == WHOLE_POD]
    total: dict[ZoneSet, Resources] = {}
    for each in pod or [each for each in seen if each.container in running]:
        for zones, amounts in each.amounts.items():
            total[zones] = total.get(zones, EMPTY).plus(amounts)
    return named(total, node)


@pytest.mark.parametrize("name", RECORDINGS)
def test_recorded_placement_is_believed_as_listed(name: str) -> None:
    placements = [(node, request.demand, listed(node, request)) for node, request in admissions(name)]
    assert any(amounts for _, _, amounts in placements)
    assert [each for each in placements if claims.checked(*each).refuted] == []


@pytest.mark.parametrize("level", [Level.MACHINE, Level.CONFIGURED, Level.COUNTS])
@pytest.mark.parametrize("name", RECORDINGS)
def test_prediction_for_a_recorded_pod_is_believed(name: str, level: Level) -> None:
    placements = [
        (node, question.demand, named(verdict.placement.kept, node))
        for recorded in scenarios(name)
        for node, question in states(recorded, level)
        for verdict in [evaluate(node, question.demand)]
        if verdict.admitted
    ]
    assert any(amounts for _, _, amounts in placements)
    assert [each for each in placements if claims.checked(*each).refuted] == []
