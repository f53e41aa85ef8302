"""The webhook on a real socket: reviews, and everything that is none."""

import asyncio
import json
import random
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import orjson
import pytest

from numalign.cache.admission import AdmissionState
from numalign.kube.cluster import Cluster, NamespaceChanged, Settled, differences
from numalign.kube.decode import server_version
from numalign.kube.files.policy import ClusterPolicy, Default
from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import NamespaceRules, Policy
from numalign.model.node import Node, node_class
from numalign.runtime import cooperative
from numalign.runtime.cooperative import patiently
from numalign.shapes import UnknownNode
from tests.worlds.clusters import a_cluster, become
from tests.worlds.json_patch import applied
from tests.worlds.notation import bag, node, table
from tests.worlds.objects import configuration, listed
from tests.worlds.webhook import UID, Caller, Raw, Webhook, raw, request, snapshot, with_spec
from webhook import handlers

SINGLE = "single-numa-node"
MIB = 2**20

SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
CLUSTER = {"small-1": SMALL, "small-2": SMALL, "large-1": LARGE}

FITS = raw("cpu=2 mem=1Gi gpu=2", policy=SINGLE)
NEVER = raw("cpu=2 mem=1Gi gpu=8", policy=SINGLE)
SILENT = raw("cpu=2 mem=1Gi gpu=2")
FOR_DEDICATED = with_spec(raw("cpu=500m mem=1Gi"), tolerations=[{"key": "CPUAffinity", "value": "dedicated"}])
BROKEN = raw("cpu=2 mem=1Gi gpu=2", policy="strictly")


@pytest.fixture
async def served(webhook: Webhook) -> Webhook:
    await webhook.know(CLUSTER, team={})
    return webhook


# Reviews.


async def test_a_pod_is_patched_and_then_admitted(served: Webhook) -> None:
    async with served.open() as caller:
        first = await caller.ask("/mutate", FITS)
        stored = applied(FITS, orjson.loads(b64decode(first["patch"])))
        again = await caller.ask("/mutate", stored)
        checked = await caller.ask("/validate", stored)

    assert first == {
        "uid": UID,
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": first["patch"],
        "auditAnnotations": {"classes": f"NotIn {node_class(SMALL)}"},
    }
    assert again == {"uid": UID, "allowed": True}
    assert checked == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {"verdict": "admitted with single-numa-node"},
    }


NARROW = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=SINGLE, scope="pod")
INCOMPLETE = with_spec(
    raw("cpu=5 mem=1Gi", "cpu=5 mem=1Gi", policy=SINGLE),
    resources={"requests": {"cpu": "10", "memory": "2Gi"}},
)
"""A pod that is Guaranteed only with the limits that newer API servers set."""


@pytest.mark.parametrize(("version", "limits"), [("v1.36.4", False), ("v1.37.2", True), (None, True)])
async def test_pod_is_reviewed_as_its_api_server_stores_it(
    webhook: Webhook, version: str | None, *, limits: bool
) -> None:
    members = {"wide": node("cpu=16 mem=8Gi", "cpu=16 mem=8Gi", policy=SINGLE, scope="pod"), "narrow": NARROW}
    items = snapshot(members, namespaces={"team": {}})["items"]
    items += [configuration(name, featureGates={"PodLevelResourceManagers": True}) for name in members]
    items += [server_version.described({"gitVersion": version})] if version else []
    webhook.put_bytes(orjson.dumps(listed(*items)))
    await webhook.load()
    async with webhook.open() as caller:
        created = await caller.ask("/mutate", INCOMPLETE)
        of_workload = await caller.ask("/validate-workloads", deployment(INCOMPLETE), kind=DEPLOYMENTS)
        stored = await caller.ask("/validate", INCOMPLETE)
    excluded = {"classes": f"NotIn {node_class(NARROW)}"} if limits else {}
    assert created.get("auditAnnotations", {}) == excluded
    assert ("(the pod is Burstable)" in str(of_workload)) is not limits
    assert "(the pod is Burstable)" in str(stored)


