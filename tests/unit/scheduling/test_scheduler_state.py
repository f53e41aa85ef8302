"""What the scorer knows of nodes and pods, and what is asked of a pod where it says nothing."""

import asyncio
import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode import fingerprints
from numalign.kube.decode.fingerprints import Fingerprint, Method
from numalign.kube.decode.kubelet_reports import (
    MACHINE,
    PLACEMENTS,
    ObservedPlacement,
    write_placements,
)
from numalign.kube.files.policy import parse
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import Basis, Stage
from numalign.lru import MOST_BYTES
from numalign.model.errors import BadInput
from numalign.model.intent import Intent, Policy
from numalign.model.machine import read_list, render_list
from numalign.model.node import Known
from numalign.scheduling.scheduler_state import (
    AT_ONCE,
    LOOK_SECONDS,
    MOST_WAITING,
    SEEN_SECONDS,
    UnknownNamespace,
)
from tests.unit.scorer.conftest import (
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
from tests.worlds.manifests import labelled, topology
from tests.worlds.notation import GPU, NIC, bag, free_of, means, node, table

OTHER = [{"zones": ["node-1"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}]
HALF_FREE = node("cpu=8//4 mem=16Gi//15Gi gpu=2//1", "cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""What an exporter says once a pod is on the first zone."""


OFFSETS = st.integers(-(10**6), 10**6)
"""Seconds by which a clock may be wrong."""


def free(scorer: Scorer, name: str = "a") -> list[int]:
    """The CPUs that are free in each zone."""
    found = scorer.reservations.free_capacity(name, now=scorer.time())
    assert found
    return free_of(found.node, "cpu")


def basis(scorer: Scorer, name: str = "a") -> Basis:
    found = scorer.reservations.free_capacity(name, now=scorer.time())
    assert found
    return found.basis


# Pods, one by one.


async def test_a_pod_holds_its_zones_from_when_it_is_bound_until_it_is_gone(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    seen = [free(scorer)]
    scorer.see(raw(FOUR))
    seen.append(free(scorer))
    scorer.see(on("a", raw(FOUR), record=HALF))
    seen.append(free(scorer))
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    seen.append(free(scorer))
    scorer.lose("web")
    seen.append(free(scorer))

    assert seen == [[8, 8], [8, 8], [4, 8], [4, 8], [8, 8]]


async def test_a_pod_whose_wish_is_unclear_holds_no_more_than_it_asks_for(scorer: Scorer) -> None:
    """Its owner can write anything into its annotations; how much it gets stands in its containers."""
    await scorer.know({"a": EMPTY})
    scorer.see(on("a", raw(FOUR, policy="nonsense"), record=HALF))
    known = free(scorer)
    scorer.see(on("a", raw("cpu=1 mem=1Gi", name="small", policy="nonsense")))

    # Of the second nobody knows from which zone it takes its CPU.
    assert (known, free(scorer), basis(scorer)) == ([4, 8], [3, 7], Basis.REPORTED)


async def test_only_so_many_calls_wait_for_pods_that_may_be_made_up(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    forever = asyncio.Event()

    async def without_end(_seconds: float) -> None:
        await forever.wait()

    waits = [
        asyncio.create_task(scorer.state.seen(f"made-up-{at}", sleep=without_end))
        for at in range(MOST_WAITING)
    ]
    await asyncio.sleep(0)

    assert not await scorer.state.seen("web", sleep=without_end)
    forever.set()
    assert await asyncio.gather(*waits) == [False] * MOST_WAITING
    scorer.time.after(SEEN_SECONDS / 2, lambda: scorer.see(raw(FOUR)))
    assert await scorer.state.seen(uid("web"), sleep=scorer.time.sleep)


async def test_a_pod_too_large_to_be_kept_holds_no_more_than_its_containers_request(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    # Each container requests another amount of memory, and two of them a CPU.
    containers = [f"cpu={'1' if at < 2 else '1m'} mem={at + 1}" for at in range(100)]
    large = on("a", raw(*containers))
    scorer.see(large)

    assert scorer.state.pods[uid("web")].demand is None
    assert free(scorer) == [6, 6]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_holds_nothing_long_before_it_is_deleted(
    scorer: Scorer, phase: str
) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    scorer.see({**on("a", raw(FOUR), record=HALF), "status": {"phase": phase}})

    assert free(scorer) == [8, 8]
    assert uid("web") in scorer.state.pods


async def test_pods_are_kept_for_a_node_whose_topology_comes_later_or_again(scorer: Scorer) -> None:
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    await scorer.know({"a": EMPTY})
    first = free(scorer)
    await scorer.know({"b": EMPTY}, unknown=["a"])
    meanwhile = scorer.reservations.free_capacity("a", now=scorer.time())
    await scorer.know({"a": EMPTY, "b": EMPTY})

    assert (first, meanwhile, free(scorer)) == ([4, 8], None, [4, 8])


async def test_a_pod_with_nothing_reserved_counts_everywhere_until_a_topology_has_it(
    scorer: Scorer,
) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR))))
    early = basis(scorer), free(scorer)
    scorer.time.seconds += 76
    await scorer.know({"a": HALF_FREE})

    assert early == (Basis.REPORTED, [4, 4])
    assert (basis(scorer), free(scorer)) == (Basis.REPORTED, [4, 8])


def dated(*, created: float, started: float, bound: float | None = None) -> Raw:
    """A pod that runs on node `a`, with times so many seconds from now."""
    ran: Raw = {"phase": "Running", "startTime": at(started)}
    if bound is not None:
        ran["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}]
    return {**on("a", raw(FOUR, creationTimestamp=at(created))), "status": ran}


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


AGES: list[tuple[str, float, float | None, float, bool]] = [
    # what it shows                                  created  bound  started  whether the topology has it
    ("it has run for long",                             -600,  -590,    -590,  True),
    ("it has run for long, nobody says when bound",     -600,  None,    -590,  True),
    ("it waited for long, and runs since a moment",     -600,    -6,      -5,  False),
    ("the clock of its node is two minutes behind",       -8,  None,    -125,  False),
    ("it waited, and that clock is behind",             -600,  None,    -125,  False),
    ("it waited, and that clock is an hour behind",     -600,    -6,   -3605,  False),
    ("the clock of its node is ahead",                  -600,  -590,    9999,  False),
    ("the clock of the API server is ahead",            9999,  9999,    -600,  False),
]  # fmt: skip


@pytest.mark.parametrize(("created", "bound", "started", "in_it"), table(AGES))
async def test_a_pod_that_ran_before_anybody_looked_is_in_the_topology_if_no_clock_can_deny_it(
    scorer: Scorer, created: float, bound: float | None, started: float, *, in_it: bool
) -> None:
    await scorer.know({"a": HALF_FREE})
    scorer.see(dated(created=created, started=started, bound=bound))

    assert free(scorer) == ([4, 8] if in_it else [4, 4])


@given(created=OFFSETS, started=OFFSETS)
def test_for_a_pod_that_was_seen_to_be_admitted_no_clock_of_another_machine_counts(
    created: float, started: float
) -> None:
    scorer = Scorer()
    made = dated(created=created, started=started)
    scorer.see({**made, "status": {"phase": "Pending"}})
    scorer.time.seconds += 7
    scorer.see(made)
    found = scorer.reservations.assigned_pod(uid("web"))

    assert found
    assert (found.stage, found.since) == (Stage.ADMITTED, scorer.time())


def test_a_pod_that_does_not_exist_yet_comes_after_all_others_by_the_clock_that_created_them(
    scorer: Scorer,
) -> None:
    before = scorer.state.next_created()
    scorer.see(raw(FOUR, creationTimestamp=at(9999)), raw(FOUR, name="other"))

    assert (before, scorer.state.next_created()) == (1, NOW + 10_000)


async def test_whoever_watches_hears_of_a_pod_before_its_reservation_is_gone(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    heard: list[tuple[str, str | None, bool]] = []

    def watch(now: PodInfo, before: PodInfo | None) -> None:
        known = scorer.reservations.assigned_pod(now.uid) is not None
        heard.append((now.phase, before.phase if before else None, known))

    scorer.state.watchers = (watch,)
    scorer.see(raw(FOUR))
    scorer.reserve(raw(FOUR), "a")
    scorer.see({**on("a", raw(FOUR)), "status": {"phase": "Failed"}})

    assert heard == [("Pending", None, False), ("Failed", "Pending", True)]
    assert scorer.reservations.assigned_pod(uid("web")) is None


# Topologies.


async def test_a_topology_that_says_the_same_again_changes_nothing(scorer: Scorer) -> None:
    mark = Fingerprint(fingerprints.fingerprint([]))
    told = replace(EMPTY, name="a")
    await scorer.know({"a": told}, fingerprints={"a": mark})
    before = scorer.reservations.free_capacity("a", now=scorer.time())
    assert scorer.state.snapshot
    await scorer.state.update_snapshot(replace(scorer.state.snapshot, fingerprints={"a": replace(mark)}))

    assert scorer.reservations.free_capacity("a", now=scorer.time()) is before


MINE, ALL_PODS = Method.WITH_EXCLUSIVE_RESOURCES, Method.ALL
STANDS_FOR = [
    # which pods                         their names         of which pods  what is known of the node
    ("with the pod",                     ["web", "small"],   ALL_PODS,      Basis.ANCHORED, [4, 8]),
    ("before the pod",                   ["small"],          ALL_PODS,      Basis.ANCHORED, [0, 4]),
    ("pods that nobody knows",           ["stranger"],       ALL_PODS,      Basis.REPORTED, [4, 4]),
    ("without those that have nothing",  ["web"],            MINE,          Basis.ANCHORED, [4, 8]),
]  # fmt: skip


@pytest.mark.parametrize(("names", "method", "rests_on", "expected"), table(STANDS_FOR))
async def test_a_fingerprint_tells_which_pods_a_topology_accounts_for(
    scorer: Scorer, names: list[str], method: Method, rests_on: Basis, expected: list[int]
) -> None:
    mark = Fingerprint(fingerprints.fingerprint([(TEAM, name) for name in names]), method)
    await scorer.know({"a": HALF_FREE}, fingerprints={"a": mark})
    scorer.see(running(on("a", raw(FOUR))), running(on("a", raw("cpu=0.5", name="small"))))

    assert (basis(scorer), free(scorer)) == (rests_on, expected)


async def test_a_fingerprint_that_is_told_no_more_is_forgotten(scorer: Scorer) -> None:
    mark = Fingerprint(fingerprints.fingerprint([(TEAM, "web")]))
    scorer.see(running(on("a", raw(FOUR))))
    await scorer.know({"a": HALF_FREE}, fingerprints={"a": mark})
    before = basis(scorer)
    await scorer.know({"a": HALF_FREE})

    assert (before, basis(scorer)) == (Basis.ANCHORED, Basis.REPORTED)


async def test_nodes_are_worked_out_before_anybody_asks(scorer: Scorer) -> None:
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


async def test_all_nodes_are_those_with_a_topology_and_those_without(scorer: Scorer) -> None:
    before = [*scorer.state.node_names()]
    await scorer.know({"b": EMPTY, "a": EMPTY}, unknown=["c"])
    scorer.see(on("ghost", raw(FOUR)))

    assert (before, sorted(scorer.state.node_names())) == ([], ["a", "b", "c"])


# What is asked of a pod.


def intent(scorer: Scorer, made: Raw) -> Intent:
    return scorer.subject(made).question.intent


SAYS, SILENT = raw(FOUR, policy="restricted"), raw(FOUR, policy=None)

NEGATIVE = raw("cpu=1", policy=None)
NEGATIVE["spec"]["overhead"] = {"cpu": "-1"}
NEGATIVE_AND_ASKING = {**raw(FOUR), "spec": NEGATIVE["spec"]}


async def test_a_pod_that_asks_nothing_and_cannot_be_read_goes_to_any_node(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    subject = scorer.subject(NEGATIVE)

    [judged] = scorer.nodes.of(["a"], subject)
    filtered, _ = scorer.nodes.filtered(["a"], subject)

    assert (judged.fits, filtered.fit) == (True, ["a"])
    # Nobody knows how much of the node it takes.
    assert subject.assigned_pod(now=0).demand is None


@pytest.mark.parametrize(("labels", "expected"), [({"admission": "disabled"}, "none"), ({}, None)])
async def test_a_waiting_pod_is_known_by_what_was_seen_of_it_where_nobody_looks_at_its_words(
    scorer: Scorer, labels: dict[str, str], expected: str | None
) -> None:
    await scorer.know({"a": EMPTY}, team=labels)
    scorer.see(raw(FOUR, policy="nonsense"))

    found = scorer.state.waiting(uid("web"))

    assert (found and found.question.intent.policy) == expected


async def test_a_waiting_pod_of_an_exempt_runtime_class_asks_nothing(scorer: Scorer) -> None:
    scorer.obey(parse(b"exemptions: {runtimeClasses: [virtual]}"))
    await scorer.know({"a": EMPTY}, team={})
    scorer.see(raw(FOUR, spec={"runtimeClassName": "virtual"}))

    found = scorer.state.waiting(uid("web"))

    assert found
    assert found.question.intent == means("none")


@pytest.mark.parametrize("made", [raw(FOUR, policy="nonsense"), NEGATIVE_AND_ASKING])
async def test_where_users_are_exempt_a_pod_that_cannot_be_read_may_be_theirs(
    scorer: Scorer, made: Raw
) -> None:
    await scorer.know({"a": EMPTY})
    with pytest.raises(BadInput):
        scorer.subject(made)
    scorer.obey(parse(b"exemptions: {users: [ci]}"))
    scorer.see(made)

    found = scorer.subject(made)

    assert found.question.intent == means("none")
    assert scorer.state.waiting(uid("web")) == found


WEAKENED = [
    # what it shows                  what stands on the pod now
    ("the policy was removed",       raw(FOUR, policy=None)),
    ("the policy was changed",       raw(FOUR, policy="best-effort")),
    ("what counts was changed",      raw(FOUR, annotations={"numalign.io/resources": "memory"})),
]  # fmt: skip


@pytest.mark.parametrize("made", table(WEAKENED))
async def test_what_a_namespace_enforces_counts_whatever_became_of_the_annotations(
    scorer: Scorer, made: Raw
) -> None:
    await scorer.know({"a": EMPTY, "loose": LOOSE}, team={"enforce": SINGLE})
    scorer.see(made)

    waiting = scorer.state.waiting(uid("web"))

    assert scorer.fits(made, "a", "loose") == [True, False]
    assert waiting
    assert waiting.question.intent == means(SINGLE)


async def test_where_users_are_exempt_a_pod_below_the_level_may_be_theirs(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"enforce": SINGLE})
    scorer.obey(parse(b"exemptions: {users: [ci]}"))

    assert scorer.subject(raw(FOUR, policy=None)).question.intent == means("none")


@pytest.mark.parametrize("follows", [True, False], ids=["a watch may be late", "a file is complete"])
async def test_what_a_namespace_enforces_is_not_known_before_the_namespace(
    scorer: Scorer, *, follows: bool
) -> None:
    scorer.state.follows = follows
    made = raw(FOUR, policy=None)
    await scorer.know({"loose": LOOSE})
    scorer.see(made)

    assert (scorer.state.waiting(uid("web")) is None) is follows
    with pytest.raises(UnknownNamespace, match=TEAM) if follows else nullcontext():
        assert scorer.subject(made).question.intent == means("none")
    await scorer.know({"loose": LOOSE}, team={"enforce": SINGLE})
    assert scorer.subject(made).question.intent == means(SINGLE)


async def test_the_same_object_is_read_anew_once_something_else_is_asked(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    first = scorer.subject(SILENT)
    again = scorer.subject(SILENT)
    await scorer.know({"a": EMPTY}, team={"default": SINGLE})

    assert again is first
    assert intent(scorer, SILENT) == means(SINGLE)


IDENTITIES = [
    # what it shows                   its metadata                           namespace, name, seconds
    ("as it is written",              {},                                    TEAM,      "web",  NOW - 60),
    ("no namespace is the default",   {"namespace": None},                   "default", "web",  NOW - 60),
    ("of a template",                 {"name": "", "generateName": "web-"},  TEAM,      "web-", NOW - 60),
    ("nobody knows when it was made", {"creationTimestamp": None},           TEAM,      "web",  0),
    ("a time that is none",           {"creationTimestamp": "never"},        TEAM,      "web",  0),
    ("a time that is no text",        {"creationTimestamp": 3},              TEAM,      "web",  0),
]  # fmt: skip


@pytest.mark.parametrize(("metadata", "namespace", "name", "created"), table(IDENTITIES))
def test_which_pod_it_is(scorer: Scorer, metadata: Raw, namespace: str, name: str, created: int) -> None:
    made = raw(FOUR)
    found = scorer.subject({**made, "metadata": {**made["metadata"], **metadata}})

    assert (found.uid, found.namespace, found.name, found.created) == (uid("web"), namespace, name, created)


# Devices that DRA may serve.

BARE = node("cpu=8 mem=16Gi", "cpu=8 mem=16Gi", policy=SINGLE, totals="cpu=16 mem=32Gi pods=110")
"""A node whose device plugins, if there are any, serve no GPU."""


@pytest.mark.parametrize(
    ("container", "served", "expected"),
    table(
        [
            ("device plugins serve all", FOUR, (), ["a"]),
            ("DRA serves where no device plugin does", FOUR, (GPU,), ["a", "bare"]),
            ("a device plugin's devices are aligned all the same", "cpu=4 mem=1Gi gpu=3", (GPU,), ["bare"]),
            ("what else is asked for counts", "cpu=9 mem=1Gi gpu=1", (GPU,), []),
            ("it serves others", FOUR, (NIC,), ["a"]),
        ]
    ),
)
async def test_a_node_is_asked_for_devices_that_its_device_plugins_serve(
    scorer: Scorer, container: str, served: tuple[str, ...], expected: list[str]
) -> None:
    await scorer.know({"a": EMPTY, "bare": BARE}, served=served)

    judged = scorer.ask(raw(container), "a", "bare")

    assert [each.name for each in judged if each.fits] == expected


@pytest.mark.parametrize("policy", [SINGLE, None], ids=["asked for alignment", "asked for nothing"])
async def test_what_dra_serves_may_change_while_a_pod_waits(scorer: Scorer, policy: str | None) -> None:
    made, found = raw(FOUR, policy=policy), []
    scorer.see(made)
    for served in ((), (GPU,), (NIC,)):
        await scorer.know({"bare": BARE}, served=served)
        waiting = scorer.state.waiting(uid("web"))
        assert waiting
        found.append((scorer.nodes.of(["bare"], waiting)[0].fits, *scorer.fits(made, "bare")))

    assert found == [(False, False), (True, True), (False, False)]


async def test_a_pod_with_devices_of_dra_has_the_rest_reserved_and_holds_it(scorer: Scorer) -> None:
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


def test_a_pod_waits_if_the_api_server_has_it_whoever_asks_about_others(scorer: Scorer) -> None:
    scorer.subject(raw(FOUR, name="asked"))
    scorer.see(raw(FOUR, name="seen"))
    found = [scorer.state.waiting(uid(name)) for name in ("asked", "seen", "stranger")]

    assert [each.name if each else None for each in found] == [None, "seen", None]


def test_a_pod_without_a_uid_is_answered_and_not_remembered(scorer: Scorer) -> None:
    found = scorer.subject(raw(FOUR, uid=""))

    assert (found.uid, scorer.state.waiting("")) == ("", None)


@pytest.mark.parametrize("wrong", ["u" * 129, "a uid", "\t"])
def test_what_is_no_uid_makes_no_pod(scorer: Scorer, wrong: str) -> None:
    with pytest.raises(BadInput, match=r"^metadata\.uid: .* is not a UID"):
        scorer.subject(raw(FOUR, uid=wrong))


def test_who_asked_is_forgotten_when_the_pod_is_gone(scorer: Scorer) -> None:
    scorer.see(raw(FOUR))
    scorer.subject(raw(FOUR))
    assert len(scorer.state.caches()["asked"]) == 1

    scorer.state.remove_pod(uid("web"))
    assert len(scorer.state.caches()["asked"]) == 0


@pytest.mark.full
def test_what_is_remembered_of_those_who_asked_is_bounded_in_bytes(scorer: Scorer) -> None:
    for number in range(100):
        made = raw(*[FOUR] * 20, name=f"p{number}", uid=f"u{number}")
        for at, container in enumerate(made["spec"]["containers"]):
            container["name"] = f"c{at}-{number}-{'x' * 12_000}"
        scorer.subject(made)

    sizes = {name: (cache.bytes, len(cache)) for name, cache in scorer.state.caches().items()}
    assert sizes.keys() >= {"asked", "readings", "askings", "questions", "nodes"}
    # What machines look like is remembered for the whole process, by a bound of its own.
    mine = [sizes[name] for name in ("asked", "readings", "askings", "questions")]
    assert all(size <= MOST_BYTES and 10 < count < 100 for size, count in mine), sizes


@pytest.mark.full
def test_where_pods_may_go_is_remembered_within_the_same_bounds(scorer: Scorer) -> None:
    for number in range(40):
        selector = {f"{at}-{number}": f"{at}{'x' * 2000}" for at in range(500)}
        scorer.subject(raw(FOUR, name=f"p{number}", uid=f"u{number}", spec={"nodeSelector": selector}))

    asked, read = (scorer.state.caches()[name] for name in ("asked", "readings"))
    assert max(asked.bytes, read.bytes) <= MOST_BYTES
    assert 10 < len(asked) == len(read) < 40


@pytest.mark.parametrize("said", [raw(FOUR, policy="best-effort"), raw("cpu=1 mem=1Gi")])
def test_of_a_pod_that_waits_what_is_seen_counts_and_not_what_is_asked(scorer: Scorer, said: Raw) -> None:
    scorer.see(raw(FOUR))
    scorer.subject(said)
    waiting = scorer.state.waiting(uid("web"))

    assert waiting
    assert waiting.question.intent.policy is Policy.SINGLE_NUMA_NODE
    assert waiting.question.demand == scorer.subject(raw(FOUR)).question.demand


async def test_from_its_deletion_on_a_pod_makes_those_that_came_late_doubtful(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    old, late = ([{"zones": [f"node-{at}"], "amount": {"cpu": "7", "memory": "1Gi"}}] for at in (0, 1))
    seven, doubtful = "cpu=7 mem=1Gi", []
    for deleted in (None, "2027-01-15T08:00:00Z"):
        scorer.see(running(on("a", raw(seven, name="old", deletionTimestamp=deleted), record=old)))
        scorer.see(on("a", raw(seven, name="late"), record=late))
        doubtful.append([pod.doubtful for pod in scorer.reservations.assigned_pods()])

    assert doubtful == [[False, False], [False, True]]


# What agents say.

ELSEWHERE = ObservedPlacement({("node-1",): bag("cpu=4 mem=1Gi gpu=1")}, 0)


async def test_a_pod_holds_what_the_agent_of_its_node_says(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): ELSEWHERE}})
    scorer.see(on("a", raw(FOUR), record=HALF))

    assert (free(scorer), basis(scorer)) == ([8, 4], Basis.OBSERVED)
    assert scorer.reservations.count_by_source(["a"]) == {"kubelet": 1}
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): ObservedPlacement({}, 0)}})
    assert free(scorer) == [8, 8]


