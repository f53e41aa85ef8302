"""Nothing is removed but what was judged, twice or against an API server that says no."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from controller.refused.removal import JOB_TRACKING, Removal, removals
from controller.refused.remover import AGAIN_SECONDS, BURST, EVENT, LONGEST_PAUSE, PER_SECOND, Remover
from numalign.kube.client import Query
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound, Unreachable
from numalign.kube.events import Event, Type
from numalign.kube.pod_informer import PodInfo
from numalign.model.steps import Steps
from tests.unit.controller.conftest import Steps as Loop
from tests.unit.controller.refused.pods import TEAM, Json, refused, running, stored
from tests.worlds.notation import table

PATH = re.compile(r"/api/v1/namespaces/(\w+)/pods/([\w-]+)")


def name_at(path: str) -> str:
    """The name of the pod at a path."""
    match = PATH.fullmatch(path)
    assert match, path
    return match[2]


@dataclass
class Store:
    """Pods as an API server has them; `broken` calls (a verb and a name) raise."""

    pods: dict[str, Json] = field(default_factory=dict)
    broken: dict[tuple[str, str], Exception] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    before_delete: Callable[[], object] = lambda: None
    hangs: bool = False

    def deleted(self) -> list[str]:
        """The pods that were to be deleted, one by one."""
        return [name for verb, name in self.calls if verb == "delete"]

    async def get(self, path: str, query: Query = (), *, what: str) -> object:
        """A pod."""
        del query
        self._asked("get", path, what)
        return self._pod(path)

    async def delete(self, path: str, options: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        """Delete a pod, if it is the one."""
        name = self._asked("delete", path, what)
        if self.hangs:
            await asyncio.sleep(3600)
        metadata = self._pod(path)["metadata"]
        if options["preconditions"] != {key: metadata[key] for key in ("uid", "resourceVersion")}:
            raise Conflict(what)
        return self.pods.pop(name)

    def _asked(self, verb: str, path: str, what: str) -> str:
        name = name_at(path)
        assert what == PATH.sub(r"pod \1/\2", path)
        if verb == "delete":
            self.before_delete()
        self.calls.append((verb, name))
        if error := self.broken.get((verb, name)):
            raise error
        return name

    def _pod(self, path: str) -> Json:
        name = name_at(path)
        if name not in self.pods:
            raise NotFound(name)
        return self.pods[name]


@dataclass
class World(Loop):
    """A remover that goes on second by second, the pods that it sees, and those that there are."""

    keep: int = 3
    fault: Exception | None = None
    permits: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.store = Store()
        self.seen: dict[str, PodInfo] = {}
        self.events: list[Event] = []
        self.begun = False

    def add(self, *pods: PodInfo) -> None:
        """There are these, and they are seen."""
        for pod in pods:
            self.seen[pod.uid] = pod
            self.store.pods[pod.name] = stored(pod)

    async def pass_by(self, seconds: float) -> None:
        """Let it go on for so long; before the first time it sees nothing."""
        self.begun = True
        await super().pass_by(seconds)

    def due(self) -> Steps[tuple[Removal, ...]]:
        """As the part says that asks for it."""
        if self.fault:
            raise self.fault
        pods = tuple(self.seen.values()) if self.begun else ()
        return (yield from removals(pods, pods, heals=lambda _: True, keep=self.keep))

    async def permitted(self, namespace: str) -> bool:
        """Whether the namespace, as it is stored, wants it still."""
        self.store.calls.append(("permitted", namespace))
        return self.permits

    def sync(self) -> None:
        """The watch shows what was deleted."""
        self.seen = {uid: pod for uid, pod in self.seen.items() if pod.name in self.store.pods}

    def results(self) -> dict[str, float]:
        """How attempts ended, those that never happened aside."""
        name, each = "numalign_refused_pod_removals_total", self.registry.get_sample_value
        words = ("removed", "gone", "changed", "uncounted", "forbidden", "failed")
        return {word: count for word in words if (count := each(name, {"result": word}))}


OLD = [refused(f"r{number}", number) for number in range(4)]
LIVES = running("web", 9)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A ReplicaSet with four refused pods, and one that runs."""
    made = World()
    made.add(*OLD, LIVES)
    remover = Remover(
        made.store,
        due=made.due,
        permitted=made.permitted,
        leading=made.leading,
        publish=made.events.append,
        log=made.told.log,
        registry=made.registry,
        clock=made.clock,
        sleep=made.sleep,
        chance=lambda: 0.0,
    )
    task = asyncio.create_task(remover.run())
    yield made
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_one_is_removed_once_and_its_owner_reads_why(world: World) -> None:
    await world.pass_by(1000)

    assert world.store.deleted() == ["r0"]
    assert world.events == [
        Event(
            TEAM,
            "web-1",
            "u1",
            Type.NORMAL,
            EVENT,
            "deleted pod r0, which the kubelet of n rejected (TopologyAffinityError):"
            " web was created since, and the 3 newest rejected pods are kept",
            kind="ReplicaSet",
            api_version="apps/v1",
        )
    ]
    [line] = world.told.of("refused.removed")
    assert (line["pod"], line["node"], line["owner"]) == ("team/r0", "n", "ReplicaSet/web-1")
    # The watch went on showing it.
    assert world.results()["removed"] == 1
    assert world.results()["gone"] > 1


