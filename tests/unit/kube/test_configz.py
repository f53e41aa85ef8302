"""Kubelets asked for their configuration: the pace, and what happens when they do not answer."""

import asyncio
import inspect
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from numalign.kube import configz
from numalign.kube.client import Api
from numalign.kube.configz import ConfigzReader, Progress
from numalign.kube.decode import kubelet_config
from numalign.kube.errors import ClusterError, Forbidden, NotFound, Unreachable
from numalign.model.errors import BadInput, BadTopology
from tests.worlds.log import RecordedLog
from tools.clusters.fake_api import FakeApi

Json = dict[str, Any]


# As a kubelet 1.34 gives it, in part.
ANSWER: Json = {
    "kubeletconfig": {
        "enableServer": True,
        "syncFrequency": "1m0s",
        "staticPodPath": "/etc/kubernetes/manifests",
        "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
        "clusterDNS": ["10.96.0.10"],
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "cpuManagerReconcilePeriod": "10s",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "container",
        "evictionHard": {"imagefs.available": "15%", "memory.available": "100Mi"},
        "featureGates": {"CPUManagerPolicyAlphaOptions": True},
        "reservedSystemCPUs": "0-1",
        "kubeReserved": {"memory": "1Gi"},
    }
}


def path(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/configz"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as api:
        yield api


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Api]:
    async with api.client() as client:
        yield client


@dataclass
class Desk:
    """A reader of configurations whose time a test moves on; `taken` is what it gave."""

    api: FakeApi
    client: Api
    told: RecordedLog
    registry: CollectorRegistry
    nodes: list[str] = field(default_factory=list)
    taken: dict[str, Json] = field(default_factory=dict)
    now: float = 0.0
    luck: float = 0.5

    def __post_init__(self) -> None:
        self.reader = ConfigzReader(
            self.client,
            names=lambda: self.nodes,
            take=self.take,
            drop=self.drop,
            log=self.told.log,
            registry=self.registry,
            again=3600,
            clock=lambda: self.now,
            chance=lambda: self.luck,
        )

    def take(self, found: Json) -> None:
        """Keep a configuration under the name of its node."""
        self.taken[found["metadata"]["name"]] = found

    def drop(self, node: str) -> None:
        """Give one back; it is a mistake to drop what was never taken."""
        del self.taken[node]

    async def steps(self, number: int) -> list[str]:
        """Let it take so many steps, and give the nodes that were asked."""
        before = len(self.api.requests)
        for _ in range(number):
            await self.reader.step()
        return [asked.path.split("/")[4] for asked in self.api.requests[before:]]

    def results(self) -> dict[str, float]:
        """What came of asking, where anything did."""
        found = {
            each: self.registry.get_sample_value("numalign_kubelet_configs_total", {"result": each})
            for each in configz.ConfigzResult
        }
        return {str(each): count for each, count in found.items() if count}


@pytest.fixture
def desk(api: FakeApi, client: Api) -> Desk:
    desk = Desk(api, client, RecordedLog(), CollectorRegistry(), nodes=["a", "b"])
    api.documents.update({path(node): ANSWER for node in ("a", "b", "c")})
    return desk


# One configuration.


async def test_a_configuration_is_what_the_decoder_reads(api: FakeApi, client: Api) -> None:
    api.documents[path("a")] = ANSWER
    found = await configz.configuration(client, "a")
    assert found == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "metadata": {"name": "a"},
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "container",
        "evictionHard": {"imagefs.available": "15%", "memory.available": "100Mi"},
        "featureGates": {"CPUManagerPolicyAlphaOptions": True},
        "reservedSystemCPUs": "0-1",
        "kubeReserved": {"memory": "1Gi"},
    }
    read = kubelet_config.kubelet_configuration(found)
    assert (read.name, read.policy, read.cpu_manager) == ("a", "restricted", "static")


async def test_a_kubelet_that_tells_its_kind_is_read_alike(api: FakeApi, client: Api) -> None:
    """As from 1.36 on."""
    kind = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
    api.documents[path("a")] = ANSWER
    api.documents[path("b")] = {"kubeletconfig": {**kind, **ANSWER["kubeletconfig"]}}
    a, b = await configz.configuration(client, "a"), await configz.configuration(client, "b")
    assert {**a, "metadata": None} == {**b, "metadata": None}