async def test_labelled_namespace_steers_the_template_of_jobs(webhook: Webhook) -> None:
    await webhook.know(CLUSTER, team={"job-affinity": "enabled"})
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": FITS}}
    async with webhook.open() as caller:
        first = await caller.ask("/mutate", job, kind={"group": "batch", "version": "v1", "kind": "Job"})
        pod = applied(job, orjson.loads(b64decode(first["patch"])))["spec"]["template"]
        again = await caller.ask("/mutate", pod)

    assert first["auditAnnotations"] == {"classes": f"NotIn {node_class(SMALL)}"}
    assert again == {"uid": UID, "allowed": True}


def burst(cluster: Cluster, after: Cluster) -> Iterator[None]:
    """Apply changes as a feed does."""
    for change in differences(cluster, after):
        cluster.apply(change)
        yield


async def test_burst_that_never_ends_delays_a_denial_for_a_moment(
    served: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "BURST_SECONDS", 0.01)
    async with served.open() as caller:
        served.cluster.apply(NamespaceChanged("other", None))
        assert not served.cluster.settled
        assert not (await caller.ask("/validate", NEVER))["allowed"]


async def test_final_answers_wait_for_all_changes_of_a_burst(
    served: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cooperative, "SECONDS", 0.0)
    shapes, kept = served.cluster.known_shapes, {"classes": f"NotIn {node_class(SMALL)}"}

    def unknown(large: int) -> Cluster:
        """Nodes without topology that have all changed, one of which is large enough for the pod."""
        label, sizes = Attributes(Labels({"large": str(large)})), ("cpu=8 mem=8Gi", "cpu=8 mem=8Gi gpu=8")
        parts = {
            f"n{at}": {"bare": UnknownNode(f"n{at}", bag(sizes[at == large]), label)} for at in range(4000)
        }
        return a_cluster(shapes=shapes, parts=parts, team={})

    def labelled(large: int) -> Cluster:
        """A label that one small node has moves from a large node to another."""
        label, labels = Attributes(Labels({"large": str(large)})), {0: "ours", large: "ours"}
        nodes = enumerate((SMALL, LARGE, *[SMALL] * 400, LARGE))
        named = [
            replace(each, name=f"n{at:03}", label=labels.get(at), attributes=label) for at, each in nodes
        ]
        return a_cluster(named, shapes=shapes, team={})

    async with served.open() as caller:
        for path, made, before, after, audit in (
            ("/validate", NEVER, unknown(0), unknown(3999), {"verdict": f"admitted with {SINGLE}"}),
            ("/mutate", FITS, labelled(1), labelled(402), kept),
        ):
            become(served.cluster, before)
            update = asyncio.create_task(patiently(burst(served.cluster, after)))
            reviews = [await caller.ask(path, made) for _ in range(3)]
            await update
            assert [review["auditAnnotations"] for review in reviews] == [audit] * 3


OFF = {"admission": "disabled"}
ANYWHERE = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
TERMS = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ANYWHERE] * 513}}
CROWDED = with_spec(FITS, affinity={"nodeAffinity": TERMS})

DECIDED = [
    # what it shows                   the path     the pod its namespace the decision
    ("a pod of nobody's concern",     "/mutate",   SILENT, {},                  "skipped"),
    ("one for nodes that it is not for", "/validate", FOR_DEDICATED, {},        "warned"),
    ("one that is kept from a class", "/mutate",   FITS,   {},                  "patched"),
    ("one that fits",                 "/validate", FITS,   {},                  "admitted"),
    ("one with too many terms",       "/mutate",   CROWDED, {},                 "unsteered"),
    ("one that is refused",           "/validate", NEVER,  {},                  "denied"),
    ("one that cannot be read",       "/mutate",   BROKEN, {"scheduler": "x"},  "invalid"),
    ("one that is refused as such",   "/validate", BROKEN, {},                  "invalid"),
    ("one that is warned of",         "/validate", SILENT, {"warn": SINGLE},    "warned"),
    ("a namespace that is left out",  "/validate", NEVER,  OFF,                 "skipped"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "made", "labels", "decision"), table(DECIDED))
async def test_each_decision_is_counted_with_its_duration(
    webhook: Webhook, path: str, made: Raw, labels: dict[str, str], decision: str
) -> None:
    await webhook.know(CLUSTER, team=labels)
    name = path.removeprefix("/")
    async with webhook.open() as caller:
        await caller.ask(path, made)
        counted = await caller.metric("numalign_reviews_total", webhook=name, decision=decision)
        timed = await caller.metric("numalign_review_seconds_count", webhook=name)

    assert (counted, timed) == (1, 1)


