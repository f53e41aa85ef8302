"""Whoever applies a workload learns at once that its pods could never run."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from tests.system.e2e.clusters import Cluster
from tools.clusters.api_requests import INTENT, Json, gpus, pod

pytestmark = pytest.mark.asyncio(loop_scope="session")

Kubectl = Callable[..., Awaitable[tuple[int, str]]]


def workload(kind: str, name: str, asks: Json) -> Json:
    labels = {"app": "trainer"}
    template = {"metadata": {"labels": labels, "annotations": INTENT}, "spec": pod("", asks=asks)["spec"]}
    metadata = {"name": name, "namespace": "team"}
    if kind == "Deployment":
        spec: Json = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
    template["spec"] |= {"restartPolicy": "Never"}
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("kind", "created"), [("Deployment", "deployment.apps"), ("CronJob", "cronjob.batch")]
)
async def test_impossible_workload_warns_and_a_possible_one_is_stored(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path, kind: str, created: str
) -> None:
    outputs, file = {}, tmp_path / "workload.yaml"
    for name, count in (("wide", 64), ("fits", 2)):
        wish = workload(kind, name, gpus(count))
        file.write_text(yaml.safe_dump(wish))
        code, outputs[name] = await kubectl("apply", f"--filename={file}")
        assert code == 0, outputs
        assert "affinity" not in str((await cluster.store.read(wish)).body["spec"])

    for text in (f"{created}/wide created", "Warning: numalign", "nvidia.com/gpu"):
        assert text in outputs["wide"]
    assert outputs["fits"] == f"{created}/fits created\n"
