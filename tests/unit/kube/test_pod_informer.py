"""Pods as an API server or a file has them, and as their listeners receive them."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.decode import placements
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.kinds import PODS, Key
from numalign.kube.pod_informer import KEPT_GATES, MOST_MISTAKES, Owner, Phase, PodInfo, PodInformer
from numalign.ledger.model import PlacementRecord, Source
from numalign.model.errors import AND_MORE
from numalign.model.intent import PLACEMENT, PLACEMENT_GATE, PLACEMENT_OBSERVED, IntentAnnotations, Policy
from tests.worlds.log import RecordedLog
from tests.worlds.memory import weight
from tests.worlds.notation import asks, bag, table
from tests.worlds.objects import Json
from tests.worlds.scraps import documents
from tests.worlds.sinks import RecordedPods

BORN = "2026-01-02T03:04:05Z"
PLACED = {"nodeName": "n", "schedulerName": "default-scheduler"}
RECORD = '[{"zones":["node-0"],"amount":{"cpu":"2"}}]'


def pod(name: object = "p", *, uid: object = "1", **fields: Json) -> Json:
    """A pod as the API server stores it, bound to `n`; `metadata`, `spec` and `status` add to it."""
    containers = [{"name": "c0", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]
    raw: Json = {"metadata": {"name": name, "namespace": "team", "uid": uid, "creationTimestamp": BORN},
        "spec": {**PLACED, "containers": containers}, "status": {"phase": "Pending"}}  # fmt: skip
    return {part: value | fields.get(part, {}) for part, value in raw.items()}


class Informed:
    """A pod informer with its listener, its log and its metrics."""

    def __init__(self, recreated: RecreatedScheduling | None = None) -> None:
        self.listener, self.log, self.registry = RecordedPods(), RecordedLog(), CollectorRegistry()
        self.reader = PodReader()
        self.pod_informer = PodInformer(self.listener, self.reader, recreated=recreated, log=self.log.log,
            registry=self.registry)  # fmt: skip

    def put(self, *pods: Json) -> None:
        for each in pods:
            self.pod_informer.put(PODS.described(each))

    def one(self, raw: Json) -> PodInfo:
        self.put(raw)
        [info] = self.listener.pods.values()
        return info

    def unreadable(self) -> float | None:
        return self.registry.get_sample_value("numalign_unreadable_pods")

    def mistakes(self) -> list[str]:
        return [line for problem in self.pod_informer.problems() for line in str(problem).splitlines()]


@pytest.fixture
def informed() -> Informed:
    return Informed()


def test_all_fields_of_a_pod(informed: Informed) -> None:
    annotations = {"numalign.io/policy": "restricted", PLACEMENT: RECORD}
    assert informed.one(pod("p", metadata={"annotations": annotations})) == PodInfo("1", "team", "p", "n",
        scheduler="default-scheduler", created=BORN_AT, started=0, phase=Phase.PENDING, acknowledged=False,
        leaving=False, reason="", message="",
        request=PodRequest(asks("cpu=2 mem=1Gi"), IntentAnnotations(Policy.RESTRICTED)),
        record=PlacementRecord({("node-0",): bag("cpu=2")}, Source.RECORDED))  # fmt: skip
    assert informed.mistakes() == []


CONDITIONS = [
    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:09:05Z"},
    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:06:45Z"},
]
WAITS = [{**CONDITIONS[1], "status": "False"}]
STARTED: dict[str, object] = {"startTime": "2026-01-02T03:05:45Z"}
BORN_AT, STARTED_AT, BOUND_AT = 1767323045, 1767323145, 1767323205


@pytest.mark.parametrize(("status", "bound", "latest"), table([
    # what is written                        status                                   bound     latest
    ("it is bound, its kubelet is behind",   {"conditions": CONDITIONS, **STARTED},   BOUND_AT, BOUND_AT),
    ("an unknown time of binding",        STARTED,                                 0,        STARTED_AT),
    ("not a list",                           {"conditions": 5},                       0,        BORN_AT),
]))  # fmt: skip
def test_the_times_of_a_pod(informed: Informed, status: dict[str, object], bound: int, latest: int) -> None:
    info = informed.one(pod("p", status=status))
    assert (info.scheduled, info.latest) == (bound, latest)


REFUSED = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "Resources cannot be allocated"}


@pytest.mark.parametrize(("status", "phase", "acknowledged", "ended"), table([
    # situation: its status, its phase, and whether it is acknowledged and has ended
    ("just bound", {"phase": "Pending", "conditions": []}, Phase.PENDING, False, False),
    ("admitted", {"phase": "Pending", "startTime": BORN}, Phase.PENDING, True, False),
    ("pulling", {"phase": "Pending", "containerStatuses": [{"name": "c0"}]}, Phase.PENDING, True, False),
    ("running", {"phase": "Running"}, Phase.RUNNING, True, False),
    ("done", {"phase": "Succeeded"}, Phase.SUCCEEDED, True, True),
    ("refused", REFUSED, Phase.FAILED, True, True),
    ("lost", {"phase": "Unknown"}, Phase.UNKNOWN, True, False),
]))  # fmt: skip
def test_the_phase_of_a_pod(
    informed: Informed, status: Json, phase: Phase, *, acknowledged: bool, ended: bool
) -> None:
    info = informed.one(pod(status=status))
    assert (info.reason, info.message) == (status.get("reason", ""), status.get("message", ""))
    assert (info.phase, info.acknowledged, info.ended) == (phase, acknowledged, ended)


def test_an_unchanged_pod_is_no_update(informed: Informed) -> None:
    informed.put(pod(), pod(metadata={"resourceVersion": "7", "labels": {"a": "b"}}), pod(status={"x": {}}))
    informed.put(pod(status={"phase": "Running"}))
    assert informed.listener.calls == [("update", "1"), ("update", "1")]


def test_pods_of_a_template_share_request_and_record(informed: Informed) -> None:
    annotations = {"annotations": {PLACEMENT: RECORD}}
    informed.put(
        *(pod(str(n), uid=str(n), metadata=annotations, spec={"nodeName": f"n{n}"}) for n in range(3))
    )
    pods = informed.listener.pods.values()
    assert len({id(each.request) for each in pods}) == len({id(each.record) for each in pods}) == 1


NO_UID = "is not a UID: at most 128 ASCII characters without spaces are allowed"


@pytest.mark.parametrize(("raw", "mistakes"), table([
    # situation: a pod, and what is wrong with it
    ("no uid", pod(uid=None), ["Pod team/p: metadata.uid: is missing"]),
    ("a uid as long as a body", pod(uid="1" * 129), [f'Pod team/p: metadata.uid: "{"1" * 61}..." {NO_UID}']),
    ("a uid that cannot be printed", pod(uid="1 2"), [f'Pod team/p: metadata.uid: "1 2" {NO_UID}']),
]))  # fmt: skip
def test_a_pod_without_a_valid_uid_is_logged(informed: Informed, raw: Json, mistakes: list[str]) -> None:
    informed.put(raw, pod("good", uid="2"))
    assert [*informed.listener.pods] == ["2"]
    assert (informed.mistakes(), informed.unreadable()) == (mistakes, 1)
    [line] = informed.log.lines()
    assert (line["event"], line["pod"]) == ("pod.unreadable", "team/p")


@pytest.mark.parametrize(("raw", "expected", "mistakes"), table([
    # situation: (pod, the fields, the mistakes)
    ("an unknown phase", pod(status={"phase": "Sleeping"}), {"phase": Phase.UNKNOWN},
     ['status.phase: "Sleeping" is not a known value: Pending, Running, Succeeded, Failed, Unknown']),
    ("a time that is none", pod(metadata={"creationTimestamp": "yesterday"}), {"created": 0},
     ['metadata.creationTimestamp: "yesterday" is not a time such as 2026-01-02T03:04:05Z']),
    ("an amount that is none", pod(spec={"overhead": {"cpu": "-1"}}), {"demand": None, "node": "n"},
     ['spec.overhead.cpu: "-1" is negative: an amount is zero or more']),
    ("a record that is none", pod(metadata={"annotations": {PLACEMENT_OBSERVED: "[1]", PLACEMENT: RECORD}}),
     {"record": PlacementRecord({("node-0",): bag("cpu=2")}, Source.RECORDED)},
     [f"metadata.annotations[{PLACEMENT_OBSERVED}][0]: must be an object, not a number"]),
]))  # fmt: skip
def test_a_wrong_field_leaves_the_others(
    informed: Informed, raw: Json, expected: Mapping[str, object], mistakes: list[str]
) -> None:
    info = informed.one(raw)
    assert {name: getattr(info, name) for name in expected} == expected
    assert informed.mistakes() == [f"Pod team/p: {each}" for each in mistakes]
    informed.put(pod())
    assert (informed.mistakes(), informed.unreadable()) == ([], 0)


def test_equal_mistakes_are_logged_once(informed: Informed) -> None:
    informed.put(*(pod(f"p{number}", uid=str(number), status={"phase": "?"}) for number in range(5)))
    informed.put(pod("p0", uid="0", status={"phase": "?"}))
    assert (len(informed.log.lines()), informed.unreadable()) == (1, 5)


def test_mistakes_of_a_pod_are_limited(informed: Informed) -> None:
    many = [{"name": f"c{number}", "resources": number} for number in range(1, 90)]
    informed.put(pod(spec={"containers": many, "initContainers": many}))
    [line] = informed.log.lines()
    assert len(informed.mistakes()) == len(line["errors"]) == MOST_MISTAKES + 1
    assert informed.mistakes()[-1] == f"Pod team/p: {AND_MORE}"


def hostile(number: int) -> Json:
    """A pod with a long record, a long word and long mistakes of its own."""
    amount = {f"example.com/{number}-{at}-{'x' * 60}": "1" for at in range(250)}
    record = [{"zones": [f"z{at}"], "amount": amount} for at in range(10)]
    annotations = {PLACEMENT_OBSERVED: "[" * 1000 + str(number), PLACEMENT: orjson.dumps(record).decode()}
    return pod(f"p{number}", uid=f"{number}", metadata={"annotations": annotations},
        spec={"schedulerName": str(number) * 10_000, "containers": [{"name": f"{number}", "resources": 1}]},
        status={"phase": str(number) * 1000, "reason": "r" * 10_000})  # fmt: skip


@pytest.mark.full
def test_caches_keep_little_of_hostile_pods(informed: Informed) -> None:
    for number in range(60):
        informed.put(hostile(number))
        informed.pod_informer.drop(("team", f"p{number}"))
    caches = {**informed.pod_informer.caches(), **informed.reader.caches()}
    assert weight(*caches.values()) < 2**20
    assert (informed.mistakes(), informed.unreadable(), len(informed.pod_informer)) == ([], 0, 0)


def named(*nodes: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [*nodes]}]}


def pinned(*terms: Json, at: str | None = BORN, node: str = "") -> Json:
    """A pod with these required terms, which the controller wrote at this time."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return pod(
        metadata={"annotations": {"numalign.io/pinned-at": at} if at else {}},
        spec={"nodeName": node, "affinity": {"nodeAffinity": required}},
    )


