"""What is written into which pod, as it would be stored."""

from dataclasses import replace
from typing import Any

import pytest

from numalign.cache import ClusterCache
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import node_class
from numalign.shapes import KnownShape, shape
from tests.json_patch import applied
from tests.naming import named
from tests.notation import node, table
from tests.webhook.conftest import Cluster, Raw, cluster, raw, read, with_spec
from webhook.mutate import concerns, mutate
from webhook.patch import Mode
from webhook.review import Allowed

SINGLE = "single-numa-node"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
BUSY = node("cpu=8/8/0 mem=8Gi gpu=4", "cpu=8/8/0 mem=8Gi gpu=4", policy=SINGLE)
SMALL_CLASS, LARGE_CLASS = node_class(SMALL), node_class(LARGE)

BOTH = cluster([SMALL, SMALL, LARGE])

TWO_GPUS = "cpu=2 mem=1Gi gpu=2"
ASKING = raw(TWO_GPUS, policy=SINGLE)


def rule(operator: str, *values: str) -> Raw:
    return {"key": CLASS_LABEL, "operator": operator, "values": sorted(values)}


def required(*expressions: Raw) -> Raw:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {REQUIRED: terms}}


NOT_SMALL = required(rule("NotIn", SMALL_CLASS))
ONLY_LARGE = required(rule("In", LARGE_CLASS))
RATHER = {
    "nodeAffinity": {
        PREFERRED: [{"weight": 100, "preference": {"matchExpressions": [rule("In", LARGE_CLASS)]}}]
    }
}
ZONE = {"key": "zone", "operator": "In", "values": ["z"]}


def affinity_of(made: Raw, now: Cluster, mode: Mode) -> Any:  # noqa: ANN401 - JSON, to compare with literals
    """The affinity of the pod as it would be stored; None if nothing was written."""
    answer = mutate(read(made, now), now.cache, mode=mode)
    if isinstance(answer, Allowed):
        return None
    return applied(made, answer.operations)["spec"]["affinity"]


EXCLUDE, INCLUDE, PREFER, OFF = "exclude", "include", "prefer", "off"
FITS, TIGHT, FULL, BARE = cluster([LARGE]), cluster([SMALL]), cluster([SMALL, BUSY]), cluster([])
PINNED = with_spec(ASKING, nodeName="n1")

VAST = node(*["cpu=8 mem=8Gi gpu=4"] * 18, policy=SINGLE)
"""More zones than anybody answers for."""

VASTLY, MAY = cluster([SMALL, LARGE, VAST]), required(rule("In", LARGE_CLASS, node_class(VAST)))

REMEMBERED, DECLARED = KnownShape(shape.of(LARGE), seen=1.0), KnownShape(shape.of(LARGE), declared=True)
WAS, COMES = (Cluster(ClusterCache.of([SMALL], [each])) for each in (REMEMBERED, DECLARED))
GREW = Cluster(ClusterCache.of([LARGE], [KnownShape(shape.of(SMALL), seen=1.0)]))
ILL = Cluster(ClusterCache.of(named([SMALL, replace(SMALL, health=LARGE)])))
CHOOSY = with_spec(ASKING, nodeSelector={"pool": "elsewhere"})