async def test_a_pod_that_ends_slowly_keeps_what_it_has_when_the_agent_goes_away(scorer: Scorer) -> None:
    """Its placements were too long, of another version, or taken away together with the agent."""
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): ELSEWHERE}})
    scorer.see(running(on("a", raw(FOUR, deletionTimestamp="2027-01-15T08:00:00Z"))))
    await scorer.know({"a": EMPTY})

    assert (free(scorer), basis(scorer)) == ([8, 4], Basis.OBSERVED)
    await scorer.know({"a": EMPTY}, placements={"a": {}})
    assert free(scorer) == [8, 8]


async def test_an_agent_is_believed_of_the_pods_of_its_own_node_alone(scorer: Scorer) -> None:
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    await scorer.know({"a": EMPTY, "b": EMPTY}, placements={"b": {uid("web"): ELSEWHERE}})

    assert (free(scorer, "a"), free(scorer, "b")) == ([4, 8], [8, 8])


async def test_what_an_agent_said_counts_once_its_node_is_known(scorer: Scorer) -> None:
    scorer.see(on("a", raw(FOUR)))
    said = {"a": {uid("web"): ELSEWHERE}}
    await scorer.know({}, unknown=["a"], placements=said)
    await scorer.know({"a": EMPTY}, placements=said)

    assert (free(scorer), basis(scorer)) == ([8, 4], Basis.OBSERVED)


