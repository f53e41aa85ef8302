"""What the scorer knows of nodes and pods, and what is asked of a pod where it says nothing."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import fingerprints
from numalign.kube.decode.fingerprints import Fingerprint, Method
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.files.policy import parse
from numalign.ledger.model import Basis, Stage
from numalign.lru import MOST_LARGE
from numalign.model.errors import BadInput
from numalign.model.intent import Policy
from numalign.scheduling.scheduler_state import (
    AT_ONCE,
    LOOK_SECONDS,
    MOST_WAITING,
    SEEN_SECONDS,
    UnknownNamespace,
)
from tests.worlds.notation import GPU, NIC, bag, free_of, means, node, table
from tests.worlds.scorer import (
    EMPTY,
    FOUR,
    HALF,
    LOOSE,
    NOW,
    SINGLE,
    TEAM,
    Raw,
    Scorer,
    on,
    raw,
    running,
    snapshot,
    uid,
)

HALF_FREE = node("cpu=8//4 mem=16Gi//15Gi gpu=2//1", "cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""What an exporter says once a pod is on the first zone."""


OFFSETS = st.integers(-(10**6), 10**6)
"""Seconds by which a clock may be wrong."""


def free(scorer: Scorer, name: str = "a") -> list[int]:
    found = scorer.reservations.free_capacity(name, now=scorer.time())
    assert found
    return free_of(found.node, "cpu")


def basis(scorer: Scorer, name: str = "a") -> Basis:
    found = scorer.reservations.free_capacity(name, now=scorer.time())
    assert found
    return found.basis


# Pods, one by one.


