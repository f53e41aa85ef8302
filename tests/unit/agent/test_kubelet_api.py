"""What a kubelet is asked over HTTPS, and the ways there."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from agent import config_file
from agent.https import ApiServer, HttpsClient
from agent.kubelet_api import KubeletApi
from agent.observation import AskingContainer, KubeletPod
from numalign.kube.access import Access
from numalign.kube.errors import ClusterError, Forbidden, NotFound, Unauthorized, Unconfigured, Unreachable
from tests.unit.agent.scripted import request, response, scripted
from tests.worlds.notation import table

Raw = dict[str, Any]

NODE = {"status": {"nodeInfo": {"kubeletVersion": "v1.34.4"}}}
CONFIGZ = {"kubeletconfig": {"cpuManagerPolicy": "static", "address": "0.0.0.0"}}  # noqa: S104  nobody listens
TOLD = {"cpuManagerPolicy": "static", "version": "v1.34.4"}
PROXIED = "/api/v1/nodes/n1/proxy/configz"


def pod(name: str = "web", **fields: object) -> Raw:
    metadata = {"uid": f"uid-{name}", "namespace": "default", "name": name}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}, **fields}


def pods(*items: object) -> Raw:
    return {"kind": "PodList", "apiVersion": "v1", "items": [*items]}


WEB = KubeletPod("uid-web", "default", "web", "Running", deleted=False)


@dataclass
class FakeApiServer(ApiServer):
    """What an API server answers by path; an error is raised."""

    answers: dict[str, object] = field(default_factory=lambda: {"/api/v1/nodes/n1": NODE})
    asked: list[str] = field(default_factory=list)

    async def get(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int = 0
    ) -> object:
        self.asked.append(path)
        answer = self.answers.get(path, NotFound(f"{what} is not there"))
        if isinstance(answer, ClusterError):
            raise answer
        assert most
        assert query or path != "/api/v1/pods"
        return answer

    async def read(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, what: str, most: int = 0
    ) -> bytes:
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
        client = HttpsClient(Access(f"http://127.0.0.1:{number}"))
        yield KubeletApi("n1", direct=client if port else None, api=api, file=file)
        client.close()


def direct(**answers: object) -> FakePort:
    return FakePort({f"/{path}": ("200 OK", body) for path, body in answers.items()})


async def pods_of(*items: object) -> tuple[KubeletPod, ...]:
    async with asking(direct(pods=pods(*items))) as kubelet:
        return await kubelet.pods()


def refusing(status: str = "403 Forbidden", body: str = "Forbidden (user=agent, verb=get)") -> FakePort:
    return FakePort({"/configz": (status, body), "/pods": (status, body)})


async def test_the_kubelet_itself_is_read_first() -> None:
    async with asking(direct(configz=CONFIGZ, pods=pods(pod())), api := FakeApiServer()) as kubelet:
        assert await kubelet.configuration() == TOLD
        assert await kubelet.pods() == (WEB,)
    assert api.asked == ["/api/v1/nodes/n1"]
    # Only the API server knows the version.
    async with asking(direct(configz=CONFIGZ)) as kubelet:
        assert await kubelet.configuration() == {"cpuManagerPolicy": "static"}


@pytest.mark.parametrize("port", [refusing(), None], ids=["forbidden", "of unknown address"])
async def test_kubelet_is_read_through_the_api_server_if(port: FakePort | None) -> None:
    api = FakeApiServer({"/api/v1/nodes/n1": NODE, PROXIED: CONFIGZ})
    async with asking(port, api) as kubelet:
        assert await kubelet.configuration() == TOLD


async def test_all_ways_forbidden_lists_each_reason() -> None:
    api = FakeApiServer({PROXIED: Forbidden("not allowed to read it: nodes/proxy")})
    async with asking(refusing(), api) as kubelet:
        with pytest.raises(Forbidden, match=r"answered 403 .*verb=get.*; not allowed .*: nodes/proxy"):
            await kubelet.configuration()


async def test_no_known_way_is_an_error() -> None:
    async with asking() as kubelet:
        with pytest.raises(Unconfigured, match="set --node-address or configure an API server"):
            await kubelet.configuration()
        with pytest.raises(Unconfigured, match="the list of the kubelet's pods cannot be read"):
            await kubelet.pods()


async def test_config_file_replaces_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, read = tmp_path / "config.json", AsyncMock(wraps=config_file.read)
    monkeypatch.setattr(config_file, "read", read)
    async with asking(port := direct(configz=CONFIGZ), FakeApiServer(), file) as kubelet:
        for policy in ("static", "none"):
            file.write_text(f'{{"kind": "KubeletConfiguration", "cpuManagerPolicy": "{policy}"}}')
            for found in (await kubelet.configuration(), await kubelet.configuration()):
                assert (found["cpuManagerPolicy"], found["version"]) == (policy, "v1.34.4")
    assert (port.asked, read.await_count) == ([], 2)


async def test_working_way_is_reused_for_pods() -> None:
    port = refusing()
    api = FakeApiServer({"/api/v1/nodes/n1": NODE, "/api/v1/pods": pods(pod())})
    async with asking(port, api) as kubelet:
        assert [await kubelet.pods() for _ in range(3)] == [(WEB,)] * 3
        assert port.asked == ["/pods"]
        port.answers = direct(pods=pods(), configz=CONFIGZ).answers
        await kubelet.configuration()
        assert await kubelet.pods() == ()
        # A way that closes is left.
        port.answers = {}
        assert await kubelet.pods() == (WEB,)


async def test_pods_are_read_with_their_relevant_fields() -> None:
    ending, own = pod("ending", status={"phase": "Failed"}), pod("own", status={})
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    own["metadata"]["annotations"] = {"kubernetes.io/config.source": "api"}
    own["metadata"]["creationTimestamp"] = "1970-01-01T00:01:40Z"
    assert await pods_of(ending, own) == (
        KubeletPod("uid-ending", "default", "ending", "Failed", deleted=True),
        KubeletPod("uid-own", "default", "own", "", deleted=False, created=100, from_kubelet=True),
    )


@pytest.mark.parametrize(("resources", "keeps"), table([
    # what it asks for          its resources                                                   keeps
    ("whole CPUs",              {"limits": {"cpu": "2", "memory": "1Gi"}},                      True),
    ("CPUs, all requested",     {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}},             True),
    ("devices",                 {"limits": {"example.com/gpu": "1"}},                           True),
    ("CPUs, partly requested",  {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},             False),
    ("parts of CPUs",           {"limits": {"cpu": "1500m"}},                                   False),
    ("CPUs without a limit",    {"requests": {"cpu": "2"}},                                     False),
    ("memory and disk",         {"limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"}},      False),
]))  # fmt: skip
async def test_init_container_may_keep(resources: Raw | None, *, keeps: bool) -> None:
    init = {"name": "init", "resources": resources}
    spec = {"initContainers": [init, {**init, "restartPolicy": "Always"}], "containers": [{"name": "app"}]}
    [read] = await pods_of(pod(spec=spec))
    assert read.init_containers == (("init",) if keeps else ())


async def test_a_pod_from_a_file_is_a_static_one() -> None:
    sources = [{"kubernetes.io/config.source": source} for source in ("file", "http", "api")]
    for annotations, static in zip([{"kubernetes.io/config.mirror": "4cbf"}, *sources], "yyyn", strict=True):
        (web := pod())["metadata"]["annotations"] = annotations
        assert [each.static for each in await pods_of(web)] == [static == "y"]


@pytest.mark.parametrize(
    "answer", ["", "[", "[]", {}, {"kubeletconfig": None}, {"kubeletconfig": ["static"]}]
)
async def test_invalid_configuration_raises(answer: object) -> None:
    async with asking(direct(configz=answer)) as kubelet:
        with pytest.raises(Unreachable, match="the kubelet's configuration is invalid"):
            await kubelet.configuration()


INVALID: list[object] = [
    "", {"kind": "Status"}, {**pods(), "items": {}}, pods("pod"), pods(pod(metadata={"name": "web"})),
    pods(pod(metadata={"uid": "u\nid", "namespace": "default", "name": "web"})),
    pods(pod(status={"phase": 1})),
    pods(pod(spec={"initContainers": [{"resources": {"limits": {"cpu": "much"}}}]})),
]  # fmt: skip


@pytest.mark.parametrize("answer", INVALID, ids=map(str, range(len(INVALID))))
async def test_invalid_pods_raise(answer: object) -> None:
    async with asking(direct(pods=answer)) as kubelet:
        with pytest.raises(Unreachable, match="list of the kubelet's pods is invalid"):
            await kubelet.pods()


@pytest.mark.parametrize(
    ("status", "error"),
    [("401 No", Unauthorized), ("403 No", Forbidden), ("404 No", NotFound), ("503 No", Unreachable)],
)
async def test_refusal_has_its_kind(status: str, error: type[ClusterError]) -> None:
    text = f"answered {status[:3]} for the list of the kubelet's pods .x{{197}}"
    async with asking(refusing(status, "x" * 1000)) as kubelet:
        with pytest.raises(error, match=text):
            await kubelet.pods()


async def test_a_node_without_a_version_makes_no_sense() -> None:
    async with asking(direct(configz=CONFIGZ), FakeApiServer({"/api/v1/nodes/n1": {}})) as kubelet:
        with pytest.raises(Unreachable, match=r"node n1 is invalid: .*kubeletVersion: is missing"):
            await kubelet.configuration()


async def test_the_name_of_a_node_leads_nowhere_else() -> None:
    path = "/api/v1/nodes/..%2Fpods"
    api = FakeApiServer({path: NODE, f"{path}/proxy/configz": CONFIGZ})
    assert await KubeletApi("../pods", direct=None, api=api).configuration() == TOLD


async def test_requests_of_guaranteed_containers_are_read() -> None:
    def container(name: str, *, policy: str = "", **limits: str) -> Raw:
        gpu = {"example.com/gpu": limits.pop("gpu")} if "gpu" in limits else {}
        return {"name": name, "restartPolicy": policy, "resources": {"limits": {**limits, **gpu}}}

    init, proxy = container("init", cpu="1"), container("proxy", policy="Always", cpu="500m")
    app, side = container("app", cpu="2", memory="1Gi", gpu="1"), container("side", gpu="0")
    spec: Raw = {"initContainers": [init, proxy], "containers": [app, side]}
    guaranteed = pod(spec=spec, status={"phase": "Running", "qosClass": "Guaranteed"})
    burstable = pod(spec=spec, status={"phase": "Running", "qosClass": "Burstable"})
    whole = pod(spec=spec | {"resources": {"limits": {"cpu": "4"}}}, status={"qosClass": "Guaranteed"})

    read = await pods_of(guaranteed, burstable, whole)
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
    read = await pods_of(pod(), greedy)
    assert [each.uid for each in read] == ["uid-web", "uid-greedy"]
    assert read[1].asking == (AskingContainer("app", resources=frozenset({"example.com/gpu"})),)
    assert read[1].init_containers == ("app",)
