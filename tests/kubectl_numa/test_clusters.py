"""Clusters come from files, and what is left out is told."""

import io
import json
from pathlib import Path

import pytest

from kubectl_numa import clusters
from kubectl_numa.clusters import Source
from kubectl_numa.manifests import Namespace
from numalign.cluster.api import ClusterError
from numalign.rules.errors import BadInput
from tests.notation import table


def test_a_snapshot_is_read(cluster_file: Path) -> None:
    found = clusters.cluster(Source(str(cluster_file)).documents())
    assert [node.name for node in found.fleet.nodes] == ["big", "small"]


def test_standard_input_is_one_too(cluster_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(cluster_file.read_bytes())))
    assert clusters.cluster(Source("-").documents()).unknown == ("hidden",)


def test_without_a_file_the_kubeconfig_is_asked() -> None:
    with pytest.raises(ClusterError, match=r"there is no kubeconfig at /nowhere.*or read a file"):
        Source(kubeconfig="/nowhere").documents()


def test_a_pod_can_be_taken_out_of_a_snapshot(cluster_file: Path) -> None:
    source = Source(str(cluster_file))
    found = source.documents()
    assert source.pod("stored", namespace="default", found=found)["metadata"]["name"] == "stored"
    with pytest.raises(BadInput, match="holds no pod team-a/stored: give its manifest with -f"):
        source.pod("stored", namespace="team-a", found=found)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig with two contexts, and a namespace in each."""
    contexts = {"one": "team-a", "two": "team-b"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            for name, namespace in contexts.items()
        ],
        "current-context": "one",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("snapshot", "named", "context", "asked", "meant"),
    table(
        [
            ("a cluster: its context", None, True, None, None, Namespace("team-a")),
            ("a cluster: another context", None, True, "two", None, Namespace("team-b")),
            ("a cluster: the option", None, True, None, "team-c", Namespace("team-c", asked=True)),
            ("a file has no context", "file", False, None, None, Namespace("default")),
            ("beside a file one is named", "file", True, None, None, Namespace("team-a")),
            ("beside a file: the option", "file", True, None, "team-c", Namespace("team-c", asked=True)),
        ]
    ),
)
def test_the_namespace_is_that_of_the_context(  # noqa: PLR0913, PLR0917 - the fixtures and the table
    kubeconfig: str,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: str | None,
    named: bool,  # noqa: FBT001 - a column of the table
    context: str | None,
    asked: str | None,
    meant: Namespace,
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    source = Source(snapshot, kubeconfig if named else None, context)
    assert source.namespace(asked) == meant


def test_a_context_that_is_not_there_is_told(kubeconfig: str) -> None:
    with pytest.raises(ClusterError, match="elsewhere"):
        Source(kubeconfig=kubeconfig, context="elsewhere").namespace(None)


def test_broken_objects_are_told_and_the_rest_is_used(
    cluster_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = json.loads(cluster_file.read_text())
    zoneless = {**taken["items"][0], "metadata": {"name": "broken"}, "zones": [{"name": "x"}]}
    broken = [{**zoneless, "metadata": {"name": f"broken-{number}"}} for number in range(12)]
    found = clusters.cluster([{**taken, "items": [*taken["items"], *broken]}])
    assert len(found.fleet.nodes) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("left out: NodeResourceTopology broken-0: ")
    assert told[-1] == "left out: 2 more objects"