async def test_pod_holds_zones_from_bind_to_deletion(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    seen, bound = [free(scorer)], on("a", raw(FOUR), record=HALF)
    for made in (raw(FOUR), bound, running(bound)):
        scorer.see(made)
        seen.append(free(scorer))
    scorer.lose("web")
    assert [*seen, free(scorer)] == [[8, 8], [8, 8], [4, 8], [4, 8], [8, 8]]


async def test_calls_waiting_for_unwatched_pods_are_limited(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    forever = asyncio.Event()

    async def without_end(_seconds: float) -> None:
        await forever.wait()

    seen = [scorer.state.seen(f"made-up-{at}", sleep=without_end) for at in range(MOST_WAITING)]
    waits = [*map(asyncio.create_task, seen)]
    await asyncio.sleep(0)
    assert not await scorer.state.seen("web", sleep=without_end)
    forever.set()
    assert await asyncio.gather(*waits) == [False] * MOST_WAITING
    scorer.time.after(SEEN_SECONDS / 2, lambda: scorer.see(raw(FOUR)))
    assert await scorer.state.seen(uid("web"), sleep=scorer.time.sleep)


async def test_large_pod_holds_what_its_containers_request(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    # Each container requests another amount of memory, and two of them a CPU.
    containers = [f"cpu={'1' if at < 2 else '1m'} mem={at + 1}" for at in range(100)]
    large = on("a", raw(*containers))
    scorer.see(large)
    assert scorer.state.pods[uid("web")].demand is None
    assert free(scorer) == [6, 6]


def dated(*, created: float, started: float, bound: float | None = None) -> Raw:
    """A pod that runs on node `a`, with times so many seconds from now."""
    ran: Raw = {"phase": "Running", "startTime": at(started)}
    if bound is not None:
        ran["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}]
    return {**on("a", raw(FOUR, creationTimestamp=at(created))), "status": ran}


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(("created", "bound", "started", "in_it"), table([
    # what it shows                                  created  bound  started  whether the topology has it
    ("it has run for long",                             -600,  -590,    -590,  True),
    ("it waited for long, and runs since a moment",     -600,    -6,      -5,  False),
    ("it waited, and that clock is an hour behind",     -600,    -6,   -3605,  False),
    ("the clock of the API server is ahead",            9999,  9999,    -600,  False),
]))  # fmt: skip
async def test_old_pod_is_in_the_topology_if_clocks_agree(
    scorer: Scorer, created: float, bound: float | None, started: float, *, in_it: bool
) -> None:
    await scorer.know({"a": HALF_FREE})
    scorer.see(dated(created=created, started=started, bound=bound))
    assert free(scorer) == ([4, 8] if in_it else [4, 4])


@given(created=OFFSETS, started=OFFSETS)
def test_observed_admission_ignores_all_other_clocks(created: float, started: float) -> None:
    scorer = Scorer()
    made = dated(created=created, started=started)
    scorer.see({**made, "status": {"phase": "Pending"}})
    scorer.time.seconds += 7
    scorer.see(made)
    found = scorer.reservations.assigned_pod(uid("web"))
    assert found
    assert (found.stage, found.since) == (Stage.ADMITTED, scorer.time())


def test_new_pod_is_younger_than_all_others(scorer: Scorer) -> None:
    before = scorer.state.next_created()
    scorer.see(raw(FOUR, creationTimestamp=at(9999)), raw(FOUR, name="other"))
    assert (before, scorer.state.next_created()) == (1, NOW + 10_000)


# Topologies.


MINE, ALL_PODS = Method.WITH_EXCLUSIVE_RESOURCES, Method.ALL


@pytest.mark.parametrize(("names", "method", "expected"), table([
    # which pods                         their names         of which pods  what is free
    ("with the pod",                     ["web", "small"],   ALL_PODS,      [4, 8]),
    ("before the pod",                   ["small"],          ALL_PODS,      [0, 4]),
    ("without those that have nothing",  ["web"],            MINE,          [4, 8]),
]))  # fmt: skip
async def test_fingerprint_decides_which_pods_are_counted(
    scorer: Scorer, names: list[str], method: Method, expected: list[int]
) -> None:
    mark = Fingerprint(fingerprints.fingerprint([(TEAM, name) for name in names]), method)
    await scorer.know({"a": HALF_FREE}, fingerprints={"a": mark})
    scorer.see(running(on("a", raw(FOUR))), running(on("a", raw("cpu=0.5", name="small"))))
    assert (basis(scorer), free(scorer)) == (Basis.ANCHORED, expected)
    await scorer.know({"a": HALF_FREE})
    assert basis(scorer) is Basis.REPORTED


async def test_nodes_are_evaluated_ahead_in_steps(scorer: Scorer) -> None:
    """A few at a time, so that whoever asks meanwhile is answered in between."""
    await scorer.know({f"n{at}": EMPTY for at in range(2 * AT_ONCE + 1)})
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if slept[-1] and len(slept) > 4:
            raise asyncio.CancelledError
        if slept[-1]:
            scorer.see(running(on("n1", raw(FOUR), record=HALF)))

    with pytest.raises(asyncio.CancelledError):
        await scorer.state.work_ahead(sleep=sleep)

    assert slept == [0, 0, 0, LOOK_SECONDS, 0, LOOK_SECONDS]
    assert not list(scorer.state.cache.work_ahead(1, scorer.time))


# What is asked of a pod.


SILENT = raw(FOUR, policy=None)

NEGATIVE = raw("cpu=1", policy=None)
NEGATIVE["spec"]["overhead"] = {"cpu": "-1"}
NEGATIVE_AND_ASKING = {**raw(FOUR), "spec": NEGATIVE["spec"]}


async def test_unreadable_pod_without_policy_fits_anywhere(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    subject = scorer.subject(NEGATIVE)
    [judged] = scorer.nodes.of(["a"], subject)
    filtered, _ = scorer.nodes.filtered(["a"], subject)
    assert (judged.fits, filtered.fit) == (True, ["a"])
    # Nobody knows how much of the node it takes.
    assert subject.assigned_pod(now=0).demand is None


@pytest.mark.parametrize(("labels", "expected"), [({"admission": "disabled"}, "none"), ({}, None)])
async def test_waiting_pod_needs_a_readable_policy_if_enabled(
    scorer: Scorer, labels: dict[str, str], expected: str | None
) -> None:
    await scorer.know({"a": EMPTY}, team=labels)
    scorer.see(raw(FOUR, policy="nonsense"))
    found = scorer.state.waiting(uid("web"))
    assert (found and found.question.intent.policy) == expected


@pytest.mark.parametrize("made", [raw(FOUR, policy="nonsense"), NEGATIVE_AND_ASKING])
async def test_unreadable_pod_may_belong_to_an_exempt_user(scorer: Scorer, made: Raw) -> None:
    await scorer.know({"a": EMPTY})
    with pytest.raises(BadInput):
        scorer.subject(made)
    scorer.obey(parse(b"exemptions: {users: [ci]}"))
    scorer.see(made)
    found = scorer.subject(made)
    assert found.question.intent == means("none")
    assert scorer.state.waiting(uid("web")) == found


async def test_enforced_level_outlives_annotations(scorer: Scorer) -> None:
    made = raw(FOUR, policy=None)
    await scorer.know({"a": EMPTY, "loose": LOOSE}, team={"enforce": SINGLE})
    scorer.see(made)
    waiting = scorer.state.waiting(uid("web"))
    assert scorer.fits(made, "a", "loose") == [True, False]
    assert waiting
    assert waiting.question.intent == means(SINGLE)


async def test_pod_below_the_level_may_belong_to_an_exempt_user(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"enforce": SINGLE})
    scorer.obey(parse(b"exemptions: {users: [ci]}"))
    assert scorer.subject(raw(FOUR, policy=None)).question.intent == means("none")


@pytest.mark.parametrize("follows", [True, False], ids=["a watch may be late", "a file is complete"])
async def test_enforced_level_needs_a_watched_namespace(scorer: Scorer, *, follows: bool) -> None:
    scorer.state.follows = follows
    made = raw(FOUR, policy=None)
    await scorer.know({"loose": LOOSE})
    scorer.see(made)
    assert (scorer.state.waiting(uid("web")) is None) is follows
    with pytest.raises(UnknownNamespace, match=TEAM) if follows else nullcontext():
        assert scorer.subject(made).question.intent == means("none")
    await scorer.know({"loose": LOOSE}, team={"enforce": SINGLE})
    assert scorer.subject(made).question.intent == means(SINGLE)


async def test_pod_is_read_again_after_a_rule_change(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    first = scorer.subject(SILENT)
    again = scorer.subject(SILENT)
    await scorer.know({"a": EMPTY}, team={"default": SINGLE})
    assert again is first
    assert scorer.subject(SILENT).question.intent == means(SINGLE)


@pytest.mark.parametrize(("metadata", "namespace", "name", "created"), table([
    # what it shows                   its metadata                           namespace, name, seconds
    ("no namespace is the default",   {"namespace": None},                   "default", "web",  NOW - 60),
    ("of a template",                 {"name": "", "generateName": "web-"},  TEAM,      "web-", NOW - 60),
    ("a time that is none",           {"creationTimestamp": "never"},        TEAM,      "web",  0),
]))  # fmt: skip
def test_identity_of_a_pod(scorer: Scorer, metadata: Raw, namespace: str, name: str, created: int) -> None:
    made = raw(FOUR)
    found = scorer.subject({**made, "metadata": {**made["metadata"], **metadata}})
    assert (found.uid, found.namespace, found.name, found.created) == (uid("web"), namespace, name, created)


# Devices that DRA may serve.

BARE = node("cpu=8 mem=16Gi", "cpu=8 mem=16Gi", policy=SINGLE, totals="cpu=16 mem=32Gi pods=110")
"""A node whose device plugins, if there are any, serve no GPU."""


@pytest.mark.parametrize(("container", "served", "expected"), table([
    ("device plugins serve all", FOUR, (), ["a"]),
    ("DRA serves where no device plugin does", FOUR, (GPU,), ["a", "bare"]),
    ("a device plugin's devices are aligned all the same", "cpu=4 mem=1Gi gpu=3", (GPU,), ["bare"]),
    ("what else is asked for counts", "cpu=9 mem=1Gi gpu=1", (GPU,), []),
    ("it serves others", FOUR, (NIC,), ["a"]),
]))  # fmt: skip
async def test_devices_count_if_device_plugins_serve_them(
    scorer: Scorer, container: str, served: tuple[str, ...], expected: list[str]
) -> None:
    await scorer.know({"a": EMPTY, "bare": BARE}, served=served)
    judged = scorer.ask(raw(container), "a", "bare")
    assert [each.name for each in judged if each.fits] == expected


async def test_pod_with_devices_of_dra_reserves_the_others(scorer: Scorer) -> None:
    await scorer.know({"bare": BARE}, served=[GPU])
    reserved = scorer.reserve(raw(FOUR), "bare")
    seen = [free(scorer, "bare")]
    scorer.see(running(on("bare", raw(FOUR))))
    seen.append(free(scorer, "bare"))
    scorer.lose("web")
    assert reserved.expected == {("node-0",): bag("cpu=4 mem=1Gi")}
    assert (seen, free(scorer, "bare")) == ([[4, 8], [4, 8]], [8, 8])
    assert basis(scorer, "bare") is Basis.OBSERVED


# Pods that wait.


def test_only_watched_pods_wait(scorer: Scorer) -> None:
    scorer.subject(raw(FOUR, name="asked"))
    scorer.see(raw(FOUR, name="seen"))
    found = [scorer.state.waiting(uid(name)) for name in ("asked", "seen", "stranger")]
    assert [each.name if each else None for each in found] == [None, "seen", None]
    assert (scorer.subject(raw(FOUR, uid="")).uid, scorer.state.waiting("")) == ("", None)


@pytest.mark.parametrize("wrong", ["u" * 129, "a uid", "\t"])
def test_invalid_uid_is_an_error(scorer: Scorer, wrong: str) -> None:
    with pytest.raises(BadInput, match=r"^metadata\.uid: .* is not a UID"):
        scorer.subject(raw(FOUR, uid=wrong))


def test_deleted_pod_is_forgotten_by_the_caches(scorer: Scorer) -> None:
    scorer.see(raw(FOUR))
    scorer.subject(raw(FOUR))
    sizes = [len(scorer.state.caches()["asked"])]
    scorer.state.remove_pod(uid("web"))
    assert [*sizes, len(scorer.state.caches()["asked"])] == [1, 0]


def test_few_pods_with_a_long_name_are_cached(scorer: Scorer) -> None:
    for number in range(2 * MOST_LARGE):
        scorer.subject(raw(FOUR, name=f"{number}-{'n' * 10_000}", uid=f"u{number}"))
    assert len(scorer.state.caches()["asked"]) == MOST_LARGE


@pytest.mark.full
def test_few_large_pods_are_cached(scorer: Scorer) -> None:
    for number in range(2 * MOST_LARGE):
        made = raw(*[FOUR] * 20, name=f"p{number}", uid=f"u{number}")
        for at, container in enumerate(made["spec"]["containers"]):
            container["name"] = f"c{at}-{number}-{'x' * 12_000}"
        scorer.subject(made)
    sizes = {name: len(cache) for name, cache in scorer.state.caches().items()}
    assert [sizes[name] for name in ("asked", "readings", "askings", "questions")] == [MOST_LARGE] * 4


@pytest.mark.parametrize("called", [raw(FOUR, policy="best-effort"), raw("cpu=1 mem=1Gi")])
def test_watched_pod_outweighs_the_called_one(scorer: Scorer, called: Raw) -> None:
    scorer.see(raw(FOUR))
    scorer.subject(called)
    waiting = scorer.state.waiting(uid("web"))
    assert waiting
    assert waiting.question.intent.policy is Policy.SINGLE_NUMA_NODE
    assert waiting.question.demand == scorer.subject(raw(FOUR)).question.demand


# What agents say.

ELSEWHERE = ObservedPlacement({("node-1",): bag("cpu=4 mem=1Gi gpu=1")}, 0)


async def test_pod_holds_what_its_agent_reports(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): ELSEWHERE}})
    scorer.see(on("a", raw(FOUR), record=HALF))
    assert (free(scorer), basis(scorer)) == ([8, 4], Basis.OBSERVED)
    assert scorer.reservations.count_by_source(["a"]) == {"kubelet": 1}
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): ObservedPlacement({}, 0)}})
    assert free(scorer) == [8, 8]


