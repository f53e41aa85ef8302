"""version: what runs here and in the cluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from numalign.runtime import about

Run = Callable[..., Result]
Objects = dict[str, Any]

OURS = about.version()


def pod(program: str, image: str, *, ready: bool = True, **labels: str) -> dict[str, Any]:
    """A pod of ours."""
    component = {"app.kubernetes.io/name": "numalign", "app.kubernetes.io/component": program}
    return {
        "metadata": {"namespace": "numa", "name": program, "labels": {**component, **labels}},
        "spec": {"containers": [{"name": "beside", "image": "x:9"}, {"name": program, "image": image}]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


@pytest.fixture
def installed(objects: Objects) -> Callable[..., Objects]:
    """A cluster with these pods of ours."""

    def of(*pods: dict[str, Any]) -> Objects:
        objects["/version"] = {"gitVersion": "v1.34.2"}
        objects["/api/v1/pods"] = {"items": [*pods]}
        return objects

    return of


def test_the_client_alone_asks_nobody(run: Run) -> None:
    assert run("version", "--client").stdout == f"client      {OURS}\n"


def test_every_program_says_its_version_and_how_many_pods_are_ready(
    run: Run, api_server: Path, installed: Callable[..., Objects]
) -> None:
    image = f"registry:5000/numalign:{OURS}"
    installed(
        pod("webhook", image), pod("webhook", image, ready=False), pod("scheduler", "kube-scheduler:v1.34.2")
    )

    result = run("version", "--kubeconfig", api_server)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"client      {OURS}\n"
        "kubernetes  v1.34.2\n"
        "scheduler   v1.34.2  1 pod in numa, all ready\n"
        f"webhook     {OURS}  2 pods in numa, 1 ready\n"
    )


def test_programs_read_the_same(run: Run, api_server: Path, installed: Callable[..., Objects]) -> None:
    installed(pod("agent", f"numalign:{OURS}@sha256:abc"))
    expected = {
        "client": OURS,
        "kubernetes": "v1.34.2",
        "programs": [
            {
                "program": "agent",
                "namespace": "numa",
                "version": OURS,
                "image": f"numalign:{OURS}@sha256:abc",
                "pods": 1,
                "ready": 1,
            }
        ],
        "skew": [],
    }

    assert json.loads(run("version", "--kubeconfig", api_server, "-o", "json").stdout) == expected
    assert yaml.safe_load(run("version", "--kubeconfig", api_server, "-o", "yaml").stdout) == expected


def test_programs_of_several_versions_are_warned_of(
    run: Run, api_server: Path, installed: Callable[..., Objects]
) -> None:
    installed(pod("webhook", "numalign:1.0"), pod("agent", "numalign:0.9"))

    result = run("version", "--kubeconfig", api_server)

    assert result.exit_code == 0
    assert result.stderr == (
        "warning: versions differ in the cluster (agent 0.9, webhook 1.0):"
        " run the same version of all programs\n"
    )


def test_a_client_of_another_version_is_warned_of(
    run: Run, api_server: Path, installed: Callable[..., Objects]
) -> None:
    installed(pod("webhook", "numalign:99"))

    said = run("version", "--kubeconfig", api_server).stderr

    assert said == f"warning: this program has version {OURS}, but the cluster runs others (webhook 99)\n"


def test_of_an_image_without_a_tag_the_workload_says_the_version(
    run: Run, api_server: Path, installed: Callable[..., Objects]
) -> None:
    labels = {f"app.kubernetes.io/{key}": value for key, value in (("component", "agent"), ("version", OURS))}
    objects = installed(pod("agent", "numalign@sha256:abc"), pod("scorer", "numalign@sha256:abc"))
    objects["/apis/apps/v1/daemonsets"] = {"items": [{"metadata": {"namespace": "numa", "labels": labels}}]}

    said = run("version", "--kubeconfig", api_server).stdout

    assert f"agent       {OURS}  1 pod in numa, all ready\n" in said
    assert "scorer      unknown  1 pod in numa, all ready\n" in said


def test_who_may_not_see_pods_hears_the_rest(
    run: Run, api_server: Path, installed: Callable[..., Objects], refusals: dict[str, str]
) -> None:
    installed()
    refusals["/api/v1/pods"] = "403 Forbidden"

    result = run("version", "--kubeconfig", api_server)

    assert result.exit_code == 0
    assert result.stdout == f"client      {OURS}\nkubernetes  v1.34.2\n"
    assert result.stderr.startswith("programs in the cluster: unknown: not allowed to read the pods of")


def test_where_nothing_is_installed_that_is_said(
    run: Run, api_server: Path, installed: Callable[..., Objects]
) -> None:
    installed()

    assert "numalign does not run in this cluster" in run("version", "--kubeconfig", api_server).stdout


def test_a_cluster_that_is_not_there_is_told_beside_the_client(run: Run) -> None:
    result = run("version")

    assert result.exit_code == 2
    assert result.stdout == f"client      {OURS}\n"
    assert "there is no kubeconfig at /nowhere/config" in result.stderr