def test_what_is_kept_is_what_is_read() -> None:
    read = set(re.findall(r'(?:part|configuration)\["(\w+)"\]', inspect.getsource(kubelet_config)))
    assert read - {"metadata"} == set(kubelet_config.FIELDS)


NONSENSE: list[tuple[str, bytes, str]] = [
    ("a list", b"[]", "must be an object, not a list"),
    ("nothing", b"{}", "kubeletconfig: is missing"),
    ("no object", b'{"kubeletconfig": "x"}', 'kubeletconfig: must be an object, not "x"'),
    ("no known word", b'{"kubeletconfig": {"cpuManagerPolicy": "ecstatic"}}', "ecstatic"),
    ("no list of CPUs", b'{"kubeletconfig": {"reservedSystemCPUs": "0-"}}', "reservedSystemCPUs"),
]


@pytest.mark.parametrize(("said", "sentence"), [r[1:] for r in NONSENSE], ids=[r[0] for r in NONSENSE])
async def test_what_makes_no_sense_is_told(api: FakeApi, client: Api, said: bytes, sentence: str) -> None:
    api.oddities[path("a")] = said
    with pytest.raises(BadTopology, match=re.escape(sentence)):
        await configz.configuration(client, "a")


FAILURES: list[tuple[HTTPStatus, type[ClusterError], str]] = [
    (HTTPStatus.FORBIDDEN, Forbidden, "not allowed to read .*: a ClusterRole .* verb get on nodes/proxy"),
    (HTTPStatus.NOT_FOUND, NotFound, "the configuration of node a's kubelet does not exist"),
    (HTTPStatus.BAD_GATEWAY, Unreachable, "answered 502"),
    (HTTPStatus.SERVICE_UNAVAILABLE, Unreachable, "answered 503"),
]


@pytest.mark.parametrize(("status", "error", "sentence"), FAILURES, ids=[str(r[0]) for r in FAILURES])
async def test_what_cannot_be_read_is_told(
    api: FakeApi, client: Api, status: HTTPStatus, error: type[ClusterError], sentence: str
) -> None:
    api.failures[path("a")] = status
    with pytest.raises(error, match=sentence):
        await configz.configuration(client, "a")


@pytest.mark.parametrize("said", [b"<html>", b"", b'{"kubeletconfig": {'], ids=["HTML", "nothing", "a half"])
async def test_what_is_no_json_is_told(api: FakeApi, client: Api, said: bytes) -> None:
    api.oddities[path("a")] = said
    with pytest.raises(Unreachable, match="is not JSON"):
        await configz.configuration(client, "a")


async def test_no_node_can_fill_our_memory(api: FakeApi, client: Api) -> None:
    api.oddities[path("a")] = b" " * (configz.LONGEST + 1)
    with pytest.raises(Unreachable, match="the answer is longer than 1048576 bytes"):
        await configz.configuration(client, "a")
    api.oddities[path("a")] = b'{"kubeletconfig": {}}'.ljust(configz.LONGEST)
    assert (await configz.configuration(client, "a"))["kind"] == "KubeletConfiguration"


async def test_a_name_cannot_lead_elsewhere(client: Api) -> None:
    with pytest.raises(NotFound, match=re.escape("node ../../pods's kubelet")):
        await configz.configuration(client, "../../pods")


async def test_a_kubelet_that_says_nothing_is_given_up(api: FakeApi, client: Api) -> None:
    api.hung.add(path("mute"))
    api.documents[path("a")] = ANSWER
    with pytest.raises(Unreachable, match=r"node mute's kubelet did not arrive within 0\.02 s"):
        await configz.configuration(client, "mute", within=0.02)
    assert (await configz.configuration(client, "a", within=5))["metadata"] == {"name": "a"}
    api.hung.clear()


# All of them, for ever.


async def test_nodes_are_read_one_at_a_time_and_again_after_an_hour(desk: Desk) -> None:
    assert await desk.steps(1) == ["a"]
    assert await desk.steps(3) == ["b"]
    desk.now = 3599
    assert await desk.steps(3) == []
    desk.now = 3600
    assert await desk.steps(3) == ["a", "b"]
    assert list(desk.taken) == ["a", "b"]
    assert desk.results() == {"read": 4}


