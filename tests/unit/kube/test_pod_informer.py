"""Pods, as they come from an API server or a file, and what a ledger is told of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.decode import placement_records
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.kinds import PODS, Key
from numalign.kube.pod_informer import (
    KEPT_GATES,
    LONGEST_MESSAGE,
    MOST_MISTAKES,
    Owner,
    Phase,
    PodInfo,
    PodInformer,
)
from numalign.ledger.model import PlacementRecord, Source
from numalign.lru import MOST_BYTES
from numalign.memory_size import weight
from numalign.model.errors import AND_MORE
from numalign.model.intent import (
    PLACEMENT,
    PLACEMENT_GATE,
    PLACEMENT_OBSERVED,
    IntentAnnotations,
    Policy,
)
from numalign.runtime.logs import MANY_LINES
from tests.worlds.log import RecordedLog as LogTold
from tests.worlds.notation import asks, bag, table

Json = dict[str, Any]

BORN = "2026-01-02T03:04:05Z"
RECORD = '[{"zones":["node-0"],"amount":{"cpu":"2"}}]'


def pod(name: object = "p", *, uid: object = "1", metadata: Json | None = None, **fields: Json) -> Json:
    """A pod as the API server stores it, bound to `n`; `spec` and `status` add to what it says."""
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}}
    raw: Json = {
        "metadata": {"name": name, "namespace": "team", "uid": uid, "creationTimestamp": BORN},
        "spec": {
            "nodeName": "n",
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c0", "resources": resources}],
        },
        "status": {"phase": "Pending"},
    }
    raw["metadata"] |= metadata or {}
    for part, more in fields.items():
        raw[part] |= more
    return raw


@dataclass
class Told:
    """Listens, and holds what it was told to be true."""

    said: list[tuple[str, str]] = field(default_factory=list)
    pods: dict[str, PodInfo] = field(default_factory=dict)

    def update_pod(self, pod: PodInfo) -> None:
        """As said at `PodListener`."""
        assert self.pods.get(pod.uid) != pod, "what is not new is not told"
        self.pods[pod.uid] = pod
        self.said.append(("seen", pod.uid))

    def remove_pod(self, uid: str) -> None:
        """As said at `PodListener`."""
        del self.pods[uid]
        self.said.append(("gone", uid))


class Watched:
    """Occupants, who listens to them, what they log and what they count."""

    def __init__(self, recreated: RecreatedScheduling | None = None) -> None:
        self.told = Told()
        self.log = LogTold()
        self.registry = CollectorRegistry()
        self.reader = PodReader()
        self.pod_informer = PodInformer(
            self.told, self.reader, recreated=recreated, log=self.log.log, registry=self.registry
        )

    def put(self, *pods: Json) -> None:
        """As a reflector would."""
        for each in pods:
            self.pod_informer.put(PODS.described(each))

    def drop(self, name: str) -> None:
        """Likewise."""
        self.pod_informer.drop(("team", name))

    def one(self, raw: Json) -> PodInfo:
        """What is told of a pod."""
        self.put(raw)
        [told] = self.told.pods.values()
        return told

    def unreadable(self) -> float | None:
        """As the metric says."""
        return self.registry.get_sample_value("numalign_unreadable_pods")

    def mistakes(self) -> list[str]:
        """All problems, line by line."""
        return [line for problem in self.pod_informer.problems() for line in str(problem).splitlines()]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_pod_is_told_of_with_all_that_a_ledger_needs(watched: Watched) -> None:
    annotations = {"numalign.io/policy": "restricted", PLACEMENT: RECORD}

    assert watched.one(pod("p", metadata={"annotations": annotations})) == PodInfo(
        uid="1",
        namespace="team",
        name="p",
        node="n",
        scheduler="default-scheduler",
        created=1767323045,
        started=0,
        phase=Phase.PENDING,
        acknowledged=False,
        leaving=False,
        reason="",
        message="",
        request=PodRequest(asks("cpu=2 mem=1Gi"), IntentAnnotations(Policy.RESTRICTED)),
        record=PlacementRecord({("node-0",): bag("cpu=2")}, Source.RECORDED),
    )
    assert watched.mistakes() == []


CONDITIONS = [
    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:09:05Z"},
    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:06:45Z"},
]
WAITS = [{**CONDITIONS[1], "status": "False"}]
STARTED: dict[str, object] = {"startTime": "2026-01-02T03:05:45Z"}
BORN_AT, STARTED_AT, BOUND_AT = 1767323045, 1767323145, 1767323205
TIMES: list[tuple[str, dict[str, object], int, int]] = [
    # what is written                        status                                   bound     latest
    ("it is bound, its kubelet is behind",   {"conditions": CONDITIONS, **STARTED},   BOUND_AT, BOUND_AT),
    ("nobody says when it was bound",        STARTED,                                 0,        STARTED_AT),
    ("it waits for a scheduler",             {"conditions": WAITS},                   0,        BORN_AT),
    ("not a list",                           {"conditions": 5},                       0,        BORN_AT),
]  # fmt: skip


@pytest.mark.parametrize(("status", "bound", "latest"), table(TIMES))
def test_a_pod_is_told_of_with_when_it_was_bound_by_the_clock_of_the_api_server(
    watched: Watched, status: dict[str, object], bound: int, latest: int
) -> None:
    told = watched.one(pod("p", status=status))

    assert (told.scheduled, told.latest) == (bound, latest)


def test_a_pod_that_says_next_to_nothing_is_new_and_nowhere(watched: Watched) -> None:
    containers = [{"name": "c0"}]
    told = watched.one({"metadata": {"name": "p", "uid": "1"}, "spec": {"containers": containers}})

    assert (told.namespace, told.node, told.scheduler, told.created) == ("", "", "", 0)
    assert (told.phase, told.acknowledged, told.leaving, told.record) == (Phase.PENDING, False, False, None)
    assert watched.mistakes() == []


REFUSED = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "Resources cannot be allocated"}

STATES: list[tuple[str, Json, Phase, bool, bool]] = [
    # situation: its status, its phase, and whether it is acknowledged and has ended
    ("just bound", {"phase": "Pending", "conditions": []}, Phase.PENDING, False, False),
    ("no phase yet", {"phase": None}, Phase.PENDING, False, False),
    ("an empty list", {"phase": "Pending", "containerStatuses": []}, Phase.PENDING, False, False),
    ("admitted", {"phase": "Pending", "startTime": BORN}, Phase.PENDING, True, False),
    ("pulling", {"phase": "Pending", "containerStatuses": [{"name": "c0"}]}, Phase.PENDING, True, False),
    ("running", {"phase": "Running"}, Phase.RUNNING, True, False),
    ("done", {"phase": "Succeeded"}, Phase.SUCCEEDED, True, True),
    ("refused", REFUSED, Phase.FAILED, True, True),
    ("lost", {"phase": "Unknown"}, Phase.UNKNOWN, True, False),
]  # fmt: skip


@pytest.mark.parametrize(("status", "phase", "acknowledged", "ended"), table(STATES))
def test_a_state_says_whether_a_kubelet_has_spoken_and_whether_all_is_over(
    watched: Watched, status: Json, phase: Phase, *, acknowledged: bool, ended: bool
) -> None:
    told = watched.one(pod(status=status))

    assert (told.phase, told.acknowledged, told.ended) == (phase, acknowledged, ended)


def test_a_refusal_is_told_in_the_kubelets_words(watched: Watched) -> None:
    told = watched.one(pod(status=REFUSED))

    assert (told.reason, told.message) == ("TopologyAffinityError", "Resources cannot be allocated")


def test_a_long_message_is_cut(watched: Watched) -> None:
    told = watched.one(pod(status={"message": "x" * 5000}))

    assert told.message == "x" * LONGEST_MESSAGE


def test_a_pod_that_was_deleted_leaves_until_it_is_gone(watched: Watched) -> None:
    watched.put(pod())
    assert watched.one(pod(metadata={"deletionTimestamp": BORN})).leaving
    watched.drop("p")

    assert watched.told.said == [("seen", "1"), ("seen", "1"), ("gone", "1")]
    assert len(watched.pod_informer) == 0


def test_what_says_the_same_is_not_told_again(watched: Watched) -> None:
    watched.put(pod(), pod(metadata={"resourceVersion": "7", "labels": {"a": "b"}}), pod(status={"x": {}}))
    watched.put(pod(status={"phase": "Running"}))

    assert watched.told.said == [("seen", "1"), ("seen", "1")]


def test_a_pod_made_anew_under_the_same_name_is_another_one(watched: Watched) -> None:
    watched.put(pod("p", uid="1"), pod("p", uid="2"))

    assert watched.told.said == [("seen", "1"), ("gone", "1"), ("seen", "2")]


def test_pods_of_the_same_name_in_two_namespaces_are_two(watched: Watched) -> None:
    watched.put(pod(uid="1"), pod(uid="2", metadata={"namespace": "other"}))
    watched.drop("p")

    assert [each.namespace for each in watched.pod_informer] == ["other"]


def test_after_a_whole_list_no_other_pods_are_there(watched: Watched) -> None:
    watched.put(pod("a", uid="1"), pod("b", uid="2"), pod("c", uid=None))
    watched.pod_informer.keep({("team", "b"), ("team", "never heard of")})

    assert [*watched.told.pods] == ["2"]
    assert watched.mistakes() == []


def test_who_was_never_there_does_not_go(watched: Watched) -> None:
    watched.drop("p")

    assert watched.told.said == []


def test_pods_of_one_template_share_what_they_ask_for_and_what_they_hold(watched: Watched) -> None:
    annotations = {"annotations": {PLACEMENT: RECORD}}
    watched.put(
        *(pod(str(n), uid=str(n), metadata=annotations, spec={"nodeName": f"n{n}"}) for n in range(3))
    )

    pods = watched.told.pods.values()
    assert len({id(each.request) for each in pods}) == len({id(each.record) for each in pods}) == 1


NO_UID = "is not a UID: at most 128 ASCII characters without spaces are allowed"

UNKNOWABLE: list[tuple[str, Json, list[str]]] = [
    # situation: a pod, and what is wrong with it
    ("no uid", pod(uid=None), ["Pod team/p: metadata.uid: is missing"]),
    ("an empty uid", pod(uid=""), ["Pod team/p: metadata.uid: is empty"]),
    ("a uid as long as a body", pod(uid="1" * 129), [f'Pod team/p: metadata.uid: "{"1" * 61}..." {NO_UID}']),
    ("a uid that cannot be printed", pod(uid="1 2"), [f'Pod team/p: metadata.uid: "1 2" {NO_UID}']),
    ("a uid that is a number", pod(uid=7), ["Pod team/p: metadata.uid: must be a string, not a number"]),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "mistakes"), table(UNKNOWABLE))
def test_a_pod_that_cannot_be_told_from_others_is_not_lost_silently(
    watched: Watched, raw: Json, mistakes: list[str]
) -> None:
    watched.put(raw, pod("good", uid="2"))

    assert [*watched.told.pods] == ["2"]
    assert (watched.mistakes(), watched.unreadable()) == (mistakes, 1)
    [line] = watched.log.lines()
    assert (line["event"], line["pod"]) == ("pod.unreadable", "team/p")


def test_a_pod_that_has_lost_its_uid_is_not_the_one_that_was_there(watched: Watched) -> None:
    watched.put(pod(), pod(uid=None))

    assert watched.told.said == [("seen", "1"), ("gone", "1")]


PUZZLING: list[tuple[str, Json, Mapping[str, object], list[str]]] = [
    # situation: (pod, what is told all the same, what is wrong)
    ("a phase that nobody knows", pod(status={"phase": "Sleeping"}), {"phase": Phase.UNKNOWN},
     ['status.phase: "Sleeping" is not a known value: Pending, Running, Succeeded, Failed, Unknown']),
    ("a phase that is no text", pod(status={"phase": 1}), {"phase": Phase.UNKNOWN},
     ["status.phase: must be a string, not a number"]),
    ("a time that is none", pod(metadata={"creationTimestamp": "yesterday"}), {"created": 0},
     ['metadata.creationTimestamp: "yesterday" is not a time such as 2026-01-02T03:04:05Z']),
    ("an amount that is none", pod(spec={"overhead": {"cpu": "-1"}}), {"demand": None, "node": "n"},
     ['spec.overhead.cpu: "-1" is negative: an amount is zero or more']),
    ("annotations that are none", pod(metadata={"annotations": [1]}), {"demand": None, "record": None},
     ["metadata.annotations: must be an object, not a list"]),
    ("an annotation that nobody knows", pod(metadata={"annotations": {"numalign.io/mood": "good"}}),
     {"demand": asks("cpu=2 mem=1Gi")},
     [("metadata.annotations[numalign.io/mood]: unknown key; known keys: numalign.io/policy,"
       " numalign.io/resources, numalign.io/scope, numalign.io/exclusive, numalign.io/placement,"
       " numalign.io/placement-observed, numalign.io/pinned-at, numalign.io/aligned,"
       " numalign.io/aligned-why")]),
    ("a record that is none", pod(metadata={"annotations": {PLACEMENT_OBSERVED: "[1]", PLACEMENT: RECORD}}),
     {"record": PlacementRecord({("node-0",): bag("cpu=2")}, Source.RECORDED)},
     [f"metadata.annotations[{PLACEMENT_OBSERVED}][0]: must be an object, not a number"]),
    ("a record that is no text", pod(metadata={"annotations": {PLACEMENT: 1}}), {"record": None},
     [f"metadata.annotations[{PLACEMENT}]: must be a string, not a number"]),
    ("a node that is none", pod(spec={"nodeName": 1}), {"node": ""},
     ["spec.nodeName: must be a string, not a number"]),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "told", "mistakes"), table(PUZZLING))
def test_of_a_pod_that_makes_no_sense_what_can_be_read_is_told(
    watched: Watched, raw: Json, told: Mapping[str, object], mistakes: list[str]
) -> None:
    occupant = watched.one(raw)

    assert {name: getattr(occupant, name) for name in told} == told
    assert watched.mistakes() == [f"Pod team/p: {each}" for each in mistakes]
    watched.put(pod())
    assert (watched.mistakes(), watched.unreadable()) == ([], 0)


def test_the_pods_of_a_template_that_makes_no_sense_are_logged_once(watched: Watched) -> None:
    watched.put(*(pod(f"p{number}", uid=str(number), status={"phase": "?"}) for number in range(5)))
    watched.put(pod("p0", uid="0", status={"phase": "?"}))

    assert (len(watched.log.lines()), watched.unreadable()) == (1, 5)


def test_whoever_makes_ever_new_mistakes_fills_no_log(watched: Watched) -> None:
    many = range(MANY_LINES + 5)
    watched.put(*(pod(f"p{at}", uid=str(at), status={"phase": str(at)}) for at in many))

    assert (len(watched.log.lines()), watched.unreadable()) == (MANY_LINES, MANY_LINES + 5)


def test_of_many_mistakes_of_a_pod_the_first_are_kept_and_logged(watched: Watched) -> None:
    many = [{"name": f"c{number}", "resources": number} for number in range(1, 90)]
    watched.put(pod(spec={"containers": many, "initContainers": many}))

    [line] = watched.log.lines()
    assert len(watched.mistakes()) == len(line["errors"]) == MOST_MISTAKES + 1
    assert watched.mistakes()[-1] == f"Pod team/p: {AND_MORE}"


def hostile(number: int) -> Json:
    """A pod with a long record, a long word and long mistakes of its own."""
    amount = {f"example.com/{number}-{at}-{'x' * 60}": "1" for at in range(250)}
    record = [{"zones": [f"z{at}"], "amount": amount} for at in range(10)]
    annotations = {PLACEMENT_OBSERVED: "[" * 1000 + str(number), PLACEMENT: orjson.dumps(record).decode()}
    spec = {"schedulerName": str(number) * 10_000, "containers": [{"name": f"{number}", "resources": 1}]}
    status = {"phase": str(number) * 1000, "reason": "r" * 10_000}
    return pod(f"p{number}", uid=f"{number}", metadata={"annotations": annotations}, spec=spec, status=status)


@pytest.mark.full
def test_what_is_remembered_of_pods_that_are_gone_is_bounded(watched: Watched) -> None:
    for number in range(60):
        watched.put(hostile(number))
        watched.drop(f"p{number}")

    caches = {**watched.pod_informer.caches(), **watched.reader.caches()}
    assert all(cache.bytes <= MOST_BYTES for cache in caches.values())
    assert (watched.mistakes(), watched.unreadable(), len(watched.pod_informer)) == ([], 0, 0)


LARGE: list[tuple[str, Json]] = [
    # what there is much of          what the pod says
    ("resources of each container",  {"spec": {"containers": [
        {"name": f"c{at}", "resources": {"requests": {f"x.io/{at}-{number}": "1" for number in range(120)}}}
        for at in range(16)
    ]}}),
    ("containers, no two alike",     {"spec": {"containers": [
        {"name": f"c{at}", "resources": {"limits": {"cpu": f"{at + 1}", "memory": f"{at}Gi", "x/a": f"{at}"}}}
        for at in range(60)
    ]}}),
    ("names in an annotation",       {"metadata": {"annotations": {
        "numalign.io/resources": ",".join(f"{'x' * 250}{at}.io/{'y' * 50}" for at in range(60))
    }}}),
    ("a placement",                  {"metadata": {"annotations": {PLACEMENT: orjson.dumps(
        [{"zones": [f"z{at}-{'z' * 900}"], "amount": {"cpu": "1"}} for at in range(200)]
    ).decode()}}}),
    ("gates",                        {"spec": {"schedulingGates": [
        {"name": f"{at}{'g' * 240}"} for at in range(60)
    ]}}),
    ("affinity",                     {"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": f"k{at}", "operator": "In", "values": [f"{at}{v}" for v in "ab"]}]}
            for at in range(500)
        ]}
    }}}}),
    ("tolerations",                  {"spec": {"tolerations": [
        {"key": f"k{at}", "operator": "Exists"} for at in range(500)
    ]}}),
    ("texts",                        {"status": {"reason": "r" * 10_000, "message": "m" * 100_000}}),
    ("mistakes",                     {"spec": {"containers": [
        {"name": f"{'n' * 2000}{at}", "resources": {"limits": {"cpu": "x" * 2000}}} for at in range(60)
    ]}}),
    ("other labels and annotations", {"metadata": {
        "annotations": {f"a{at}": "x" * 900 for at in range(200)}, "labels": {f"l{at}": "" for at in range(9)}
    }}),
]  # fmt: skip

MOST_KEPT = 50_000
"""Bytes of one pod, whatever it says."""


@pytest.mark.parametrize("said", table(LARGE))
def test_what_is_kept_of_a_pod_is_limited(said: dict[str, Json]) -> None:
    watched = Watched(RecreatedScheduling())
    kept = watched.one(pod(**said))

    assert weight(kept, *watched.pod_informer.problems()) < MOST_KEPT


def test_a_pod_that_requests_too_much_to_be_kept_counts_as_unreadable(
    watched: Watched,
) -> None:
    said = {"spec": LARGE[0][1]["spec"], "metadata": {"annotations": {"numalign.io/policy": "restricted"}}}
    kept = watched.one(pod(**said))

    assert (kept.demand, kept.request.written) == (None, IntentAnnotations(Policy.RESTRICTED))
    [mistake] = watched.mistakes()
    assert mistake.startswith(
        "Pod team/p: spec: requests so much that keeping it would take more than 32 KiB"
    )


def test_of_a_hundred_usual_containers_nothing_is_left_out(watched: Watched) -> None:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1", "rdma/hca": "1"}
    containers = [{"name": f"container-{at}", "resources": {"limits": limits}} for at in range(100)]
    kept = watched.one(pod(spec={"containers": containers}))

    assert kept.demand
    assert len(kept.demand.steps) == 100


def test_a_placement_too_large_to_be_kept_is_ignored(watched: Watched) -> None:
    kept = watched.one(pod(metadata=LARGE[3][1]["metadata"]))

    assert (kept.record, bool(kept.demand)) == (None, True)
    assert watched.mistakes() == [
        "Pod team/p: metadata.annotations: a placement of more than 32 KiB is ignored"
    ]


def test_the_own_gate_is_found_among_many(watched: Watched) -> None:
    gates = [*({"name": f"gate-{at}"} for at in range(20)), {"name": PLACEMENT_GATE}]
    kept = watched.one(pod(spec={"schedulingGates": gates}))

    assert kept.gates == (PLACEMENT_GATE, *(f"gate-{at}" for at in range(KEPT_GATES - 1)))


def test_a_record_that_was_read_is_not_read_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(side_effect=placement_records.read)
    monkeypatch.setattr(placement_records, "read", read)
    for phase in ("Pending", "Running", "Failed"):
        watched.put({**hostile(1), "status": {"phase": phase}})

    assert read.call_count == 2


def test_words_that_are_kept_are_cut(watched: Watched) -> None:
    occupant = watched.one(hostile(1))

    assert (len(occupant.scheduler), len(occupant.reason)) == (253, 253)


def test_a_uid_that_two_pods_have_is_the_last_ones(watched: Watched) -> None:
    watched.put(pod("a", uid="1"), pod("b", uid="1"))

    assert watched.told.said == [("seen", "1"), ("gone", "1"), ("seen", "1")]
    assert watched.mistakes() == ["Pod team/a: metadata.uid: is also the UID of pod team/b, which is used"]
    watched.drop("a")
    assert [each.name for each in watched.told.pods.values()] == ["b"]


names, uids = st.sampled_from("abc"), st.sampled_from(["1", "2", "3", "4", None])
phases = st.sampled_from(["Pending", "Running", "Failed", 7])
steps = st.one_of(
    st.tuples(st.just("put"), names, uids, phases),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("keep"), st.sets(names)),
)


@given(st.lists(steps))
def test_who_listens_knows_what_is_there(story: list[tuple[Any, ...]]) -> None:
    """Whatever happens, in whatever order, the last word about each pod counts, and is said once."""
    watched = Watched()
    there: dict[Key, tuple[str | None, object]] = {}
    for step in story:
        match step:
            case ("put", name, uid, phase):
                watched.put(pod(name, uid=uid, status={"phase": phase}))
                there = {key: each for key, each in there.items() if uid is None or each[0] != uid}
                there["team", name] = uid, phase
            case ("drop", name):
                watched.drop(name)
                there.pop(("team", name), None)
            case ("keep", kept):
                watched.pod_informer.keep({("team", name) for name in kept})
                there = {key: each for key, each in there.items() if key[1] in kept}

    expected = {
        uid: (name, Phase.UNKNOWN if phase == 7 else phase)
        for (_, name), (uid, phase) in there.items()
        if uid is not None
    }
    assert {uid: (each.name, each.phase) for uid, each in watched.told.pods.items()} == expected
    assert {each.uid: each for each in watched.pod_informer} == watched.told.pods
    assert len(watched.pod_informer) == len(expected)


SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "Pending", BORN, "[]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["uid", "annotations", "creationTimestamp", "phase", "reason", PLACEMENT]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["spec", "status"]), SCRAPS), st.dictionaries(st.text(), SCRAPS))
def test_no_pod_stops_the_rest(fields: Json, annotations: Json) -> None:
    watched = Watched()
    watched.put({"metadata": {"name": "p", "uid": "1", "annotations": annotations}, **fields})
    watched.put(pod("good", uid="2"))

    assert [*watched.told.pods] == ["1", "2"]


SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u1"}


def test_a_pod_is_told_of_with_who_made_it_how_urgent_it_is_and_what_it_waits_for(watched: Watched) -> None:
    owners = [{**SET, "uid": "u0"}, {**SET, "controller": True}, {**SET, "uid": "u2", "controller": True}]
    waiting = watched.one(
        pod(
            metadata={"ownerReferences": owners},
            spec={"nodeName": "", "priority": -5, "schedulingGates": [{"name": "a"}, {"name": "b"}]},
        )
    )

    assert (waiting.gates, waiting.priority, waiting.owner) == (
        ("a", "b"),
        -5,
        Owner("apps", "ReplicaSet", "web-1", "u1"),
    )


def named(*nodes: str) -> Json:
    """A term of node affinity that asks for nodes by name."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [*nodes]}]}


def pinned(*terms: Json, at: str | None = BORN, node: str = "") -> Json:
    """A pod with these required terms, which the controller wrote at this time."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return pod(
        metadata={"annotations": {"numalign.io/pinned-at": at} if at else {}},
        spec={"nodeName": node, "affinity": {"nodeAffinity": required}},
    )


LABELLED = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
PINNED = [
    # what it shows              pod                                 node since
    ("one node",                 pinned(named("a")),                 "a", 1767323045),
    ("the same in every term",   pinned(named("a"), named("a")),     "a", 1767323045),
    ("beside a term of no node", pinned(named("a"), {}),             "a", 1767323045),
    ("one of two nodes",         pinned(named("a"), named("b")),     "",  0),
    ("any node in one term",     pinned(named("a"), LABELLED),       "",  0),
    ("nobody wrote when",        pinned(named("a"), at=None),        "",  0),
    ("at no time",               pinned(named("a"), at="today"),     "",  0),
    ("bound",                    pinned(named("a"), node="a"),       "",  0),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "node", "since"), table(PINNED))
def test_a_pod_is_pinned_to(watched: Watched, raw: Json, node: str, since: int) -> None:
    info = watched.one(raw)

    assert (info.pinned, info.pinned_at) == (node, since)
