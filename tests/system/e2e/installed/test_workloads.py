"""Whoever applies a workload learns at once that its pods could never run."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from tests.system.e2e.clusters import Cluster
from tools.clusters.api_requests import INTENT, Json, gpus, pod

pytestmark = pytest.mark.asyncio(loop_scope="session")

Kubectl = Callable[..., Awaitable[tuple[int, str]]]


def deployment(*, asks: Json) -> Json:
    template = pod("", asks=asks)
    labels = {"app": "trainer"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trainer", "namespace": "team"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": INTENT}, "spec": template["spec"]},
        },
    }


def cron_job(*, asks: Json) -> Json:
    inner = deployment(asks=asks)["spec"]["template"]
    inner["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "team"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": inner}}},
    }


MAKERS = {"deployment.apps/trainer": deployment, "cronjob.batch/nightly": cron_job}


@pytest.mark.parametrize("named", MAKERS)
@pytest.mark.usefixtures("cluster")
async def test_impossible_workload_warns_at_apply(kubectl: Kubectl, tmp_path: Path, named: str) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(yaml.safe_dump(MAKERS[named](asks=gpus(64))))

    code, output = await kubectl("apply", f"--filename={file}")

    assert code == 0, output
    assert f"{named} created" in output
    assert "Warning: numalign" in output
    assert "nvidia.com/gpu" in output


@pytest.mark.parametrize("named", MAKERS)
async def test_possible_workload_is_stored_unchanged(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path, named: str
) -> None:
    wish = MAKERS[named](asks=gpus(2))
    wish["metadata"]["name"] += "-fits"
    file = tmp_path / "workload.yaml"
    file.write_text(yaml.safe_dump(wish))

    code, output = await kubectl("apply", f"--filename={file}")

    assert (code, output) == (0, f"{named}-fits created\n")
    assert "affinity" not in str((await cluster.store.read(wish)).body["spec"])