MANY_REQUESTS: dict[str, Json] = {"spec": {"containers": [{"name": f"c{at}", "resources": {"requests":
    {f"x.io/{at}-{number}": "1" for number in range(120)}}} for at in range(16)]}}  # fmt: skip
LARGE_RECORD: dict[str, Json] = {"metadata": {"annotations": {PLACEMENT: orjson.dumps(
    [{"zones": [f"z{at}-{'z' * 900}"], "amount": {"cpu": "1"}} for at in range(200)]).decode()}}}  # fmt: skip


@pytest.mark.parametrize("fields", table([
    # what there is much of          the pod
    ("resources of each container",  MANY_REQUESTS),
    ("containers, no two alike",     {"spec": {"containers": [
        {"name": f"c{at}", "resources": {"limits": {"cpu": f"{at + 1}", "memory": f"{at}Gi", "x/a": f"{at}"}}}
        for at in range(60)]}}),
    ("a placement",                  LARGE_RECORD),
    ("gates",                        {"spec": {"schedulingGates": [
        {"name": f"{at}{'g' * 240}"} for at in range(60)]}}),
    ("affinity",                     {"spec": pinned(*({"matchExpressions": [
        {"key": f"k{at}", "operator": "In", "values": [f"{at}", "b"]}]} for at in range(500)))["spec"]}),
    ("tolerations",                  {"spec": {"tolerations": [
        {"key": f"k{at}", "operator": "Exists"} for at in range(500)]}}),
    ("other labels and annotations", {"metadata": {"labels": {f"l{at}": "" for at in range(9)},
        "annotations": {f"a{at}": "x" * 900 for at in range(200)}}}),
]))  # fmt: skip
def test_the_memory_of_a_pod_is_limited(fields: dict[str, Json]) -> None:
    informed = Informed(RecreatedScheduling())
    info = informed.one(pod(**fields))
    assert weight(info, *informed.pod_informer.problems()) < 100_000


