"""What a kubelet is asked over HTTPS, and the ways there."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.https import HttpsClient, HttpsEndpoint, plain
from agent.kubelet_api import KubeletApi
from agent.observation import AskingContainer, KubeletPod
from numalign.kube.errors import ClusterError, Forbidden, NotFound, Unauthorized, Unconfigured, Unreachable
from tests.unit.agent.scripted import request, response, scripted

NODE = {"status": {"nodeInfo": {"kubeletVersion": "v1.34.4"}}}
CONFIGZ = {"kubeletconfig": {"cpuManagerPolicy": "static", "address": "0.0.0.0"}}  # noqa: S104  nobody listens
TOLD = {"cpuManagerPolicy": "static", "version": "v1.34.4"}


def pod(name: str = "web", **fields: object) -> dict[str, Any]:
    metadata = {"uid": f"uid-{name}", "namespace": "default", "name": name}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}, **fields}


def pods(*items: object) -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "items": [*items]}


WEB = KubeletPod("uid-web", "default", "web", "Running", deleted=False)


@dataclass
class FakeApiServer:
    """What an API server answers by path; an error is raised."""

    answers: dict[str, object] = field(default_factory=lambda: {"/api/v1/nodes/n1": NODE})
    asked: list[str] = field(default_factory=list)

    async def get(self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int) -> object:
        self.asked.append(path)
        answer = self.answers.get(path, NotFound(f"{what} is not there"))
        if isinstance(answer, ClusterError):
            raise answer
        assert most
        assert query or path != "/api/v1/pods"
        return answer

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int) -> bytes:
        return json.dumps(await self.get(path, query, what=what, most=most)).encode()


@dataclass
class FakePort:
    answers: dict[str, tuple[str, object]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            path = (await request(reader)).split()[1].decode()
            self.asked.append(path)
            status, body = self.answers.get(path, ("404 Not Found", "404 page not found"))
            writer.write(
                response(body.encode() if isinstance(body, str) else json.dumps(body).encode(), status)
            )


@asynccontextmanager
async def asking(
    port: FakePort | None = None, api: FakeApiServer | None = None, file: Path | None = None
) -> AsyncIterator[KubeletApi]:
    async with scripted(port or FakePort()) as number:
        client = HttpsClient(HttpsEndpoint("127.0.0.1", number, plain))
        yield KubeletApi("n1", direct=client if port else None, api=api, file=file)
        client.close()


def direct(**answers: object) -> FakePort:
    return FakePort({f"/{path}": ("200 OK", body) for path, body in answers.items()})


def refusing(status: str = "403 Forbidden", body: str = "Forbidden (user=agent, verb=get)") -> FakePort:
    return FakePort({"/configz": (status, body), "/pods": (status, body)})


async def test_the_kubelet_itself_tells_its_configuration() -> None:
    async with asking(direct(configz=CONFIGZ), api := FakeApiServer()) as kubelet:
        assert await kubelet.configuration() == TOLD
    assert api.asked == ["/api/v1/nodes/n1"]


async def test_forbidden_kubelet_is_read_through_the_api_server() -> None:
    api = FakeApiServer({"/api/v1/nodes/n1": NODE, "/api/v1/nodes/n1/proxy/configz": CONFIGZ})
    async with asking(refusing(), api) as kubelet:
        assert await kubelet.configuration() == TOLD
    async with asking(api=api) as kubelet:
        assert await kubelet.configuration() == TOLD


async def test_all_ways_forbidden_lists_each_reason() -> None:
    api = FakeApiServer({"/api/v1/nodes/n1/proxy/configz": Forbidden("not allowed to read it: nodes/proxy")})
    async with asking(refusing(), api) as kubelet:
        with pytest.raises(Forbidden, match=r"answered 403 .*verb=get.*; not allowed .*: nodes/proxy"):
            await kubelet.configuration()


async def test_no_known_way_is_an_error() -> None:
    async with asking() as kubelet:
        with pytest.raises(Unconfigured, match="set --node-address or configure an API server"):
            await kubelet.configuration()
        with pytest.raises(Unconfigured, match="the list of the kubelet's pods cannot be read"):
            await kubelet.pods()


async def test_config_file_replaces_requests(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"kind": "KubeletConfiguration", "cpuManagerPolicy": "static"}')

    async with asking(port := direct(configz=CONFIGZ), FakeApiServer(), file) as kubelet:
        first = await kubelet.configuration()
        file.write_text('{"kind": "KubeletConfiguration", "cpuManagerPolicy": "none", "x": ""}')
        second = await kubelet.configuration()

    assert [told["cpuManagerPolicy"] for told in (first, second)] == ["static", "none"]
    assert first["version"] == "v1.34.4"
    assert port.asked == []


async def test_a_file_that_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = 0

    async def read(_: Path) -> Mapping[str, object]:
        nonlocal times
        times += 1
        return {}

    monkeypatch.setattr("agent.config_file.read", read)
    (tmp_path / "config.yaml").touch()
    async with asking(api=FakeApiServer(), file=tmp_path / "config.yaml") as kubelet:
        await kubelet.configuration()
        await kubelet.configuration()

    assert times == 1


async def test_without_an_api_server_the_version_is_not_known() -> None:
    async with asking(direct(configz=CONFIGZ)) as kubelet:
        assert await kubelet.configuration() == {"cpuManagerPolicy": "static"}


async def test_the_kubelet_itself_tells_its_pods() -> None:
    async with asking(direct(pods=pods(pod())), api := FakeApiServer()) as kubelet:
        assert await kubelet.pods() == (WEB,)
    assert api.asked == []


async def test_working_way_is_reused_for_pods() -> None:
    port = refusing()
    api = FakeApiServer({"/api/v1/nodes/n1": NODE, "/api/v1/pods": pods(pod())})

    async with asking(port, api) as kubelet:
        assert [await kubelet.pods() for _ in range(3)] == [(WEB,)] * 3
        assert port.asked == ["/pods"]
        port.answers = direct(pods=pods(), configz=CONFIGZ).answers
        await kubelet.configuration()
        assert await kubelet.pods() == ()


async def test_a_way_that_closes_is_left() -> None:
    port = direct(pods=pods(pod()))
    api = FakeApiServer({"/api/v1/pods": pods()})

    async with asking(port, api) as kubelet:
        assert await kubelet.pods() == (WEB,)
        port.answers = {}
        assert await kubelet.pods() == ()


async def test_pod_has_its_start_and_its_source() -> None:
    own, bound = pod("own"), pod("bound")
    own["metadata"]["annotations"] = {"kubernetes.io/config.source": "api"}
    own["metadata"]["creationTimestamp"] = "1970-01-01T00:01:40Z"

    async with asking(direct(pods=pods(own, bound))) as kubelet:
        assert [(each.created, each.from_kubelet) for each in await kubelet.pods()] == [
            (100, True),
            (0, False),
        ]


async def test_pods_are_read_with_their_relevant_fields() -> None:
    ending = pod("ending", status={"phase": "Failed"})
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    async with asking(direct(pods=pods(ending, pod("new", status={})))) as kubelet:
        assert await kubelet.pods() == (
            KubeletPod("uid-ending", "default", "ending", "Failed", deleted=True),
            KubeletPod("uid-new", "default", "new", "", deleted=False),
        )


@pytest.mark.parametrize(
    ("fields", "keeps"),
    [
        ({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}, True),
        ({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}, True),
        ({"resources": {"limits": {"example.com/gpu": "1"}}}, True),
        ({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}, False),
        ({"resources": {"limits": {"cpu": "1500m"}}}, False),
        ({"resources": {"requests": {"cpu": "2"}}}, False),
        ({"resources": {"limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"}}}, False),
        ({"resources": {"limits": {"cpu": "2"}}, "restartPolicy": "Always"}, False),
        ({}, False),
    ],
    ids=map(str, range(9)),
)
async def test_init_containers_are_named_that_may_keep_something(fields: dict[str, Any], keeps: bool) -> None:  # noqa: FBT001  what is expected
    spec = {"initContainers": [{"name": "init", **fields}], "containers": [{"name": "app"}]}
    async with asking(direct(pods=pods(pod(spec=spec)))) as kubelet:
        (read,) = await kubelet.pods()
    assert read.init_containers == (("init",) if keeps else ())


@pytest.mark.parametrize(
    ("annotations", "static"),
    [
        ({"kubernetes.io/config.source": "api"}, False),
        ({"kubernetes.io/config.source": "file"}, True),
        ({"kubernetes.io/config.source": "http"}, True),
        ({"kubernetes.io/config.mirror": "4cbf"}, True),
        (None, False),
    ],
    ids=map(str, range(5)),
)
async def test_a_pod_from_a_file_is_a_static_one(annotations: object, *, static: bool) -> None:
    web = pod()
    web["metadata"]["annotations"] = annotations
    async with asking(direct(pods=pods(web))) as kubelet:
        (read,) = await kubelet.pods()
    assert read.static is static


@pytest.mark.parametrize(
    "answer",
    ["", "[", "[]", {}, {"kubeletconfig": None}, {"kubeletconfig": ["static"]}],
    ids=map(str, range(6)),
)
async def test_invalid_configuration_raises(answer: object) -> None:
    async with asking(direct(configz=answer)) as kubelet:
        with pytest.raises(Unreachable, match="the kubelet's configuration is invalid"):
            await kubelet.configuration()


@pytest.mark.parametrize(
    "answer",
    [
        "",
        {},
        {"kind": "Status"},
        {**pods(), "items": {}},
        pods("pod"),
        pods(pod(metadata={"name": "web"})),
        pods(pod(metadata={"uid": "u\nid", "namespace": "default", "name": "web"})),
        pods(pod(status={"phase": 1})),
        pods(pod(spec={"initContainers": [{"resources": {"limits": {"cpu": "much"}}}]})),
    ],
    ids=map(str, range(9)),
)
async def test_invalid_pods_raise(answer: object) -> None:
    async with asking(direct(pods=answer)) as kubelet:
        with pytest.raises(Unreachable, match="list of the kubelet's pods is invalid"):
            await kubelet.pods()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("401 Unauthorized", Unauthorized),
        ("403 Forbidden", Forbidden),
        ("404 Not Found", NotFound),
        ("503 Service Unavailable", Unreachable),
    ],
)
async def test_refusal_has_its_kind(status: str, error: type[ClusterError]) -> None:
    async with asking(refusing(status, "x" * 1000)) as kubelet:
        with pytest.raises(
            error, match=f"answered {status[:3]} for the list of the kubelet's pods .x{{197}}"
        ):
            await kubelet.pods()


async def test_a_node_without_a_version_makes_no_sense() -> None:
    async with asking(direct(configz=CONFIGZ), FakeApiServer({"/api/v1/nodes/n1": {}})) as kubelet:
        with pytest.raises(Unreachable, match=r"node n1 is invalid: .*kubeletVersion: is missing"):
            await kubelet.configuration()


async def test_the_name_of_a_node_leads_nowhere_else() -> None:
    api = FakeApiServer({"/api/v1/nodes/..%2Fpods": NODE})
    async with scripted(direct(configz=CONFIGZ)) as number:
        client = HttpsClient(HttpsEndpoint("127.0.0.1", number, plain))
        told = await KubeletApi("../pods", direct=client, api=api).configuration()
        client.close()

    assert told == TOLD


async def test_requests_of_guaranteed_containers_are_read() -> None:
    spec = {
        "initContainers": [
            {"name": "init", "resources": {"limits": {"cpu": "1"}}},
            {"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {"cpu": "500m"}}},
        ],
        "containers": [
            {"name": "app", "resources": {"limits": {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}}},
            {"name": "side", "resources": {"limits": {"example.com/nic": "0"}}},
        ],
    }
    guaranteed = pod(spec=spec, status={"phase": "Running", "qosClass": "Guaranteed"})
    burstable = pod(spec=spec, status={"phase": "Running", "qosClass": "Burstable"})
    whole = pod(spec=spec | {"resources": {"limits": {"cpu": "4"}}}, status={"qosClass": "Guaranteed"})

    async with asking(direct(pods=pods(guaranteed, burstable, whole))) as kubelet:
        read = await kubelet.pods()

    every = frozenset({"cpu", "memory", "example.com/gpu"})
    assert read[0].asking == (
        AskingContainer("proxy", resources=frozenset({"cpu"})),
        AskingContainer("app", cpus=True, memory=True, resources=every),
        AskingContainer("side"),
    )
    assert not any(each.cpus or each.memory for each in (*read[1].asking, *read[2].asking))
    assert [each.resources for each in read[2].asking] == [frozenset({"cpu"}), every, frozenset()]


async def test_pod_of_many_resources_hides_no_other_pod() -> None:
    """Whoever may make pods can name any number of them: of zero of each every node has enough."""
    limits = {f"example.com/none-{number}": "0" for number in range(300)} | {"example.com/gpu": "1"}
    container = {"name": "app", "resources": {"limits": limits, "requests": limits}}
    greedy = pod("greedy", spec={"initContainers": [container], "containers": [container]})

    async with asking(direct(pods=pods(pod(), greedy))) as kubelet:
        read = await kubelet.pods()

    assert [each.uid for each in read] == ["uid-web", "uid-greedy"]
    assert read[1].asking == (AskingContainer("app", resources=frozenset({"example.com/gpu"})),)
    assert read[1].init_containers == ("app",)
