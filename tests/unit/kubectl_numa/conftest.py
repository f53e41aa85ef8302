"""The program in a pipe, and the small cluster in a file or on an API server."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
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
        texts = (
            each if isinstance(each, str) else yaml.dump(each, Dumper=yaml.CSafeDumper) for each in documents
        )
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


@dataclass(frozen=True)
class FakeCluster:
    """A fake API server for programs with a loop of their own."""

    kubeconfig: Path
    api: FakeApi = field(default_factory=FakeApi)

    def put(self, *objects: Json) -> None:
        for each in objects:
            self.api.put(each)

    def gates(self, name: str, namespace: str = "team") -> list[str]:
        """Return the scheduling gates of a pod."""
        pod = self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}") or {}
        return [gate["name"] for gate in pod["spec"]["schedulingGates"]]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeCluster]:
    """An empty cluster whose kubeconfig names the namespace `team`."""
    made, loop = FakeCluster(tmp_path / "kubeconfig"), asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(loop.run_forever)
        asyncio.run_coroutine_threadsafe(made.api.start(), loop).result(10)
        made.api.kubeconfig(made.kubeconfig, namespace="team")
        yield made
        asyncio.run_coroutine_threadsafe(made.api.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
    loop.close()


@pytest.fixture
def served(fake: FakeCluster) -> FakeCluster:
    """The small cluster with a pod in `eager`, the namespace of its kubeconfig."""
    fake.api.kubeconfig(fake.kubeconfig, namespace="eager")
    fake.put(*ITEMS, {**STORED, "metadata": {**STORED["metadata"], "namespace": "eager"}})
    return fake