def deployment(template: Raw) -> Raw:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"metadata": template["metadata"], "spec": template["spec"]}},
    }


DEPLOYMENTS = {"group": "apps", "version": "v1", "kind": "Deployment"}


WORKLOADS = [
    # the template            its pod  mode    decision
    ("never fits",            NEVER,   "warn", "warned"),
    ("never fits, strictly",  NEVER,   "deny", "denied"),
    ("is not looked at",      NEVER,   "off",  "skipped"),
    ("is broken",             BROKEN,  "warn", "warned"),
    ("is broken, strictly",   BROKEN,  "deny", "denied"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "mode", "decision"), table(WORKLOADS))
async def test_a_workload_whose_template(served: Webhook, template: Raw, mode: str, decision: str) -> None:
    labels = {"webhook": "validate-workloads", "decision": decision}
    async with served.open(workloads=mode) as caller:
        answer = await caller.ask("/validate-workloads", deployment(template), kind=DEPLOYMENTS)
        assert await caller.metric("numalign_reviews_total", **labels) == 1
    assert answer["allowed"] is (decision != "denied")
    assert bool(answer.get("warnings")) is (decision == "warned")
    assert "patch" not in answer


async def test_pods_below_namespace_levels_are_counted(webhook: Webhook) -> None:
    await webhook.know(CLUSTER, team={"audit": SINGLE, "warn": "best-effort"})
    async with webhook.open(named_namespaces=1) as caller:
        await caller.ask("/validate", SILENT)
        await caller.ask("/validate", raw("cpu=2 mem=1Gi gpu=2", policy="best-effort"))
        counts = [
            await caller.metric("numalign_reviews_below_total", namespace="team", level=level)
            for level in ("audit", "warn", "enforce")
        ]

    assert counts == [2, 1, 0]


ENFORCED = ClusterPolicy((Default((), NamespaceRules(enforce=Policy(SINGLE), warn=Policy(SINGLE))),))


