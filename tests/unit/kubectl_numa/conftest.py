"""The program in a pipe, and the small cluster in a file or on an API server."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubectl_numa.cli import program
from kubectl_numa.questions import ClusterView
from numalign.kube.files import snapshot
from tests.unit.kubectl_numa.objects import ITEMS, manifest
from tests.worlds.objects import Json, listed
from tools.clusters.fake_api import FakeApi

STORED = manifest("stored", "4")


@dataclass(frozen=True)
class Cli:
    """Called, it runs the program in a pipe of 80 columns, without a kubeconfig."""

    folder: Path

    def __call__(
        self, *arguments: object, stdin: str | None = None, width: int = 80, **environment: str
    ) -> Result:
        plain = {
            "COLUMNS": str(width),
            "KUBECONFIG": "/nowhere/config",
            "FORCE_COLOR": None,
            "NO_COLOR": None,
        }
        env, words = {**plain, **environment}, list(map(str, arguments))
        return CliRunner().invoke(program, words, input=stdin, env=env, prog_name="kubectl-numa")

    def text(self, *arguments: object, width: int = 400) -> str:
        """Return what a successful command prints on a wide terminal."""
        result = self(*arguments, width=width)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: object) -> Any:  # noqa: ANN401  any value
        result = self(*arguments, "-o", "json")
        assert result.exit_code < 2, result.output
        return json.loads(result.stdout)

    def write(self, name: str, *documents: object) -> Path:
        """Write a file of documents, objects as YAML."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = (each if isinstance(each, str) else yaml.safe_dump(each) for each in documents)
        path.write_text("\n---\n".join(texts))
        return path

    def cluster(self, *objects: object, items: list[Json] = ITEMS) -> Path:
        """Write a snapshot of the small cluster and these objects."""
        return self.write("cluster.json", json.dumps(listed(*items, *objects)))

    def check(self, *pods: object) -> tuple[object, ...]:
        """Return the words that check these manifests against the small cluster."""
        return ("check", "-f", self.write("pods.yaml", *pods), "--snapshot", self.cluster(STORED))

    def explain(self, *pods: object) -> tuple[object, ...]:
        """Return the words that explain these manifests on the small cluster."""
        return ("explain", *self.check(*pods)[1:])


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def cluster_file(cli: Cli) -> Path:
    """A snapshot of the small cluster with a pod."""
    return cli.cluster(STORED)


@pytest.fixture
def cluster(cluster_file: Path) -> ClusterView:
    return ClusterView(snapshot.load(cluster_file))


LISTS = {
    "/api/v1/nodes": "Node",
    "/api/v1/namespaces": "Namespace",
    "/api/v1/pods": "Pod",
    "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies": "NodeResourceTopology",
}


@dataclass
class ReadOnlyApi:
    """An API server of the small cluster: `objects` and `failures` by path, 404 for everything else."""

    kubeconfig: Path
    items: list[Json]
    objects: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    def answer(self, path: str) -> tuple[int, object]:
        if path in self.failures:
            return self.failures[path], {}
        if path in self.objects:
            return 200, self.objects[path]
        items = [item for item in self.items if item["kind"] == LISTS.get(path)]
        return (200, {"items": items}) if path in LISTS else (404, {})


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ReadOnlyApi]:
    """An API server whose kubeconfig names the namespace `eager`."""
    api = ReadOnlyApi(tmp_path / "kubeconfig", [*ITEMS, STORED])
    placed = {**STORED, "metadata": {**STORED["metadata"], "namespace": "eager"}}
    api.objects["/api/v1/namespaces/eager/pods/stored"] = placed

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, document = api.answer(self.path.partition("?")[0])
            # A command that fails does not wait for the answers to its other requests.
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        kubeconfig(api.kubeconfig, f"http://127.0.0.1:{server.server_port}", eager="eager")
        yield api
        server.shutdown()


class FakeCluster:
    """A fake API server on a loop of its own, for a program that has one itself."""

    def __init__(self, folder: Path) -> None:
        self.api, self.loop = FakeApi(), asyncio.new_event_loop()
        self.kubeconfig = folder / "kubeconfig"

    def do(self, what: Callable[[], object]) -> Any:  # noqa: ANN401  any value
        """Call a function in the thread of the server."""

        async def call() -> object:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(10)

    def put(self, *objects: Json) -> None:
        self.do(lambda: [self.api.put(each) for each in objects])

    def fail(self, call: Any, status: HTTPStatus) -> None:  # noqa: ANN401  a path, or a method and a path
        self.do(lambda: self.api.failures.update({call: status}))

    def gates(self, name: str, namespace: str = "team") -> list[str]:
        """Return the scheduling gates of a pod."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return [gate["name"] for gate in self.do(lambda: self.api.get(path))["spec"]["schedulingGates"]]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeCluster]:
    """A cluster whose kubeconfig names the namespace `team`."""
    made = FakeCluster(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(made.loop.run_forever)
        asyncio.run_coroutine_threadsafe(made.api.start(), made.loop).result(10)
        made.api.kubeconfig(made.kubeconfig, namespace="team")
        yield made
        asyncio.run_coroutine_threadsafe(made.api.stop(), made.loop).result(10)
        made.loop.call_soon_threadsafe(made.loop.stop)
    made.loop.close()


def kubeconfig(path: Path, server: str = "http://127.0.0.1:1", **namespaces: str) -> str:
    """Write a kubeconfig with a context for each of these namespaces; the first is the current one."""
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
        for name, namespace in namespaces.items()
    ]
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": contexts,
        "current-context": contexts[0]["name"],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)