async def test_what_is_removed_is_named_by_uid_and_version_as_they_were_read(world: World) -> None:
    def change() -> None:
        world.store.pods["r0"] = stored(OLD[0], resourceVersion="8")

    world.store.before_delete = change
    await world.pass_by(30)

    assert "r0" in world.store.pods
    assert world.results() == {"changed": 1}


async def test_another_pod_of_the_same_name_stays(world: World) -> None:
    """As StatefulSets make them, or people."""
    world.store.pods["r0"] = stored(OLD[0], uid="another")
    await world.pass_by(30)

    assert world.store.deleted() == []
    assert world.results() == {"changed": 1}


async def test_a_pod_that_its_job_has_not_counted_waits_for_that(world: World) -> None:
    world.store.pods["r0"] = stored(OLD[0], finalizers=[JOB_TRACKING])
    await world.pass_by(30)
    assert (world.store.deleted(), world.results()) == ([], {"uncounted": 1})

    world.store.pods["r0"] = stored(OLD[0])
    await world.pass_by(AGAIN_SECONDS)
    assert world.store.deleted() == ["r0"]


@pytest.mark.parametrize("becomes", ["gone", "failed"])
async def test_a_pod_stays_if_the_other_lives_no_more(world: World, becomes: str) -> None:
    """What the watch shows is a moment old."""
    if becomes == "gone":
        del world.store.pods["web"]
    else:
        world.store.pods["web"]["status"]["phase"] = "Failed"
    await world.pass_by(30)

    assert (world.store.deleted(), world.results()) == ([], {"changed": 1})


async def test_pods_stay_once_their_namespace_no_longer_says_so(world: World) -> None:
    """The plan was made when it did."""
    world.permits = False
    await world.pass_by(30)

    assert (world.store.deleted(), world.results()) == ([], {"changed": 1})


async def test_what_the_namespace_says_is_read_last_before_each_deletion(world: World) -> None:
    world.keep = 2
    await world.pass_by(10)

    verbs = [verb for verb, _ in world.store.calls]
    assert [verbs[at - 1] for at, verb in enumerate(verbs) if verb == "delete"] == ["permitted"] * 2


async def test_only_the_leader_removes(world: World) -> None:
    world.leads = False
    await world.pass_by(1000)
    assert world.store.calls == []

    world.leads = True
    await world.pass_by(10)
    assert world.store.deleted() == ["r0"]


@pytest.mark.parametrize("asked", range(1, 3))
async def test_who_leads_no_more_removes_nothing_also_between_reading_and_deleting(
    world: World, asked: int
) -> None:
    world.leads_for = asked
    await world.pass_by(1000)

    assert world.store.deleted() == []
    assert len(world.store.calls) == 3 * (asked - 1)
    world.leads_for = 1000
    await world.pass_by(AGAIN_SECONDS)
    assert world.store.deleted() == ["r0"]


async def test_of_very_many_so_many_go_in_a_second(world: World) -> None:
    world.keep = 0
    world.add(*(refused(f"x{number}") for number in range(500)))

    await world.pass_by(1)
    assert len(world.store.deleted()) == BURST
    began = world.clock.seconds
    for _ in range(30):
        world.sync()
        await world.pass_by(1)
    earned = PER_SECOND * (world.clock.seconds - began)
    assert earned - BURST <= len(world.store.deleted()) <= earned + BURST
    assert 100 < earned < 400


