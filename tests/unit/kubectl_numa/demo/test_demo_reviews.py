"""The demo reviews pods as an API server does: mutated, patched, validated; and counts the outcomes."""

import asyncio
import base64
import json
from typing import Any

import pytest

from kubectl_numa.demo import reviews
from kubectl_numa.demo.reviews import (
    BadAnswer,
    BadPatch,
    OutcomeCounts,
    PodOutcome,
    Post,
    admit,
    admit_all,
    apply,
    cause,
)
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table

Raw = dict[str, Any]
POD = manifest("a", "1", namespace="default")
PATCH = [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": {}}}]
CAUSES = {"causes": [{"field": "spec", "message": "wrong"}]}
DENIAL: Raw = {"allowed": False, "status": {"message": "numalign: no", "details": CAUSES}}


def fake(
    patch: list[Raw] | None = None,
    validation: Raw | None = None,
    requests: list[tuple[str, Any]] | None = None,
) -> Post:
    """The responses of a webhook."""

    async def post(path: str, body: bytes) -> tuple[int, bytes]:
        request = json.loads(body)["request"]
        if requests is not None:
            requests.append((path, request))
        response = dict((validation or {}) if path == "/validate" else {})
        if path == "/mutate" and patch is not None:
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        return 200, json.dumps({"response": {"uid": request["uid"], "allowed": True, **response}}).encode()

    return post


def test_review_has_the_fields_of_an_api_server() -> None:
    request = reviews.review(POD, uid="u-1")["request"]
    assert (request["uid"], request["name"], request["namespace"]) == ("u-1", "a", "default")
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == request["requestResource"]
    created = ("CREATE", False, None, POD)
    assert (request["operation"], request["dryRun"], request["oldObject"], request["object"]) == created
    assert request["userInfo"]["username"]


def test_defaults_are_added_to_a_copy() -> None:
    given = manifest("a", "4")
    pod = reviews.defaulted(given)
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "4", "memory": "4Gi"}
    assert (pod["spec"]["restartPolicy"], pod["spec"]["schedulerName"]) == ("Always", "default-scheduler")
    tolerated = [each["key"] for each in pod["spec"]["tolerations"]]
    assert tolerated == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert given == manifest("a", "4")
    given["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    container = reviews.defaulted(given)["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}


SPEC: Raw = {"list": [1, 2], "a/b~c": {"x": 1}}
APPLIED: list[tuple[str, str, object, Raw]] = [
    ("add", "/spec/new", {}, {"new": {}}),
    ("add", "/spec/list/0", 0, {"list": [0, 1, 2]}),
    ("add", "/spec/list/-", 3, {"list": [1, 2, 3]}),
    ("replace", "/spec/list/1", 9, {"list": [1, 9]}),
    ("replace", "/spec/a~1b~0c/x", 2, {"a/b~c": {"x": 2}}),
]


@pytest.mark.parametrize(("op", "path", "value", "changed"), APPLIED)
def test_operation_is_applied_to_a_copy(op: str, path: str, value: object, changed: Raw) -> None:
    pod = {"spec": {"list": [1, 2], "a/b~c": {"x": 1}}}
    assert apply(pod, [{"op": op, "path": path, "value": value}]) == {"spec": {**SPEC, **changed}}
    assert pod == {"spec": SPEC}


WRONG: list[Raw] = [
    {"op": "add", "path": "/metadata/labels", "value": {}},
    {"op": "replace", "path": "/spec/none", "value": 1},
    {"op": "add", "path": "/spec/list/3", "value": 1},
    {"op": "replace", "path": "/spec/list/-", "value": 1},
    {"op": "add", "path": "/spec/list/01", "value": 1},
    {"op": "remove", "path": "/spec/list"},
    {"op": "replace", "path": "", "value": {}},
    {"op": "add", "path": "/spec/x"},
]


@pytest.mark.parametrize("operation", WRONG, ids=str)
def test_operation_that_does_not_fit_is_an_error(operation: Raw) -> None:
    with pytest.raises(BadPatch):
        apply({"spec": SPEC}, [operation])


async def test_validated_pod_is_the_mutated_one() -> None:
    requests: list[tuple[str, Any]] = []
    answer = await admit(fake(PATCH, requests=requests), POD, uid="u")
    calls = [(path, request["uid"]) for path, request in requests]
    assert calls == [("/mutate", "u-m"), ("/validate", "u-v")]
    assert "affinity" not in requests[0][1]["object"]["spec"]
    assert answer.stored is not None
    assert requests[1][1]["object"] == answer.stored
    assert answer.stored["spec"]["affinity"] == {"nodeAffinity": {}}


