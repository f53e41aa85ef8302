"""Clusters come from files, and what is left out is told."""

import io
import json
from pathlib import Path

import pytest

from kubectl_numa import clusters
from kubectl_numa.clusters import Source
from numalign.cluster.api import ClusterError
from numalign.rules.errors import BadInput


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
    assert source.pod("stored", namespace=None, found=found)["metadata"]["name"] == "stored"
    with pytest.raises(BadInput, match="holds no pod team-a/stored: give its manifest with -f"):
        source.pod("stored", namespace="team-a", found=found)


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