def test_too_large_requests_are_unreadable(informed: Informed) -> None:
    fields = {**MANY_REQUESTS, "metadata": {"annotations": {"numalign.io/policy": "restricted"}}}
    info = informed.one(pod(**fields))
    assert (info.demand, info.request.written) == (None, IntentAnnotations(Policy.RESTRICTED))
    [mistake] = informed.mistakes()
    assert mistake.startswith(
        "Pod team/p: spec: requests so much that keeping it would take more than 20,000 characters"
    )


def test_sixty_usual_containers_are_readable(informed: Informed) -> None:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1", "rdma/hca": "1"}
    containers = [{"name": f"container-{at}", "resources": {"limits": limits}} for at in range(60)]
    info = informed.one(pod(spec={"containers": containers}))
    assert info.demand
    assert len(info.demand.steps) == 60


def test_a_too_large_placement_is_ignored(informed: Informed) -> None:
    info = informed.one(pod(**LARGE_RECORD))
    assert (info.record, bool(info.demand)) == (None, True)
    assert informed.mistakes() == [
        "Pod team/p: metadata.annotations: a placement of more than 20,000 characters is ignored"
    ]


def test_the_placement_gate_comes_first(informed: Informed) -> None:
    gates = [*({"name": f"gate-{at}"} for at in range(20)), {"name": PLACEMENT_GATE}]
    info = informed.one(pod(spec={"schedulingGates": gates}))
    assert info.gates == (PLACEMENT_GATE, *(f"gate-{at}" for at in range(KEPT_GATES - 1)))