async def test_a_snapshot_costs_what_has_changed(scorer: Scorer) -> None:
    """Thousands of agents write, and each of them only says something new of one node."""
    told, names = list[str](), ("a", "b", "c")
    scorer.see(on("b", raw(FOUR)))
    first = snapshot(dict.fromkeys(names, EMPTY))
    again = replace(first, placements={"b": {uid("web"): ELSEWHERE}})
    scorer.reservations.on_change(told.append)
    for each in (first, first, again, again):
        await scorer.state.update_snapshot(each)

    assert told == [*names, "b"]
    assert free(scorer, "b") == [8, 4]


MACHINE_REPORT = {
    "version": 1,
    "kubelet": {
        "version": "v1.34.4",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "single-numa-node",
    },
    "machine": {
        "zones": [
            {"id": at, "socket": at, "cores": [[first + n, first + n + 8] for n in range(4)], "memory": 2**34}
            for at, first in enumerate((0, 4))
        ],
        "reservedSystemCPUs": "0,8",
        "devices": {
            GPU: [{"zones": [0], "total": 1, "healthy": 1}, {"zones": [1], "total": 1, "healthy": 1}]
        },
    },
}


async def test_what_an_agent_wrote_is_known_by_its_cpus(scorer: Scorer) -> None:
    cluster = ClusterState(complete=True)
    cluster.nodes.put("a", labelled("Node", "a", {}))
    placements = {uid("web"): ObservedPlacement({("node-0",): bag("cpu=2 gpu=1")}, read_list("1,9"))}
    written = topology("a", node("cpu=8/6/4 gpu=1//0", "cpu=8 gpu=1", policy=SINGLE))
    annotations = {MACHINE: json.dumps(MACHINE_REPORT), PLACEMENTS: write_placements(placements)}
    metadata = {**written["metadata"], "annotations": annotations}
    cluster.topologies.put("a", {**written, "metadata": metadata})
    scorer.see(on("a", raw("cpu=2 mem=1Gi gpu=1")), on("a", raw("cpu=2 mem=1Gi", name="new")))
    await scorer.state.update_snapshot(cluster.snapshot())

    unknown = scorer.reservations.free_capacity("a", now=scorer.time())
    assert unknown
    assert (unknown.basis, free(scorer)) == (Basis.REPORTED, [2, 6])
    scorer.lose("new")
    known = scorer.reservations.free_capacity("a", now=scorer.time())
    assert known
    assert known.node.stock
    assert (known.basis, known.node.known, known.exact) == (Basis.OBSERVED, Known.MACHINE, True)
    assert render_list(known.node.stock.cpus) == "2-7,10-15"
    # A core that is shared is no whole one.
    assert scorer.fits(raw("cpu=4 mem=1Gi", name="next"), "a") == [True]
    assert scorer.fits(raw("cpu=3 mem=1Gi", name="odd"), "a") == [False]
    assert scorer.fits(raw("cpu=2 mem=1Gi gpu=2", name="both"), "a") == [False]


