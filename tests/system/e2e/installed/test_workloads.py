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
    """A Deployment whose pods ask for `asks`."""
    template = pod("", asks=asks)
    labels = {"app": "trainer"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trainer", "namespace": "team"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": INTENT},
                "spec": template["spec"],
            },
        },
    }


def cron_job(*, asks: Json) -> Json:
    """The same, deeper."""
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

    code, said = await kubectl("apply", f"--filename={file}")

    assert code == 0, said
    assert f"{named} created" in said
    assert "Warning: numalign" in said
    assert "nvidia.com/gpu" in said


@pytest.mark.parametrize("named", MAKERS)
async def test_possible_workload_is_stored_unchanged(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path, named: str
) -> None:
    wish = MAKERS[named](asks=gpus(2))
    wish["metadata"]["name"] += "-fits"
    file = tmp_path / "workload.yaml"
    file.write_text(yaml.safe_dump(wish))

    code, said = await kubectl("apply", f"--filename={file}")

    assert (code, said) == (0, f"{named}-fits created\n")
    assert "affinity" not in str((await cluster.store.read(wish)).body["spec"])


def runtime(*, asks: Json) -> list[Json]:
    """A ClusterTrainingRuntime of Kubeflow Trainer, after its kind."""
    kind, plural, group = "ClusterTrainingRuntime", "clustertrainingruntimes", "trainer.kubeflow.org"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "scope": "Cluster",
        "names": {"kind": kind, "plural": plural},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
    }
    template = deployment(asks=asks)["spec"]["template"]
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": spec,
        },
        {
            "apiVersion": f"{group}/v1alpha1",
            "kind": kind,
            "metadata": {"name": "torch"},
            "spec": {"template": {"spec": {"replicatedJobs": jobs}}},
        },
    ]


@pytest.mark.usefixtures("cluster")
async def test_a_template_without_a_namespace_is_reviewed_too(kubectl: Kubectl, tmp_path: Path) -> None:
    kind, made = (tmp_path / name for name in ("kind.yaml", "made.yaml"))
    for file, document in zip((kind, made), runtime(asks=gpus(64)), strict=True):
        file.write_text(yaml.safe_dump(document))
    await kubectl("apply", f"--filename={kind}")
    await kubectl("wait", "--for=condition=Established", f"--filename={kind}")

    code, said = await kubectl("apply", f"--filename={made}")
    await kubectl("delete", f"--filename={kind}")

    assert code == 0, said
    assert "Warning: numalign: " in said
    assert "no node can align" in said