async def test_denial_has_message_and_causes() -> None:
    answer = await admit(fake(validation=DENIAL), POD, uid="u")
    assert (answer.stored, answer.message, answer.causes) == (None, "numalign: no", ("spec: wrong",))


def responding(status: int, body: object) -> Post:
    async def post(_path: str, _body: bytes) -> tuple[int, bytes]:
        await asyncio.sleep(0)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()

    return post


NOWHERE = [{"op": "replace", "path": "/spec/affinity", "value": {}}]
INVALID = [
    ("error", responding(500, {"error": "internal"}), '/mutate answered 500: {"error"'),
    ("no JSON", responding(200, b"<html>"), "/mutate gave no answer to review u-m: <html>"),
    ("no object", responding(200, [1]), "gave no answer"),
    ("other uid", responding(200, {"response": {"uid": "x", "allowed": True}}), "gave no answer"),
    ("no decision", responding(200, {"response": {"uid": "u-m", "allowed": "yes"}}), "gave no answer"),
    ("no such field", fake(NOWHERE), "replace /spec/affinity does not fit the object"),
]


@pytest.mark.parametrize(("post", "message"), table(INVALID))
async def test_invalid_response_is_an_error(post: Post, message: str) -> None:
    with pytest.raises(BadAnswer) as raised:
        await admit(post, POD, uid="u")
    assert message in raised.value.message
    with pytest.raises(BadAnswer):
        await admit_all(post, [POD] * 10, at_once=4, done=lambda _: None)


async def test_all_pods_are_reviewed_with_limited_concurrency() -> None:
    requests: list[tuple[str, Any]] = []
    inner, running, most = fake(requests=requests), 0, 0

    async def post(path: str, body: bytes) -> tuple[int, bytes]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await inner(path, body)

    answers: list[PodOutcome] = []
    await admit_all(post, [POD] * 10, at_once=3, done=answers.append)
    assert (len(answers), most) == (10, 3)
    assert len({request["uid"] for _, request in requests}) == 20


def test_outcomes_are_counted_in_words() -> None:
    tally, other = OutcomeCounts(), OutcomeCounts()
    tally.add(PodOutcome(POD, None, message="numalign: no"))
    tally.add(PodOutcome(POD, POD, operations=({"op": "add"},)))
    other.add(PodOutcome(POD, POD, operations=({"op": "add"},), warnings=("numalign: later",)))
    other.add(PodOutcome(POD, POD))
    both = tally.plus(other)
    assert str(both) == "4 reviewed, 3 admitted (2 patched, 1 warned), 1 denied"
    assert both.words["untouched"] == 1
    assert (dict(both.causes), dict(both.warnings)) == ({"no": 1}, {"later": 1})


TOGETHER = "have at most N memory and at most N nvidia.com/gpu in one NUMA zone"
ENFORCED = 'namespace "prod" enforces restricted'
MISTAKE = 'metadata.annotations[numalign.io/policy]: "x" is not a known value'
LARGE = (
    'no node can align container "main" as single-numa-node (0 of 560 nodes): 183 have at most 191Gi'
    " memory and at most 4 nvidia.com/gpu in one NUMA zone, 377 have no nvidia.com/gpu."
)
WHOLE_POD = (
    "no node can align the pod as best-effort (0 of 3 nodes, 0 of 1 node shape without nodes): 3 have at"
    ' most 1500m cpu in 2 NUMA zones (Topology Manager policy "restricted"). Set annotation x to "none".'
)
CAUSES_IN_WORDS = [
    ("nothing large enough", LARGE, TOGETHER),
    ("scope pod", WHOLE_POD, 'have at most N cpu in 2 NUMA zones (Topology Manager policy "restricted")'),
    ("namespace", f"{ENFORCED}: the pod asks for nothing. Set x.", ENFORCED),
    ("mistake", f"{MISTAKE}; one of a, b", MISTAKE),
]


@pytest.mark.parametrize(("message", "expected"), table(CAUSES_IN_WORDS))
def test_cause_of_a_denial_has_no_amounts(message: str, expected: str) -> None:
    assert cause(f"numalign: {message}") == expected
