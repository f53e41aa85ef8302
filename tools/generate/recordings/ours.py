"""The rules in the place of one node's kubelet, spoken to as `kubectl numa replay` is.

What is compared with the kubelet is what people get: the lines, their decoders, and the session behind them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubectl_numa.events import BadLine, read
from kubectl_numa.replaying import PredictedAdmission, Session, follow
from numalign.model.errors import Mistake
from numalign.model.node import Node

Json = dict[str, Any]
Amounts = Mapping[str, Mapping[str, int]]

TOLD = ("name", "machine", "kubeletConfig", "kubeletVersion", "labels")
SEEN = ("pod", "admitted", "containers", "shared", "free")


@dataclass(frozen=True, slots=True)
class Predicted:
    """What the rules say of one pod, in the shape of the recordings.

    `reason` is empty if the pod is admitted. `chosen` if some devices could as well have been others.
    """

    reason: str = ""
    containers: Mapping[str, Json] = field(default_factory=dict)
    free: Amounts = field(default_factory=dict)
    chosen: bool = False

    @property
    def admitted(self) -> bool:
        """Whether it is."""
        return not self.reason


class Ours:
    """One node from its start on."""

    def __init__(self, scenario: Json) -> None:
        self._session, _ = _after(None, {"node": {name: scenario[name] for name in TOLD if name in scenario}})

    def create(self, pod: Json) -> Predicted:
        """What becomes of a pod; the prediction is charged."""
        self._session, answer = _after(self._session, {"create": pod})
        assert answer
        if answer.reason:
            return Predicted(answer.reason)
        chosen = any(grant.chosen for grant in answer.grants)
        told = json.loads(json.dumps(answer.to_json()))
        return Predicted("", holdings(told), _free(self._session.node), chosen)

    def observed(self, pod: str, truth: Json) -> None:
        """What really became of the pod that was created last."""
        told = {name: truth[name] for name in SEEN if name in truth}
        self._session, _ = _after(self._session, {"observed": told | {"pod": pod}})

    def delete(self, pod: str) -> None:
        self._session, _ = _after(self._session, {"delete": pod})


def holdings(told: Json) -> Mapping[str, Json]:
    """What each container holds and, under no name, what the pod holds as a whole."""
    shared = {"": told["shared"]} if any(told.get("shared", {}).values()) else {}
    return {**told["containers"], **shared}


def refusals(scenario: Json) -> tuple[Mistake, ...]:
    """Why the rules take this node for none: its kubelet does not start, or the description is wrong."""
    try:
        Ours(scenario)
    except BadLine as wrong:
        return wrong.mistakes
    return ()


def _after(session: Session | None, line: Json) -> tuple[Session, PredictedAdmission | None]:
    return follow(session, read(json.dumps(line).encode()))


def _free(node: Node) -> Amounts:
    """What is left by set of zones: devices between zones stand apart."""
    left = dict(node.stock.devices) if node.stock else {}
    found = {
        str(zone.id): {name: amount for name, amount in zone.free.items() if name not in left}
        for zone in node.every_zone
    }
    for name, places in node.machine.devices if node.machine else ():
        for place, count in zip(places, left[name], strict=True):
            if place.known:
                found.setdefault(",".join(map(str, place.known)), {})[name] = count
    return found