async def harass(caller: Caller, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - it makes input, not secrets
    for _ in range(60):
        word = "".join(dice.choices("abcdefgh.-/", k=dice.randrange(1, 30)))
        member = dice.choice(["namespace", "name", "operation", "subResource", "uid", "kind", "userInfo"])
        changed = dict.fromkeys(("group", "version", "kind", "username"), word)
        path, made = dice.choice(["/mutate", "/validate", "/validate-workloads"]), dice.choice([SILENT, FITS])
        changes: Raw = {"namespace": word, member: changed if member in {"kind", "userInfo"} else word}
        await caller.send(path, orjson.dumps(request(made, **changes)))
        method = dice.choice(["DELETE", "OPTIONS", "PATCH", "PROPFIND", "PUT"])
        async with caller.client.request(method, f"/{dice.random()}") as answer:
            await answer.read()


async def test_invented_names_add_no_metric_series(served: Webhook) -> None:
    served.policy.now = ENFORCED
    async with served.open() as caller:
        await harass(caller, 0)
        await caller.get("/metrics")
        _, before = await caller.get("/metrics")
        for seed in range(1, 4):
            await harass(caller, seed)
        _, after = await caller.get("/metrics")

    assert 'numalign_reviews_below_total{level="enforce",namespace=""}' in before
    assert len(after.splitlines()) == len(before.splitlines())


async def test_debug_state_is_served_only_if_enabled(served: Webhook) -> None:
    other = Webhook(served.path)
    async with served.open() as caller:
        assert (await caller.get("/debug/state"))[0] == 404
    async with other.open(debug_state=True) as caller:
        assert (await caller.get("/debug/state"))[0] == 200
        await other.load()
        state = json.loads((await caller.get("/debug/state"))[1])

    assert {name: facts["label"] for name, facts in state["nodes"].items()} == dict.fromkeys(CLUSTER)
    assert state["nodes"]["large-1"]["known"] == "counts"
    assert (state["nodes_without_topology"], [*state["namespaces"]]) == (0, ["team"])
    assert state["policy"]["exemptions"] == {"users": [], "namespaces": [], "runtimeClasses": []}


async def test_a_log_line_carries_the_uid_of_the_review(served: Webhook) -> None:
    async with served.open() as caller:
        await caller.ask("/validate", NEVER)
        await caller.ask("/validate", FITS, name="web-1", dryRun=True)

    denied, admitted = served.journal.of("review.decided")
    assert denied.pop("message").startswith("numalign: no node can align")
    expected = {
        "level": "info", "uid": UID, "webhook": "validate", "namespace": "team", "kind": "Pod",
        "name": "web-", "decision": "denied",
    }  # fmt: skip
    assert {key: denied[key] for key in expected} == expected
    assert (admitted["level"], admitted["name"], admitted["dry_run"]) == ("debug", "web-1", True)


TIGHT, LAX = raw("cpu=2 mem=1Gi", policy="restricted"), raw("cpu=2 mem=1Gi", policy="best-effort")

SETTINGS = [
    # a setting, its value, the path, the pod, then a part of the answer
    ("injection",     "off",        "/mutate",   FITS,  "patch",    False),
    ("injection",     "prefer",     "/mutate",   FITS,  "patch",    True),
    ("policy_match",  "equal",      "/validate", TIGHT, "status",   True),
    ("policy_match",  "satisfies",  "/validate", TIGHT, "status",   False),
    ("unknown_nodes", "may-fit",    "/validate", NEVER, "warnings", True),
    ("unknown_nodes", "cannot-fit", "/validate", NEVER, "status",   True),
    ("gates",         True,         "/mutate",   LAX,   "patch",    True),
    ("gates",         False,        "/mutate",   LAX,   "patch",    False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value", "path", "made", "part", "there"),
    SETTINGS,
    ids=[f"{row[0]}={row[1]}" for row in SETTINGS],
)
async def test_settings_reach_the_decision(  # noqa: PLR0913, PLR0917 - the columns of the table
    webhook: Webhook, setting: str, value: object, path: str, made: Raw, part: str, *, there: bool
) -> None:
    await webhook.know({**CLUSTER, "bare": Node("bare", zones=())}, team={"gate": "enabled"})
    async with webhook.open(**{"unknown_nodes": "cannot-fit", setting: value}) as caller:
        response = await caller.ask(path, made)
    assert (part in response) is there


async def test_pods_are_routed_while_no_class_is_written(webhook: Webhook) -> None:
    await webhook.know(CLUSTER, team={"scheduler": "numalign-scheduler"})
    async with webhook.open(injection="off") as caller:
        response = await caller.ask("/mutate", FITS)
        for by, count in (("scheduler", 1), ("gate", 0)):
            assert await caller.metric("numalign_pods_handed_over_total", by=by) == count
    [line] = webhook.journal.of("review.decided")
    assert (line["level"], line["scheduler"], "gate" in line) == ("info", "numalign-scheduler", False)
    routed = {"op": "add", "path": "/spec/schedulerName", "value": "numalign-scheduler"}
    assert json.loads(b64decode(response["patch"])) == [routed]
    assert response["auditAnnotations"] == {"scheduler": "numalign-scheduler"}


async def test_states_of_decisions_are_counted(webhook: Webhook) -> None:
    await webhook.know(CLUSTER)
    async with webhook.open() as caller:
        for made in (FITS, FITS, NEVER):
            await caller.ask("/validate", made)
        await caller.ask("/validate-workloads", deployment(NEVER), kind=DEPLOYMENTS)
        counts = [await caller.metric("numalign_decisions_total", state=state) for state in AdmissionState]

    assert dict(zip(AdmissionState, counts, strict=True)) == {
        **dict.fromkeys(AdmissionState, 0), AdmissionState.FITS: 2, AdmissionState.NEVER: 2
    }  # fmt: skip


# Bad calls.

GOOD = orjson.dumps(request(FITS))


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def without_request() -> bytes:
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})


