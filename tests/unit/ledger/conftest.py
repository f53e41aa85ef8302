"""How tests of the ledger write pods: as they ask, and what they hold as zones: `0 cpu=4; 0,1 mem=6Gi`."""

from collections.abc import Sequence

from numalign.ledger.model import (
    AssignedPod,
    FingerprintReader,
    NodeInfo,
    PlacementRecord,
    PodName,
    Prediction,
    Source,
    Stage,
)
from numalign.ledger.ordering import predict
from numalign.model.node import Node
from numalign.model.placement import Held
from tests.worlds.notation import asks, bag, node

NOW, LAG = 1000.0, 60.0
LONG_AGO, JUST_NOW = NOW - 500, NOW - 1

TWO = node("cpu=8", "cpu=8", policy="single-numa-node")
HALF = node("cpu=8//4", "cpu=8//8", policy="single-numa-node")


def held(text: str) -> Held:
    """What a pod holds, written `0 cpu=4; 0,1 mem=6Gi; - gpu=1`."""
    parts = [part.split(maxsplit=1) for part in text.split(";") if part.strip()]
    return {
        tuple(f"node-{zone}" for zone in zones.split(",") if zone != "-"): bag(amounts)
        for zones, amounts in parts
    }


def on(  # noqa: PLR0913  one keyword for each fact of a pod
    uid: str,
    containers: str = "cpu=4 mem=1Gi",
    has: str | None = None,
    *,
    stage: Stage = Stage.ADMITTED,
    source: Source = Source.RECORDED,
    since: float = LONG_AGO,
    created: int = 0,
    turn: int = 0,
    name: str = "",
    terminating: bool = False,
) -> AssignedPod:
    """A pod that has been on its node for long; `has` is what is recorded of it, if anything is."""
    return AssignedPod(
        uid,
        ("team", name or uid),
        asks(*containers.split("|")),
        stage,
        since=since,
        created=created,
        record=None if has is None else PlacementRecord(held(has), source),
        turn=turn,
        terminating=terminating,
    )


def of(*names: str) -> FingerprintReader:
    """A fingerprint of these pods, that nothing else has."""
    return fingerprint_of(frozenset(("team", name) for name in names))


def fingerprint_of(pods: frozenset[PodName]) -> FingerprintReader:
    """The same of pods in any namespaces."""

    def accounted(
        _node: Node, certain: Sequence[AssignedPod], perhaps: Sequence[AssignedPod]
    ) -> frozenset[PodName] | None:
        sure = {pod.name for pod in certain}
        return pods if sure <= pods <= sure | {pod.name for pod in perhaps} else None

    return accounted


def predicted(info: NodeInfo, containers: str, *, created: int = 10) -> Prediction:
    return predict(info, asks(*containers.split("|")), created=created, now=NOW, lag=LAG)


STRANGER = on("stranger")
