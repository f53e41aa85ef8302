"""Configurations are read from kubelets one after another, and again after an hour."""

import asyncio
import inspect
import re
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube import configz
from numalign.kube.client import Api
from numalign.kube.configz import ConfigzReader, ConfigzResult, Progress
from numalign.kube.decode import kubelet_config
from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from numalign.model.errors import BadInput, BadTopology
from tests.worlds.log import RecordedLog
from tests.worlds.objects import Json, configuration
from tools.clusters.fake_api import FakeApi
from tools.clusters.waiting import until

# As a kubelet 1.34 gives it, in part.
READ: Json = {
    "cpuManagerPolicy": "static", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "memoryManagerPolicy": "None", "topologyManagerPolicy": "restricted", "topologyManagerScope": "container",
    "evictionHard": {"imagefs.available": "15%", "memory.available": "100Mi"}, "reservedSystemCPUs": "0-1",
    "featureGates": {"CPUManagerPolicyAlphaOptions": True}, "kubeReserved": {"memory": "1Gi"},
}  # fmt: skip
ANSWER: Json = {
    "kubeletconfig": {**READ, "enableServer": True, "syncFrequency": "1m0s", "clusterDNS": ["10.96.0.10"],
        "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}}},
}  # fmt: skip


def path(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/configz"


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Api]:
    async with api.client() as client:
        yield client


class Reading:
    """A reader of configurations whose time a test moves on; `taken` is what it gave."""

    def __init__(self, api: FakeApi, client: Api) -> None:
        self.api, self.log, self.registry = api, RecordedLog(), CollectorRegistry()
        self.nodes, self.now, self.luck = ["a", "b"], 0.0, 0.5
        self.taken: dict[str, Json] = {}
        self.reader = ConfigzReader(client, names=lambda: self.nodes, take=self.take,
            drop=self.taken.__delitem__, log=self.log.log, registry=self.registry, again=3600,
            clock=lambda: self.now, chance=lambda: self.luck)  # fmt: skip

    def take(self, result: Json) -> None:
        self.taken[result["metadata"]["name"]] = result

    async def steps(self, number: int) -> list[str]:
        """Let it take so many steps, and give the nodes that were asked."""
        before = len(self.api.requests)
        for _ in range(number):
            await self.reader.step()
        return [request.path.split("/")[4] for request in self.api.requests[before:]]

    def results(self) -> dict[str, float]:
        name, value = "numalign_kubelet_configs_total", self.registry.get_sample_value
        return {str(each): count for each in ConfigzResult if (count := value(name, {"result": each}))}


@pytest.fixture
def reading(api: FakeApi, client: Api) -> Reading:
    api.documents.update({path(node): ANSWER for node in ("a", "b", "c")})
    return Reading(api, client)


async def test_a_configuration_has_the_fields_of_the_decoder(api: FakeApi, client: Api) -> None:
    api.documents[path("a")] = ANSWER
    result = await configz.configuration(client, "a")
    assert result == configuration("a", **READ)
    read = kubelet_config.kubelet_configuration(result)
    assert (read.name, read.policy, read.cpu_manager) == ("a", "restricted", "static")


def test_the_fields_are_those_of_the_decoder() -> None:
    read = set(re.findall(r'(?:part|configuration)\["(\w+)"\]', inspect.getsource(kubelet_config)))
    assert read - {"metadata"} == set(kubelet_config.FIELDS)


async def test_a_configuration_is_limited_in_bytes(api: FakeApi, client: Api) -> None:
    api.oddities[path("a")] = b" " * (configz.LONGEST + 1)
    with pytest.raises(Unreachable, match="the answer is longer than 1048576 bytes"):
        await configz.configuration(client, "a")
    api.oddities[path("a")] = b'{"kubeletconfig": {}}'.ljust(configz.LONGEST)
    assert (await configz.configuration(client, "a"))["kind"] == "KubeletConfiguration"


async def test_each_node_is_read_once_an_hour(reading: Reading) -> None:
    assert await reading.steps(1) == ["a"]
    assert await reading.steps(3) == ["b"]
    reading.now = 3599
    assert await reading.steps(3) == []
    reading.now = 3600
    assert await reading.steps(3) == ["a", "b"]
    assert list(reading.taken) == ["a", "b"]
    assert reading.results() == {"read": 4}


@pytest.mark.parametrize(("luck", "after"), [(0.0, 2880), (1.0, 4320)], ids=["the soonest", "the latest"])
async def test_replicas_read_at_different_times(reading: Reading, luck: float, after: float) -> None:
    reading.luck = luck
    await reading.steps(2)
    reading.now = after - 1
    assert await reading.steps(1) == []
    reading.now = after
    assert await reading.steps(1) == ["a"]


async def test_a_removed_node_is_dropped(reading: Reading) -> None:
    await reading.steps(2)
    reading.nodes.remove("a")
    assert await reading.steps(1) == []
    assert list(reading.taken) == ["b"]
    reading.nodes.append("a")
    assert await reading.steps(1) == ["a"]


async def test_forbidden_is_logged_once_and_retried_each_hour(reading: Reading) -> None:
    reading.api.failures.update({path(node): HTTPStatus.FORBIDDEN for node in reading.nodes})
    for hour, node in enumerate(["a", "b", "a"]):
        reading.now = hour * 3600.0
        assert await reading.steps(5) == [node]
    (line,) = reading.log.of("kubelet_config.forbidden")
    assert line["level"] == "warning"
    assert line["error"].endswith("a ClusterRole must allow the verb get on nodes/proxy")
    assert (reading.results(), reading.taken) == ({"forbidden": 3}, {})
    for hour, code in ((3, None), (4, HTTPStatus.FORBIDDEN)):
        reading.now, reading.api.failures = hour * 3600.0, {path(node): code for node in "ab" if code}
        await reading.steps(5)
    assert len(reading.log.of("kubelet_config.forbidden")) == 2


async def test_one_kubelet_that_refuses_is_no_missing_right(reading: Reading) -> None:
    reading.nodes = ["a", "b", "c"]
    reading.api.failures[path("b")] = HTTPStatus.FORBIDDEN
    assert await reading.steps(4) == ["a", "b", "c"]
    (line,) = reading.log.of("kubelet_config.refused")
    assert line["node"] == "b"
    assert reading.log.of("kubelet_config.forbidden") == []
    assert sorted(reading.taken) == ["a", "c"]


async def test_pauses_grow_while_a_kubelet_is_unavailable(reading: Reading) -> None:
    reading.nodes = ["a"]
    reading.api.failures[path("a")] = HTTPStatus.SERVICE_UNAVAILABLE
    seconds_read = []
    for second in range(0, 4 * 3600, 10):
        reading.now = float(second)
        seconds_read += [second for _ in await reading.steps(1)]
    assert seconds_read[:8] == [0, 30, 90, 210, 450, 930, 1890, 3810]
    assert seconds_read[8:] == [3810 + 3600, 3810 + 7200]
    (line,) = reading.log.of("kubelet_config.unanswered")
    assert (line["level"], line["node"]) == ("info", "a")
    for seconds, away in [(3600, False), (7200, True), (7230, True)]:
        reading.now, reading.api.failures = (
            4 * 3600.0 + seconds,
            {path("a"): HTTPStatus.BAD_GATEWAY} if away else {},
        )
        assert await reading.steps(2) == ["a"], seconds
    assert len(reading.log.of("kubelet_config.unanswered")) == 2


async def test_an_invalid_configuration_is_logged_and_dropped(reading: Reading) -> None:
    await reading.steps(2)
    reading.api.oddities[path("a")] = (
        b'{"kubeletconfig": {"cpuManagerPolicy": "ecstatic", "featureGates": 1}}'
    )
    for hour in (1, 2):
        reading.now = hour * 3600.0
        await reading.steps(2)
    (line,) = reading.log.of("kubelet_config.invalid")
    assert (line["node"], len(line["errors"])) == ("a", 2)
    assert list(reading.taken) == ["b"]
    assert reading.results() == {"read": 4, "nonsense": 2}


def listener(counts: list[tuple[int, int]], errors: dict[str, ClusterError | BadInput]) -> Progress:
    return Progress(lambda number, most: counts.append((number, most)), errors.__setitem__)


async def test_configurations_are_in_the_order_of_the_nodes(api: FakeApi, client: Api) -> None:
    nodes = [f"n{number}" for number in range(25)]
    api.documents = {path(node): ANSWER for node in nodes}
    api.failures, api.oddities = {path("n7"): HTTPStatus.BAD_GATEWAY}, {path("n9"): b"{}"}
    counts: list[tuple[int, int]] = []
    left_out: dict[str, ClusterError | BadInput] = {}
    result = await configz.configurations(client, nodes, listener(counts, left_out))
    assert [each["metadata"]["name"] for each in result] == [each for each in nodes if each not in left_out]
    assert counts == [(number, 25) for number in range(1, 26)]
    assert {node: type(error) for node, error in left_out.items()} == {"n7": Unreachable, "n9": BadTopology}


async def test_forbidden_ends_the_reading_at_once(api: FakeApi, client: Api) -> None:
    nodes = [f"n{number}" for number in range(100)]
    api.failures = {path(node): HTTPStatus.FORBIDDEN for node in nodes}
    with pytest.raises(Forbidden, match="must allow the verb get on nodes/proxy"):
        await configz.configurations(client, nodes, listener([], {}))
    assert len(api.requests) <= configz.TOGETHER


async def test_requests_at_the_same_time_are_limited(api: FakeApi, client: Api) -> None:
    nodes = [f"n{number}" for number in range(20)]
    api.documents, api.hung = {path(node): ANSWER for node in nodes}, {path(node) for node in nodes}
    async with asyncio.TaskGroup() as group:
        group.create_task(configz.configurations(client, nodes, listener([], {})))
        await until(lambda: len(api.requests) >= configz.TOGETHER)
        await asyncio.sleep(0.01)
        assert len(api.requests) == configz.TOGETHER
        api.hung.clear()
    assert len(api.requests) == 20