JSON = "application/json"
BAD_CALLS = [
    # what it is                  the body, its type, status, what is said of it
    ("no request in it",          without_request(), JSON,      422, "request: is missing"),
    ("not JSON",                  b"hello",          JSON,      400, "is not JSON"),
    ("nested as deep as it gets", nested(MIB // 2),  JSON,      400, "is nested deeper than"),
    ("of another type", GOOD, "a/b", 415, "content type a/b: send application/json"),
]  # fmt: skip


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize(("body", "content_type", "status", "message"), table(BAD_CALLS))
async def test_invalid_call_is_refused_counted_and_logged(  # noqa: PLR0913, PLR0917  the columns of the table
    served: Webhook, path: str, body: bytes, content_type: str, status: int, message: str
) -> None:
    labels = {"webhook": path.removeprefix("/"), "code": str(status)}
    async with served.open() as caller:
        answered, document = await caller.send(path, body, content_type=content_type)
        assert await caller.metric("numalign_bad_calls_total", **labels) == 1
        assert (await caller.ask("/mutate", FITS))["allowed"]
    assert answered == status
    assert message in document["error"]
    assert len(served.journal.of("review.unreadable")) == 1


async def test_metrics_show_the_size_of_every_memory(served: Webhook) -> None:
    async with served.open() as caller:
        await caller.ask("/mutate", FITS)
        await caller.ask("/validate", FITS)
        names = ("readings", "questions", "shapes", "askings")
        sizes = {name: await caller.metric("numalign_cache_entries", cache=name) for name in names}

    assert sizes == dict.fromkeys(names, 1)


@pytest.mark.parametrize(("size", "status"), [(19 * MIB, 200), (21 * MIB, 413)])
async def test_a_body_of_mebibytes(served: Webhook, size: int, status: int) -> None:
    padded = {**FITS, "metadata": {**FITS["metadata"], "managedFields": [{"x": "y" * size}]}}
    async with served.open() as caller:
        answered, _ = await caller.send("/validate", orjson.dumps(request(padded)))
        counted = await caller.metric("numalign_http_requests_total", route="/validate", code=str(status))
        after = await caller.ask("/validate", FITS)

    assert (answered, counted) == (status, 1)
    assert after["allowed"]


def with_limit(amount: object) -> Raw:
    made = raw("cpu=2 mem=1Gi gpu=2", policy=SINGLE)
    made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = amount
    return made


GPU_LIMIT = "spec.containers[0].resources.limits[nvidia.com/gpu]"

BAD_PODS: list[tuple[str, Raw, str | None]] = [
    # what is wrong              the pod                              where
    ("an endless amount",        with_limit("1" * MIB),               GPU_LIMIT),
    ("containers of no kind",    {**FITS, "spec": {"containers": 3}}, "spec.containers"),
    ("metadata that is none",    {"metadata": 3},                     None),
    ("annotations that are none", {"metadata": {"annotations": [1]}}, None),
    ("nothing",                  {},                                  None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "where"), table(BAD_PODS))
async def test_only_a_pod_with_a_mistake_in_requests_is_denied(
    served: Webhook, made: Raw, where: str | None
) -> None:
    async with served.open() as caller:
        mutated = await caller.ask("/mutate", made)
        checked = await caller.ask("/validate", made)
        counted = await caller.metric("numalign_reviews_total", webhook="validate", decision="invalid")
        failures = await caller.metric("numalign_http_failures_total", route="/validate")

    assert mutated == {"uid": UID, "allowed": True}
    assert (checked["allowed"], counted, failures) == (where is None, where is not None, 0)
    if where:
        assert (checked["status"]["code"], len(checked["status"]["message"]) <= 900) == (422, True)
        assert checked["status"]["details"]["causes"][0]["field"] == where


# Health and readiness.


async def test_before_the_first_snapshot_reviews_get_503(webhook: Webhook) -> None:
    await webhook.load()
    async with webhook.open() as caller:
        assert await caller.get("/healthz") == (200, "ok\n")
        ready, waiting = await caller.get("/readyz")
        status, document = await caller.send("/mutate", GOOD)
        bad, _ = await caller.send("/mutate", b"hello")
        async with caller.client.post("/mutate", json=request({})) as answer:
            again = answer.headers["Retry-After"]
    assert ready == 503
    assert orjson.loads(waiting)["waiting_for"] == {"snapshot": f"a valid snapshot at {webhook.path}"}
    assert (status, document) == (503, {"error": "the state of the cluster is not known yet"})
    assert (bad, again) == (400, "1")


# Patience.


# Nodes whose zones differ in size are evaluated one by one, and one takes long for so many containers.
ZONES = [(f"cpu=8 mem={8000 + at}Mi gpu=1", "cpu=2 mem=1Gi") for at in range(400)]
UNEVEN = {f"n{at}": node(*zones, policy=SINGLE) for at, zones in enumerate(ZONES)}
HUGE = {"one": node(*["cpu=16 mem=64Gi gpu=4"] * 16, policy="restricted", max_zones=16)}
CROWD = raw(" | ".join(["init cpu=1 mem=1Gi"] * 60 + ["cpu=1 mem=1Gi"] * 60), policy="restricted")
PATIENT = [
    # the first review                    its path     the nodes the pod
    ("of many nodes",                     "/validate", UNEVEN, FITS),
    ("of many containers, to be checked", "/validate", HUGE,   CROWD),
    ("of many containers on their node",  "/validate", HUGE,   with_spec(CROWD, nodeName="one")),
]  # fmt: skip


@pytest.mark.parametrize(("path", "nodes", "made"), table(PATIENT))
async def test_a_first_review_lets_others_pass(
    webhook: Webhook, path: str, nodes: dict[str, Node], made: Raw
) -> None:
    await webhook.know(nodes)
    finished: list[str] = []

    async with webhook.open() as caller:

        async def ask(name: str, made: Raw) -> None:
            await caller.ask(path, made)
            finished.append(name)

        await ask("connected", SILENT)
        await asyncio.gather(ask("first of its template", made), ask("quick", SILENT))

    assert finished == ["connected", "quick", "first of its template"]


async def test_questions_that_are_not_answered_are_counted(webhook: Webhook) -> None:
    large = node(*["cpu=16 mem=64Gi gpu=4"] * 16, policy="best-effort", max_zones=16)
    merged = raw(" | ".join(["cpu=1 mem=1Gi gpu=0"] * 80), policy="best-effort")
    await webhook.know({**CLUSTER, "large": large})
    async with webhook.open() as caller:
        answers = [await caller.ask("/validate", made) for made in (FITS, merged, merged, SILENT)]
        counted = await caller.metric("numalign_questions_not_answered_total")

    warned = "numalign: 1 node was not evaluated: placing 80 containers on so many NUMA zones takes too long"
    assert [answer["allowed"] for answer in answers] == [True] * 4
    assert [answer.get("warnings") for answer in answers] == [None, [warned], [warned], None]
    assert counted == 2


async def test_our_own_fault_is_logged_with_the_review(webhook: Webhook) -> None:
    webhook.cluster.last_settled = Settled()
    webhook.policy.now = cast("ClusterPolicy", object())
    async with webhook.open() as caller:
        status, _ = await caller.send("/validate", GOOD)
    assert status == 500
    assert UID in str(webhook.journal.of("request.failed"))


# Devices that come by DRA.


DRA_CLASS = {
    "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"},
    "spec": {"extendedResourceName": "nvidia.com/gpu"},
}  # fmt: skip
NO_HINTS = "numalign: DRA devices give the kubelet no topology hints: alignment of nvidia.com/gpu is unknown"
ONE_GPU = {
    "large": node("cpu=8 mem=8Gi gpu=1", policy=SINGLE),
    "small": node("cpu=2 mem=2Gi gpu=1", policy=SINGLE),
}
EIGHT_GPUS = raw("cpu=4 mem=4Gi gpu=8", policy=SINGLE)


async def test_devices_of_dra_deny_and_steer_nothing(webhook: Webhook) -> None:
    await webhook.know(ONE_GPU, pods=[DRA_CLASS])
    async with webhook.open() as caller:
        valid, steered = await caller.ask("/validate", EIGHT_GPUS), await caller.ask("/mutate", EIGHT_GPUS)
        too_large = await caller.ask("/validate", raw("cpu=16 mem=4Gi gpu=8", policy=SINGLE))
    assert (valid["allowed"], valid["warnings"]) == (True, [NO_HINTS])
    # What the nodes lack besides still counts.
    assert "1 has at most 8 cpu in total" in too_large["status"]["message"]
    [operation] = json.loads(b64decode(steered["patch"]))
    assert [node_class(ONE_GPU[name]) in str(operation) for name in ("small", "large")] == [True, False]
