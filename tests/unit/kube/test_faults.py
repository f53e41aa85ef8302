"""Each fault of an API server, for all that calls it: the error or the log line, and the recovery."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube import bindings, configz, gates, kinds, late_namespaces
from numalign.kube.client import Api, Patch
from numalign.kube.configz import ConfigzReader
from numalign.kube.errors import NotFound
from numalign.kube.events import Event, Recorder, Type
from numalign.kube.informer import Informer, WatchMetrics
from numalign.kube.late_namespaces import LateNamespaces
from numalign.kube.lease import LeaderElector
from tests.worlds.clock import Clock
from tests.worlds.faults import FAULTS, cause, mend
from tests.worlds.leases import LEASE, LEASES
from tests.worlds.log import RecordedLog
from tests.worlds.objects import namespace, node, pod
from tests.worlds.sinks import RecordedSink
from tests.worlds.tasks import in_background
from tools.clusters.fake_api import FakeApi
from tools.clusters.waiting import until

CONFIGZ = "/api/v1/nodes/a/proxy/configz"
NAMESPACE = "/api/v1/namespaces/team"
POD = f"{NAMESPACE}/pods/web"
EVENTS = f"{NAMESPACE}/events"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        for made in (node("a"), namespace("team"), pod("web", namespace="team", spec={})):
            server.put(made)
        server.documents[CONFIGZ] = {"kubeletconfig": {"cpuManagerPolicy": "static"}}
        yield server


async def late_namespace(api: Api) -> None:
    if not await LateNamespaces(api, Clock()).facts("team"):
        raise NotFound("namespace team")


async def bound(api: Api) -> None:
    await bindings.bind(api, namespace="team", name="web", uid="", node="a", annotations={})


Call = tuple[str, str, Callable[[Api], Awaitable[object]], str]
"""A name, the path, the call, and what its errors name."""

CALLS: list[Call] = [
    ("configz", CONFIGZ, lambda api: configz.configuration(api, "a", within=bindings.BIND_SECONDS),
        "node a's kubelet"),
    ("late namespace", NAMESPACE, late_namespace, "namespace team"),
    ("bind", f"{POD}/binding", bound, "the binding of pod team/web to node a"),
    ("gated pods", "/api/v1/pods", lambda api: gates.waiting(api, namespace=None), "the list of pods"),
    ("patch", POD, lambda api: api.patch(POD, {}, how=Patch.MERGE, what="pod team/web"), "pod team/web"),
]  # fmt: skip
WITHOUT_LIMIT = {"gated pods", "patch"}


def seconds(fault: str) -> float:
    """Return how long the API server has to answer."""
    return 0.05 if fault == "hanging" else 30


@pytest.mark.parametrize(("call", "fault"), [
    pytest.param(call, fault, id=f"{call[0]}-{fault}")
    for call in CALLS for fault in FAULTS if fault != "hanging" or call[0] not in WITHOUT_LIMIT
])  # fmt: skip
async def test_a_fault_is_an_error_of_its_type(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, call: Call, fault: str
) -> None:
    (_, path, ask, what), within = call, seconds(fault)
    monkeypatch.setattr(bindings, "BIND_SECONDS", within)
    monkeypatch.setattr(late_namespaces, "PATIENCE_SECONDS", within)
    before = api.get(POD)
    async with api.client() as client:
        await cause(api, fault, path)
        with pytest.raises(FAULTS[fault].error) as raised:
            await ask(client)
        assert type(raised.value) is FAULTS[fault].error
        assert what in str(raised.value) or fault in {"unauthorized", "unreachable"}
        assert api.get(POD) == before
        await mend(api)
        monkeypatch.undo()
        # A request that hung may have arrived in the meantime.
        if fault != "hanging":
            await ask(client)


class Parts(NamedTuple):
    """What every task has: a client, a log, a clock that its sleep moves, and how long it waits."""

    api: Api
    log: RecordedLog
    clock: Clock
    registry: CollectorRegistry
    within: float

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await asyncio.sleep(0.001)

    def usual(self) -> Any:  # noqa: ANN401  arguments by name
        return {"log": self.log.log, "clock": self.clock, "sleep": self.sleep}


Task = tuple[Callable[[], Coroutine[Any, Any, None]], Callable[[], object]]
"""A task that calls the API server, and whether its work is done."""


def informer(of: Parts) -> Task:
    sink, metrics = RecordedSink(), WatchMetrics.of(of.registry)
    made = Informer(of.api, (kinds.NODES,), sink, metrics=metrics, **of.usual())
    return made.run, lambda: sink.names == "a" and made.trouble is None


def configz_reader(of: Parts) -> Task:
    read: list[object] = []
    made = ConfigzReader(of.api, names=lambda: ["a"], take=read.append, drop=read.remove,
        registry=of.registry, every=30, **of.usual())  # fmt: skip
    return made.run, lambda: read


def elector(of: Parts) -> Task:
    made = LeaderElector(of.api, namespace="numalign-system", name="numalign-webhook", identity="a",
        registry=of.registry, now=of.clock.wall, within=of.within, **of.usual())  # fmt: skip
    return made.run, lambda: made.leading


def recorder(of: Parts) -> Task:
    component, numbers = "numalign-scorer", itertools.count()
    made = Recorder(of.api, component=component, registry=of.registry, now=of.clock.wall, **of.usual())

    def written() -> object:
        made.publish(Event("team", "web", f"{next(numbers)}", Type.WARNING, "Refused", "a message"))
        return of.registry.get_sample_value("numalign_pod_events_total", {"outcome": "written"})

    written()
    return made.run, written


TASKS: dict[str, tuple[str, Callable[[Parts], Task]]] = {
    "informer": (kinds.NODES.path, informer),
    "configz reader": (CONFIGZ, configz_reader),
    "elector": (LEASE, elector),
    "first elector": (LEASES, elector),
    "recorder": (EVENTS, recorder),
}
UNANSWERED, FAILED, LOST = "info kubelet_config.unanswered", "warning lease.failed", "warning event.lost"
FORBIDDEN, REFUSED = "warning kubelet_config.forbidden", "warning watch.refused"
LOGGED: dict[str, tuple[str | None, ...]] = {
    # what each task logs; None if it is no fault to the task, or if the task waits for minutes
    "unauthorized": ("error watch.unauthorized",  UNANSWERED, FAILED, FAILED, LOST),
    "forbidden":    ("error watch.forbidden",     FORBIDDEN,  FAILED, FAILED, LOST),
    "absent":       ("warning watch.vanished",    UNANSWERED, None,   FAILED, LOST),
    "conflict":     (REFUSED,                     UNANSWERED, FAILED, None,   None),
    "gone":         ("info watch.expired",        UNANSWERED, FAILED, FAILED, LOST),
    "overloaded":   (REFUSED,                     UNANSWERED, FAILED, FAILED, LOST),
    "failing":      (REFUSED,                     UNANSWERED, FAILED, FAILED, LOST),
    "nonsense":     ("warning watch.unreadable",  UNANSWERED, FAILED, None,   LOST),
    "unreachable":  ("warning watch.unreachable", UNANSWERED, FAILED, FAILED, LOST),
    "hanging":      (None,                        None,       FAILED, FAILED, None),
}  # fmt: skip


@pytest.mark.parametrize(("path", "start", "fault", "line"), [
    pytest.param(*task, fault, line, id=f"{name}-{fault}")
    for fault in FAULTS
    for (name, task), line in zip(TASKS.items(), LOGGED[fault], strict=True) if line
])  # fmt: skip
async def test_a_fault_is_logged_and_ends(
    api: FakeApi, path: str, start: Callable[[Parts], Task], fault: str, line: str
) -> None:
    async with api.client() as client:
        parts = Parts(client, RecordedLog(), Clock(), CollectorRegistry(), seconds(fault))
        run, done = start(parts)
        await cause(api, fault, path)
        async with in_background(run()):
            await until(parts.log.lines)
            assert not done()
            await mend(api)
            await until(done)
    first = parts.log.lines()[0]
    assert f"{first['level']} {first['event']}" == line