# Pods that are to be alone.

ALONE = {"numalign.io/exclusive": "zone"}
SMALL = "cpu=1 mem=1Gi"
NOT_ALONE = f"node(s) would place it with other aligned pods, and the pod is exclusive (numalign: {SINGLE})"
NOT_SHARED = f"node(s) would place it in a NUMA zone that an exclusive pod holds (numalign: {SINGLE})"


def other(policy: str | None = SINGLE, **written: str) -> Raw:
    annotations = {f"numalign.io/{key}": text for key, text in written.items()}
    return raw(SMALL, name="other", policy=policy, annotations=annotations)


async def test_nobody_with_an_intent_comes_to_the_zone_of_a_pod_that_is_to_be_alone(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(running(on("a", raw(FOUR, annotations=ALONE), record=HALF)))
    answers = scorer.ask(other(), "a", "b")

    assert [(answer.fits, answer.permanent, answer.reason) for answer in answers] == [
        (False, False, NOT_SHARED),
        (True, False, ""),
    ]
    assert scorer.fits(other(policy=None), "a") == [True]
    assert scorer.fits(other(policy="none"), "a") == [True]
    scorer.lose("web")
    assert scorer.fits(other(), "a") == [True]


async def test_a_pod_that_is_to_be_alone_comes_to_no_zone_where_others_with_an_intent_are(
    scorer: Scorer,
) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    scorer.see(running(on("b", raw(FOUR, name="quiet", policy=None), record=HALF)))
    answers = scorer.ask(other(exclusive="zone"), "a", "b")

    assert [(answer.fits, answer.permanent, answer.reason) for answer in answers] == [
        (False, False, NOT_ALONE),
        (True, False, ""),
    ]


async def test_what_is_reserved_for_a_pod_that_is_to_be_alone_is_shared_with_nobody(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.reserve(raw(FOUR, annotations=ALONE), "a")

    [refused] = scorer.ask(other(), "a")

    assert (refused.fits, refused.reason) == (False, NOT_SHARED)
    # Its own reservation stands in nobody's way, least of all in its own.
    assert scorer.fits(raw(FOUR, annotations=ALONE), "a") == [True]


LABELLED = [
    # what it shows               before                                      after
    ("a default is there",        {},                                         {"default": SINGLE}),
    ("the default is tightened",  {"default": "none"},                        {"default": SINGLE}),
    ("it is looked at again",     {"default": SINGLE, "admission": "disabled"}, {"default": SINGLE}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), table(LABELLED))
async def test_what_a_namespace_comes_to_ask_counts_for_pods_that_are_there(
    scorer: Scorer, before: dict[str, str], after: dict[str, str]
) -> None:
    await scorer.know({"a": EMPTY}, team=before)
    scorer.see(running(on("a", raw(FOUR, policy=None), record=HALF)))
    alone, answers = other(exclusive="zone"), []
    for labels in (before, after, before):
        await scorer.know({"a": EMPTY}, team=labels)
        # A namespace that is left alone has no pods that are to be alone.
        answers += scorer.fits(replace_namespace(alone), "a")

    assert answers == [True, False, True]


def replace_namespace(made: Raw) -> Raw:
    return {**made, "metadata": {**made["metadata"], "namespace": "elsewhere"}}


async def test_what_the_policy_comes_to_ask_counts_for_pods_that_are_there(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={})
    scorer.see(running(on("a", raw(FOUR, policy=None), record=HALF)))
    before = scorer.fits(other(exclusive="zone"), "a")
    scorer.obey(parse(b"defaults: [{default: restricted}]"))
    working = asyncio.create_task(scorer.state.work_ahead(sleep=scorer.time.sleep))
    await asyncio.sleep(0.01)
    working.cancel()

    assert (before, scorer.fits(other(exclusive="zone"), "a")) == ([True], [False])


BADLY_SAID = [
    # what it shows                       what stands on the pod                      others are kept away
    ("it is to be alone",                 {"numalign.io/exclusive": "zone"},          True),
    ("of what?",                          {"numalign.io/exclusive": "node"},          False),
    ("nobody has looked at the rest",     {**ALONE, "numalign.io/scope": "planet"},   False),
]  # fmt: skip


@pytest.mark.parametrize(("written", "away"), table(BADLY_SAID))
async def test_who_says_it_wrongly_keeps_nobody_away(
    scorer: Scorer, written: dict[str, str], *, away: bool
) -> None:
    """Such a pod came while nobody looked; that it has an intent is plain."""
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR, annotations=written), record=HALF)))

    assert scorer.fits(other(), "a") == [not away]
    assert scorer.fits(other(exclusive="zone"), "a") == [False]


async def test_a_quota_is_used_by_the_pods_of_its_namespace(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"exclusive-cpus": "8"})
    scorer.see(on("a", raw(FOUR, name="old")))

    quota = scorer.state.quota(TEAM)
    assert quota
    assert (quota.used, quota.limit) == (4, 8)
    assert scorer.state.quota("others") is None