WRITTEN = [
    # how, the pod, the cluster, its affinity then
    ("exclude keeps a pod from what cannot",      ASKING, BOTH,  EXCLUDE, NOT_SMALL),
    ("include keeps it to what can",              ASKING, BOTH,  INCLUDE, ONLY_LARGE),
    ("prefer leaves it a choice",                 ASKING, BOTH,  PREFER,  RATHER),
    ("off writes nothing",                        ASKING, BOTH,  OFF,     None),
    ("exclude has nothing to say where all can",  ASKING, FITS,  EXCLUDE, None),
    ("include names what can even where all can", ASKING, FITS,  INCLUDE, ONLY_LARGE),
    ("what is merely in use can",                 ASKING, FULL,  EXCLUDE, NOT_SMALL),
    ("a pod that fits nowhere is left as it is",  ASKING, TIGHT, EXCLUDE, None),
    ("so it is when it must be included",         ASKING, TIGHT, INCLUDE, None),
    ("nothing is known of an empty cluster",      ASKING, BARE,  INCLUDE, None),
    ("a class that was not asked may take it",    ASKING, VASTLY, EXCLUDE, NOT_SMALL),
    ("and is named with those that can",          ASKING, VASTLY, INCLUDE, MAY),
    ("one that is remembered can, too",           ASKING, WAS,   EXCLUDE, NOT_SMALL),
    ("and is named",                              ASKING, WAS,   INCLUDE, ONLY_LARGE),
    ("one that is declared can, too",             ASKING, COMES, EXCLUDE, NOT_SMALL),
    ("one that could not is kept away from",      ASKING, GREW,  EXCLUDE, NOT_SMALL),
    ("an ill node is what it is in health",       ASKING, ILL,   EXCLUDE, NOT_SMALL),
    ("where the pod may go does not matter",      CHOOSY, BOTH,  EXCLUDE, NOT_SMALL),
    ("unknown nodes are not written about",
        ASKING, cluster([SMALL, LARGE], unknown=3), EXCLUDE, NOT_SMALL),
    ("a default asks as the pod itself would",
        raw(TWO_GPUS), cluster([SMALL, LARGE], labels={"default": SINGLE}), EXCLUDE, NOT_SMALL),
    ("none opts out of a default",
        raw(TWO_GPUS, policy="none"), cluster([SMALL, LARGE], labels={"default": SINGLE}), EXCLUDE, None),
    ("a level alone writes nothing",
        raw(TWO_GPUS), cluster([SMALL, LARGE], labels={"warn": SINGLE}), EXCLUDE, None),
    ("Volcano's words ask as well",
        raw(TWO_GPUS, annotations={"volcano.sh/numa-topology-policy": SINGLE}), BOTH, EXCLUDE, NOT_SMALL),
    ("best effort keeps from what its kubelet would refuse",
        raw(TWO_GPUS, policy="best-effort"), BOTH, EXCLUDE, NOT_SMALL),
    ("it is added to what the owner asks",
        with_spec(ASKING, affinity=required(ZONE)), BOTH, EXCLUDE,
        required(ZONE, rule("NotIn", SMALL_CLASS))),
    ("a pod on its node is left alone",           PINNED, BOTH,  EXCLUDE, None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "mode", "affinity"), table(WRITTEN))
def test_the_affinity_that_is_stored(made: Raw, now: Cluster, mode: str, affinity: object) -> None:
    assert affinity_of(made, now, Mode(mode)) == affinity


CROWDED = with_spec(ASKING, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE] * 513}}})


@pytest.mark.parametrize("mode", [EXCLUDE, INCLUDE, PREFER])
def test_a_pod_with_more_terms_than_are_read_is_left_alone_and_the_audit_log_says_so(mode: str) -> None:
    assert mutate(read(CROWDED, BOTH), BOTH.cache, mode=Mode(mode)) == Allowed(
        audit={"unsteered": "its node affinity has more than 512 terms"}
    )


AUDITED = [
    # mode      what the audit log keeps
    ("exclude", f"NotIn {SMALL_CLASS}"),
    ("include", f"In {LARGE_CLASS}"),
    ("prefer",  f"In {LARGE_CLASS}"),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "written"), AUDITED, ids=[mode for mode, _ in AUDITED])
def test_the_audit_log_keeps_what_was_written(mode: str, written: str) -> None:
    answer = mutate(read(ASKING, BOTH), BOTH.cache, mode=Mode(mode))

    assert (dict(answer.audit), answer.warnings) == ({"classes": written}, ())


def test_equal_reviews_get_equal_answers_whatever_the_order_of_the_nodes() -> None:
    others = [node(f"cpu={cpus} mem=8Gi gpu=1", policy=SINGLE) for cpus in range(1, 60)]
    one, other = cluster([LARGE, *others]), cluster([*reversed(others), LARGE])

    first = mutate(read(ASKING, one), one.cache, mode=Mode.EXCLUDE)
    second = mutate(read(ASKING, other), other.cache, mode=Mode.EXCLUDE)

    assert first == second
    assert len(first.audit["classes"]) <= 1000


def test_a_pod_that_was_patched_by_a_smaller_cluster_is_kept_from_new_classes_too() -> None:
    single = node("cpu=8 mem=8Gi gpu=1", policy=SINGLE)
    later = cluster([SMALL, LARGE, single])
    stored = with_spec(ASKING, affinity=NOT_SMALL)

    assert affinity_of(stored, later, Mode.EXCLUDE) == required(
        rule("NotIn", SMALL_CLASS, node_class(single))
    )


def test_nothing_is_asked_of_the_nodes_for_a_pod_that_cannot_be_patched() -> None:
    free = raw("cpu=2 mem=1Gi", policy="single-numa-node")
    now = cluster([node("cpu=8 mem=8Gi", policy="single-numa-node")])

    assert concerns(read(free, now), mode=Mode.EXCLUDE)
    assert not concerns(read(free, now), mode=Mode.OFF)
    assert not concerns(read(with_spec(free, nodeName="a"), now), mode=Mode.EXCLUDE)