@pytest.mark.parametrize(("luck", "after"), [(0.0, 2880), (1.0, 4320)], ids=["the soonest", "the latest"])
async def test_replicas_do_not_read_all_at_once(desk: Desk, luck: float, after: float) -> None:
    desk.luck = luck
    await desk.steps(2)
    desk.now = after - 1
    assert await desk.steps(1) == []
    desk.now = after
    assert await desk.steps(1) == ["a"]


async def test_a_new_node_is_read_before_those_that_are_due(desk: Desk) -> None:
    await desk.steps(2)
    desk.now = 4000
    desk.nodes.append("c")
    assert await desk.steps(3) == ["c", "a", "b"]


async def test_a_node_that_is_gone_is_forgotten(desk: Desk) -> None:
    await desk.steps(2)
    desk.nodes.remove("a")
    assert await desk.steps(1) == []
    assert list(desk.taken) == ["b"]
    desk.nodes.append("a")
    assert await desk.steps(1) == ["a"]


async def test_a_node_that_is_gone_before_it_was_read_is_not_dropped(desk: Desk) -> None:
    desk.api.failures[path("a")] = HTTPStatus.BAD_GATEWAY
    await desk.steps(1)
    desk.nodes.remove("a")
    await desk.steps(1)
    assert list(desk.taken) == ["b"]


async def test_no_nodes_are_no_work(desk: Desk) -> None:
    desk.nodes.clear()
    assert await desk.steps(3) == []


async def test_who_may_not_ask_says_so_once_and_tries_each_hour(desk: Desk) -> None:
    desk.api.failures.update({path(node): HTTPStatus.FORBIDDEN for node in desk.nodes})
    for hour, node in enumerate(["a", "b", "a"]):
        desk.now = hour * 3600.0
        assert await desk.steps(5) == [node]
    (line,) = desk.told.of("kubelet_config.forbidden")
    assert line["level"] == "warning"
    assert line["error"].endswith("a ClusterRole must allow the verb get on nodes/proxy")
    assert desk.results() == {"forbidden": 3}
    assert desk.taken == {}


async def test_a_right_that_is_given_later_is_used_and_its_loss_told_again(desk: Desk) -> None:
    desk.nodes = ["a"]
    for hour, allowed in enumerate([False, True, False, False]):
        desk.now = hour * 3600.0
        desk.api.failures = {} if allowed else {path("a"): HTTPStatus.FORBIDDEN}
        assert await desk.steps(2) == ["a"]
    assert len(desk.told.of("kubelet_config.forbidden")) == 2
    assert list(desk.taken) == ["a"]


async def test_one_kubelet_that_says_no_does_not_keep_us_from_the_others(desk: Desk) -> None:
    desk.nodes = ["a", "b", "c"]
    desk.api.failures[path("b")] = HTTPStatus.FORBIDDEN
    assert await desk.steps(4) == ["a", "b", "c"]
    (line,) = desk.told.of("kubelet_config.refused")
    assert line["node"] == "b"
    assert desk.told.of("kubelet_config.forbidden") == []
    assert sorted(desk.taken) == ["a", "c"]


async def test_a_kubelet_that_says_no_before_any_other_was_asked_is_not_asked_first_again(desk: Desk) -> None:
    desk.api.failures[path("a")] = HTTPStatus.FORBIDDEN
    assert await desk.steps(3) == ["a"]
    desk.now = 3600
    assert await desk.steps(3) == ["b", "a"]
    assert list(desk.taken) == ["b"]


async def test_a_kubelet_that_is_away_is_asked_later_and_later(desk: Desk) -> None:
    desk.nodes = ["a"]
    desk.api.failures[path("a")] = HTTPStatus.SERVICE_UNAVAILABLE
    asked = []
    for second in range(0, 4 * 3600, 10):
        desk.now = float(second)
        asked += [second for _ in await desk.steps(1)]
    assert asked[:8] == [0, 30, 90, 210, 450, 930, 1890, 3810]
    assert asked[8:] == [3810 + 3600, 3810 + 7200]
    (line,) = desk.told.of("kubelet_config.unanswered")
    assert (line["level"], line["node"]) == ("info", "a")


async def test_a_kubelet_that_comes_back_starts_anew(desk: Desk) -> None:
    desk.nodes = ["a"]
    for second, away in [(0, True), (30, False), (3630, True), (3660, True)]:
        desk.now = float(second)
        desk.api.failures = {path("a"): HTTPStatus.BAD_GATEWAY} if away else {}
        assert await desk.steps(2) == ["a"], second
    assert len(desk.told.of("kubelet_config.unanswered")) == 2
    assert list(desk.taken) == ["a"], "what it said before it went away still counts"