def test_a_record_is_read_once(informed: Informed, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(side_effect=placements.read)
    monkeypatch.setattr(placements, "read", read)
    for phase in ("Pending", "Running", "Failed"):
        informed.put({**hostile(1), "status": {"phase": phase}})
    assert read.call_count == 2


def test_a_uid_of_two_pods_is_the_last_ones(informed: Informed) -> None:
    informed.put(pod("a", uid="1"), pod("b", uid="1"))
    assert informed.listener.calls == [("update", "1"), ("remove", "1"), ("update", "1")]
    assert informed.mistakes() == ["Pod team/a: metadata.uid: is also the UID of pod team/b, which is used"]
    informed.pod_informer.drop(("team", "a"))
    assert [each.name for each in informed.listener.pods.values()] == ["b"]


names, uids = st.sampled_from("abc"), st.sampled_from(["1", "2", "3", "4", None])
phases = st.sampled_from(["Pending", "Running", "Failed", 7])
steps = st.one_of(
    st.tuples(st.just("put"), names, uids, phases),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("keep"), st.sets(names)),
)


@given(st.lists(steps))
def test_the_listener_has_the_pods_of_the_source(story: list[tuple[Any, ...]]) -> None:
    """The last state of each pod counts, in any order of changes."""
    informed = Informed()
    expected_pods: dict[Key, tuple[str | None, object]] = {}
    for step in story:
        match step:
            case ("put", name, uid, phase):
                informed.put(pod(name, uid=uid, status={"phase": phase}))
                expected_pods = {
                    key: each for key, each in expected_pods.items() if uid is None or each[0] != uid
                }
                expected_pods["team", name] = uid, phase
            case ("drop", name):
                informed.pod_informer.drop(("team", name))
                expected_pods.pop(("team", name), None)
            case ("keep", info):
                informed.pod_informer.keep({("team", name) for name in info})
                expected_pods = {key: each for key, each in expected_pods.items() if key[1] in info}
    expected = {
        uid: (name, Phase.UNKNOWN if phase == 7 else phase)
        for (_, name), (uid, phase) in expected_pods.items()
        if uid is not None
    }
    assert {uid: (each.name, each.phase) for uid, each in informed.listener.pods.items()} == expected
    assert {each.uid: each for each in informed.pod_informer} == informed.listener.pods
    assert len(informed.pod_informer) == len(expected)


FIELDS = {**pod(status={"conditions": CONDITIONS}), "metadata": {PLACEMENT: RECORD}}


@given(documents(FIELDS).filter(lambda fields: isinstance(fields, dict)))
def test_any_pod_leaves_the_others(fields: Json) -> None:
    informed = Informed()
    metadata = {"name": "p", "uid": "1", "annotations": fields.get("metadata")}
    informed.put({**fields, "metadata": metadata}, pod("good", uid="2"))
    assert [*informed.listener.pods] == ["1", "2"]


SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u1"}


def test_owner_priority_and_gates_of_a_pod(informed: Informed) -> None:
    owners = [{**SET, "uid": "u0"}, {**SET, "controller": True}, {**SET, "uid": "u2", "controller": True}]
    spec = {"nodeName": "", "priority": -5, "schedulingGates": [{"name": "a"}, {"name": "b"}]}
    waiting = informed.one(pod(metadata={"ownerReferences": owners}, spec=spec))
    assert (waiting.gates, waiting.priority) == (("a", "b"), -5)
    assert waiting.owner == Owner("apps", "ReplicaSet", "web-1", "u1")


LABELLED = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}


@pytest.mark.parametrize(("raw", "node", "since"), table([
    # what it shows              pod                                 node since
    ("one node",                 pinned(named("a")),                 "a", 1767323045),
    ("the same in every term",   pinned(named("a"), named("a")),     "a", 1767323045),
    ("beside a term of no node", pinned(named("a"), {}),             "a", 1767323045),
    ("one of two nodes",         pinned(named("a"), named("b")),     "",  0),
    ("any node in one term",     pinned(named("a"), LABELLED),       "",  0),
    ("without a time",        pinned(named("a"), at=None),        "",  0),
    ("at no time",               pinned(named("a"), at="today"),     "",  0),
    ("bound",                    pinned(named("a"), node="a"),       "",  0),
]))  # fmt: skip
def test_the_pin_of_a_pod(informed: Informed, raw: Json, node: str, since: int) -> None:
    info = informed.one(raw)
    assert (info.pinned, info.pinned_at) == (node, since)
