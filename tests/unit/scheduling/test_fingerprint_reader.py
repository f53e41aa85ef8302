"""The pods of a topology are found as its exporter names them: by either method, and by none."""

from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode.fingerprints import Fingerprint, Method, parse
from numalign.ledger.model import PodName
from numalign.model.node import Node
from numalign.scheduling.fingerprint_reader import PodFingerprintReader
from tests.unit.ledger.conftest import on
from tests.worlds.notation import node
from tools.clusters.sim.fingerprints import fingerprint

SHARED, BY_ZONE = node("cpu=8 gpu=1"), node("cpu=8 mem=8Gi gpu=1")
PODS = {
    "web": on("web", "cpu=2 mem=1Gi gpu=1"),
    "small": on("small", "cpu=500m mem=64Mi"),
    "idle": on("idle", "cpu=1.. mem=1Gi.."),
    "begun": on("begun", "init gpu=1 | cpu=1.."),
}


def names(text: str) -> frozenset[PodName]:
    return frozenset(("team", name) for name in text.split())


def written(pods: frozenset[PodName], method: str | None) -> PodFingerprintReader:
    """As an exporter publishes them."""
    found = parse(fingerprint(pods), method)
    assert found
    return PodFingerprintReader(found)


def test_without_a_method_all_pods_are_counted() -> None:
    every = names(" ".join(PODS))
    assert written(every, None)(SHARED, [*PODS.values()], ()) == every


def test_pods_of_one_method_are_not_those_of_the_other() -> None:
    some = Fingerprint(fingerprint(names("web small")), Method.ALL)
    assert PodFingerprintReader(some)(BY_ZONE, [*PODS.values()], ()) is None


pods = st.frozensets(st.sampled_from([*PODS]))


@given(pods, pods, pods, st.sampled_from(Method), st.sampled_from([SHARED, BY_ZONE]))
def test_accounted_pods_are_exact_or_unknown(
    seen: frozenset[str], certain: frozenset[str], perhaps: frozenset[str], method: Method, on_node: Node
) -> None:
    exclusive = {"web", "small"} if on_node is BY_ZONE else {"web"}
    counted = {*PODS} if method is Method.ALL else exclusive
    counted_pods = names(" ".join(seen & counted))
    found = written(counted_pods, method)(
        on_node, [PODS[each] for each in sorted(certain)], [PODS[each] for each in sorted(perhaps)]
    )
    possible = certain & counted <= seen & counted <= certain | perhaps
    assert found == (counted_pods if possible else None)