async def test_a_kubelet_that_is_away_does_not_hold_up_the_others(desk: Desk) -> None:
    desk.api.failures[path("a")] = HTTPStatus.BAD_GATEWAY
    assert await desk.steps(4) == ["a", "b"]
    assert list(desk.taken) == ["b"]
    assert desk.results() == {"unanswered": 1, "read": 1}


async def test_nonsense_is_said_once_and_what_was_known_is_given_up(desk: Desk) -> None:
    await desk.steps(2)
    desk.api.oddities[path("a")] = b'{"kubeletconfig": {"cpuManagerPolicy": "ecstatic", "featureGates": 1}}'
    for hour in (1, 2):
        desk.now = hour * 3600.0
        await desk.steps(2)
    (line,) = desk.told.of("kubelet_config.invalid")
    assert (line["node"], len(line["errors"])) == ("a", 2)
    assert list(desk.taken) == ["b"]
    assert desk.results() == {"read": 4, "nonsense": 2}


async def test_an_api_server_that_is_away_ends_nothing(desk: Desk) -> None:
    await desk.api.stop()
    await desk.steps(2)
    assert len(desk.told.of("kubelet_config.unanswered")) == 2
    await desk.api.start()
    desk.now = 30
    assert await desk.steps(2) == ["a", "b"]
    assert sorted(desk.taken) == ["a", "b"]


async def test_it_runs_for_ever_with_a_pause_after_each(desk: Desk) -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            enough.set()
            await asyncio.Event().wait()

    reader = ConfigzReader(
        desk.client,
        names=lambda: desk.nodes,
        take=desk.take,
        drop=desk.drop,
        log=desk.told.log,
        registry=CollectorRegistry(),
        every=0.2,
        sleep=sleep,
    )
    running = asyncio.create_task(reader.run())
    await enough.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert pauses == [0.2, 0.2, 0.2]
    assert sorted(desk.taken) == ["a", "b"]


# All of them, once.


@dataclass
class Heard:
    """What a listener was told."""

    asked: list[tuple[int, int]] = field(default_factory=list)
    left_out: dict[str, ClusterError | BadInput] = field(default_factory=dict)

    def listener(self) -> Progress:
        """The listener."""
        return Progress(lambda number, all_: self.asked.append((number, all_)), self.left_out.__setitem__)


async def test_all_are_read_in_the_order_of_the_nodes(api: FakeApi, client: Api) -> None:
    nodes = [f"n{number}" for number in range(25)]
    api.documents = {path(node): ANSWER for node in nodes}
    heard = Heard()
    found = await configz.configurations(client, nodes, heard.listener())
    assert [each["metadata"]["name"] for each in found] == nodes
    assert heard.asked == [(number, 25) for number in range(1, 26)]
    assert heard.left_out == {}


async def test_nodes_that_do_not_answer_are_left_out_and_told(api: FakeApi, client: Api) -> None:
    api.documents = {path("a"): ANSWER}
    api.failures = {path("b"): HTTPStatus.BAD_GATEWAY}
    api.oddities = {path("c"): b"{}"}
    heard = Heard()
    found = await configz.configurations(client, ["a", "b", "c"], heard.listener())
    assert [each["metadata"]["name"] for each in found] == ["a"]
    assert {node: type(error) for node, error in heard.left_out.items()} == {
        "b": Unreachable, "c": BadTopology,
    }  # fmt: skip


async def test_who_may_not_ask_hears_it_at_once(api: FakeApi, client: Api) -> None:
    nodes = [f"n{number}" for number in range(100)]
    api.failures = {path(node): HTTPStatus.FORBIDDEN for node in nodes}
    with pytest.raises(Forbidden, match="must allow the verb get on nodes/proxy"):
        await configz.configurations(client, nodes, Heard().listener())
    assert len(api.requests) <= configz.TOGETHER


async def test_a_few_are_asked_together_and_no_more() -> None:
    now, most = 0, 0

    async def answer(_request: web.Request) -> web.Response:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.002)
        now -= 1
        return web.json_response(ANSWER)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as running:
        api = FakeApi(url=str(running.make_url("")).rstrip("/"))
        async with api.client() as client:
            await configz.configurations(client, [f"n{each}" for each in range(20)], Heard().listener())
    assert most == configz.TOGETHER