async def test_snapshot_updates_only_changed_nodes(scorer: Scorer) -> None:
    """Thousands of agents write, and each of them only says something new of one node."""
    changes, names = list[str](), ("a", "b", "c")
    scorer.see(on("b", raw(FOUR)))
    nodes = dict.fromkeys(names, EMPTY)
    first, again = snapshot(nodes), snapshot(nodes, placements={"b": {uid("web"): ELSEWHERE}})
    scorer.reservations.on_change(changes.append)
    for each in (first, first, again, again):
        await scorer.know_cluster(each)
    assert changes == [*names, "b"]
    assert free(scorer, "b") == [8, 4]


# Pods that are to be alone.

ALONE = {"numalign.io/exclusive": "zone"}
SMALL = "cpu=1 mem=1Gi"
NOT_SHARED = f"node(s) would place it in a NUMA zone that an exclusive pod holds (numalign: {SINGLE})"


def other(policy: str | None = SINGLE, **written: str) -> Raw:
    annotations = {f"numalign.io/{key}": text for key, text in written.items()}
    return raw(SMALL, name="other", policy=policy, annotations=annotations)


async def test_exclusive_pod_keeps_others_out_of_its_zone(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(running(on("a", raw(FOUR, annotations=ALONE), record=HALF)))
    here, there = scorer.ask(other(), "a", "b")
    assert (here.fits, here.permanent, here.reason) == (False, False, NOT_SHARED)
    assert (there.fits, there.reason) == (True, "")
    assert [scorer.fits(other(policy=policy), "a") for policy in (None, "none")] == [[True]] * 2
    scorer.lose("web")
    assert scorer.fits(other(), "a") == [True]


@pytest.mark.parametrize(
    "before", [{}, {"default": SINGLE, "admission": "disabled"}], ids=["none", "disabled"]
)
async def test_new_namespace_default_applies_to_running_pods(scorer: Scorer, before: dict[str, str]) -> None:
    await scorer.know({"a": EMPTY}, team=before)
    scorer.see(running(on("a", raw(FOUR, policy=None), record=HALF)))
    alone, answers = other(exclusive="zone"), []
    alone["metadata"]["namespace"] = "elsewhere"
    for labels in (before, {"default": SINGLE}, before):
        await scorer.know({"a": EMPTY}, team=labels)
        # A namespace that is left alone has no pods that are to be alone.
        answers += scorer.fits(alone, "a")
    assert answers == [True, False, True]


async def test_new_policy_default_applies_to_running_pods(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={})
    scorer.see(running(on("a", raw(FOUR, policy=None), record=HALF)))
    before = scorer.fits(other(exclusive="zone"), "a")
    scorer.obey(parse(b"defaults: [{default: restricted}]"))
    working = asyncio.create_task(scorer.state.work_ahead(sleep=scorer.time.sleep))
    await asyncio.sleep(0.01)
    working.cancel()
    assert (before, scorer.fits(other(exclusive="zone"), "a")) == ([True], [False])


@pytest.mark.parametrize(("written", "away"), table([
    # what it shows                       what stands on the pod                      others are kept away
    ("it is to be alone",                 {"numalign.io/exclusive": "zone"},          True),
    ("of what?",                          {"numalign.io/exclusive": "node"},          False),
    ("nobody has looked at the rest",     {**ALONE, "numalign.io/scope": "planet"},   False),
]))  # fmt: skip
async def test_invalid_exclusive_annotation_blocks_nothing(
    scorer: Scorer, written: dict[str, str], *, away: bool
) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR, annotations=written), record=HALF)))
    assert scorer.fits(other(), "a") == [not away]
    assert scorer.fits(other(exclusive="zone"), "a") == [False]