async def test_another_leader_removes_nothing_twice(world: World) -> None:
    await world.pass_by(10)
    world.sync()
    again = Remover(
        world.store,
        due=world.due,
        permitted=world.permitted,
        leading=world.leading,
        publish=world.events.append,
        log=world.told.log,
        registry=type(world.registry)(),
        clock=world.clock,
        sleep=world.sleep,
    )
    task = asyncio.create_task(again.run())
    await world.pass_by(100)
    task.cancel()

    assert world.store.deleted() == ["r0"]
    assert len(world.events) == 1


ENDS: list[tuple[str, str, ClusterError, str]] = [
    ("it is gone when it is read",    "get",    NotFound("x"), "gone"),
    ("it is gone when it is deleted", "delete", NotFound("x"), "gone"),
    ("it changes in between",         "delete", Conflict("x"), "changed"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "error", "result"), table(ENDS))
async def test_nothing_is_the_matter_if(world: World, verb: str, error: ClusterError, result: str) -> None:
    world.store.broken[verb, "r0"] = error
    await world.pass_by(30)

    assert world.results() == {result: 1}
    assert world.events == []
    assert world.told.of("refused.failed") == []


@pytest.mark.parametrize("verb", ["get", "delete"])
async def test_an_api_server_in_trouble_is_left_alone_for_longer_and_longer(world: World, verb: str) -> None:
    """As with 429 and 500."""
    world.keep = 0
    for name in ("r0", "r1", "r2", "r3"):
        world.store.broken[verb, name] = Unreachable("the API server answered 429")
    await world.pass_by(2000)

    attempts = int(world.results()["failed"])
    assert 5 <= attempts <= 20
    assert len(world.told.of("refused.failed")) == attempts
    world.store.broken = {}
    await world.pass_by(2 * LONGEST_PAUSE)
    assert len(world.store.pods) == 1


async def test_an_answer_that_does_not_come_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.refused.remover.CALL_SECONDS", 0.01)
    world.store.hangs = True
    await world.pass_by(6)

    assert world.results() == {"failed": 1}
    [line] = world.told.of("refused.failed")
    assert "did not answer within" in line["error"]


async def test_a_right_that_is_missing_is_said_once(world: World) -> None:
    world.store.broken["delete", "r0"] = Forbidden("not allowed to delete pods")
    await world.pass_by(2000)

    [line] = world.told.of("refused.forbidden")
    assert (line["namespace"], line["error"]) == (TEAM, "not allowed to delete pods")
    assert 3 <= world.results()["forbidden"] <= 2000 / LONGEST_PAUSE + 1


async def test_what_breaks_us_ends_nothing(world: World) -> None:
    world.fault = ValueError("our own fault")
    await world.pass_by(AGAIN_SECONDS / 2)
    assert len(world.told.of("refused.internal_error")) == 1

    world.fault = None
    await world.pass_by(AGAIN_SECONDS)
    assert world.store.deleted() == ["r0"]


async def test_one_pod_that_breaks_us_holds_up_no_other(world: World) -> None:
    world.keep = 2
    world.store.broken["get", "r0"] = ValueError("our own fault")
    await world.pass_by(AGAIN_SECONDS / 2)

    assert [line["pod"] for line in world.told.of("refused.internal_error")] == ["team/r0"]
    assert world.store.deleted() == ["r1"]
    world.store.broken = {}
    await world.pass_by(AGAIN_SECONDS)
    assert world.store.deleted() == ["r1", "r0"]


@pytest.mark.parametrize("denial", [Forbidden("no"), InvalidObject("no")], ids=["403", "422"])
async def test_a_namespace_where_it_is_denied_holds_up_no_other(world: World, denial: ClusterError) -> None:
    """A policy of the cluster may guard one of them."""
    world.store.broken["delete", "r0"] = denial
    world.add(*(replace(pod, uid=f"o-{pod.uid}", name=f"o-{pod.name}", namespace="other") for pod in OLD))
    world.add(replace(LIVES, uid="o-uid-web", name="o-web", namespace="other"))
    await world.pass_by(30)

    assert world.results()["forbidden"] == 1
    assert "o-r0" not in world.store.pods
