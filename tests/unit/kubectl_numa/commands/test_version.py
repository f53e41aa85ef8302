"""version: which versions run here and in the cluster."""

from http import HTTPStatus

import yaml

from numalign.runtime import about
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import labelled
from tests.worlds.objects import Json, pod

OURS = about.version()
IMAGE = f"registry:5000/numalign:{OURS}"


def component(program: str, image: str, *, ready: bool = True) -> Json:
    """A pod of ours."""
    labels = {"app.kubernetes.io/name": "numalign", "app.kubernetes.io/component": program}
    containers = [{"name": "beside", "image": "x:9"}, {"name": program, "image": image}]
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    name = f"{program}-{ready}"
    return labelled(pod(name, namespace="numa", spec={"containers": containers}, status=status), **labels)


def installed(fake: FakeCluster, *pods: Json) -> tuple[object, ...]:
    """Return the words that print the versions of a cluster with these pods."""
    fake.api.documents["/version"] = {"gitVersion": "v1.34.2"}
    fake.put(*pods)
    return ("version", "--kubeconfig", fake.kubeconfig)


def test_client_alone_needs_no_cluster(cli: Cli) -> None:
    assert cli.text("version", "--client") == f"client      {OURS}\n"
    assert cli("version").stdout == f"client      {OURS}\n"


def test_programs_have_their_version_and_ready_pods(cli: Cli, fake: FakeCluster) -> None:
    webhooks = (component("webhook", IMAGE), component("webhook", IMAGE, ready=False))
    result = cli(*installed(fake, *webhooks, component("scheduler", "kube-scheduler:v1.34.2")))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"client      {OURS}\n"
        "kubernetes  v1.34.2\n"
        "scheduler   v1.34.2  1 pod in numa, all ready\n"
        f"webhook     {OURS}  2 pods in numa, 1 ready\n"
    )


def test_json_and_yaml_have_the_same_versions(cli: Cli, fake: FakeCluster) -> None:
    image = f"numalign:{OURS}@sha256:abc"
    words = installed(fake, component("agent", image))
    agent = {"program": "agent", "namespace": "numa", "version": OURS, "image": image, "pods": 1, "ready": 1}
    expected = {"client": OURS, "kubernetes": "v1.34.2", "programs": [agent], "skew": []}

    assert cli.json(*words) == expected
    assert yaml.safe_load(cli.text(*words, "-o", "yaml")) == expected


DIFFERING = "versions differ in the cluster (agent 0.9, webhook 1.0): run the same version of all programs\n"
OTHERS = f"this program has version {OURS}, but the cluster runs others (webhook 99)\n"


def test_differing_versions_are_warned_of(cli: Cli, fake: FakeCluster) -> None:
    for versions, warning in (({"webhook": "99"}, OTHERS), ({"webhook": "1.0", "agent": "0.9"}, DIFFERING)):
        pods = (component(program, f"numalign:{version}") for program, version in versions.items())
        result = cli(*installed(fake, *pods))
        assert (result.exit_code, result.stderr) == (0, f"warning: {warning}")


def test_forbidden_pods_leave_the_other_versions(cli: Cli, fake: FakeCluster) -> None:
    words = installed(fake)
    assert "numalign does not run in this cluster" in cli.text(*words)
    fake.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
    result = cli(*words)

    assert (result.exit_code, result.stdout) == (0, f"client      {OURS}\nkubernetes  v1.34.2\n")
    assert result.stderr.startswith("programs in the cluster: unknown: not allowed to read the pods of")
