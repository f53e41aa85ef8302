"""A small cluster in a file, and the program as somebody would run it."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import yaml
from click.testing import CliRunner, Result

from kubectl_numa.cli import program
from kubectl_numa.questions import ClusterView
from numalign.kube.files import snapshot
from tests.unit.kubectl_numa.objects import ITEMS, manifest

Run = Callable[..., Result]


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """The cluster as a snapshot."""
    path = tmp_path / "cluster.json"
    items = [*ITEMS, manifest("stored", "4")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


@pytest.fixture
def cluster(cluster_file: Path) -> ClusterView:
    """The cluster, ready to be asked."""
    return ClusterView(snapshot.load(cluster_file))


@pytest.fixture
def run() -> Run:
    """The program in a pipe of 80 columns, with no kubeconfig."""

    def invoke(*arguments: object, stdin: str | None = None, **environment: str | None) -> Result:
        plain = {"COLUMNS": "80", "KUBECONFIG": "/nowhere/config", "FORCE_COLOR": None, "NO_COLOR": None}
        return CliRunner().invoke(
            program,
            list(map(str, arguments)),
            input=stdin,
            env={**plain, **environment},
            prog_name="kubectl-numa",
        )

    return invoke


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes documents into a file, objects as YAML."""

    def to(name: str, *documents: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = (each if isinstance(each, str) else yaml.safe_dump(each) for each in documents)
        path.write_text("\n---\n".join(texts))
        return path

    return to


class Quiet(WSGIRequestHandler):
    """Says nothing of the calls it gets."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 the base class's signature
        """Keep quiet."""


@pytest.fixture
def objects() -> dict[str, Any]:
    """Single objects that the API server has, by path."""
    return {}


@pytest.fixture
def refusals() -> dict[str, str]:
    """What else is answered than 404, by path."""
    return {}


@pytest.fixture
def api_server(
    cluster_file: Path,
    tmp_path: Path,
    objects: dict[str, Any],
    refusals: dict[str, str],
) -> Any:  # noqa: ANN401 a generator fixture
    """A kubeconfig of a small API server that serves the cluster."""
    items = json.loads(cluster_file.read_text())["items"]
    kinds = {
        "/api/v1/nodes": "Node",
        "/api/v1/namespaces": "Namespace",
        "/api/v1/pods": "Pod",
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies": "NodeResourceTopology",
    }
    pod = next(item for item in items if item["kind"] == "Pod")

    def serve(environ: dict[str, Any], start: Callable[..., object]) -> list[bytes]:
        path = environ["PATH_INFO"]
        found = {"items": [item for item in items if item["kind"] == kinds.get(path)]}
        placed = {**pod, "metadata": {**pod["metadata"], "namespace": "eager"}}
        alone = {"/api/v1/namespaces/eager/pods/stored": placed, **objects}
        one = alone.get(path, found)
        known = path not in refusals and (path in kinds or path in alone)
        status = "200 OK" if known else refusals.get(path, "404 Not Found")
        start(status, [("Content-Type", "application/json")])
        return [json.dumps(one).encode()]

    with make_server("127.0.0.1", 0, serve, handler_class=Quiet) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        named = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "eager"}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(named))
        yield path
        server.shutdown()
