"""snapshot: a file of what a cluster answers."""

import gzip
import json
import time
from http import HTTPStatus

import pytest

from kubectl_numa.commands.snapshot import contents
from numalign.kube.decode import shapes
from numalign.shapes import KnownShape, RememberedShapes, shape
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.worlds.notation import node
from tests.worlds.objects import Json

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/zz-numalign"
NODES = ("big", "small", "hidden")


def configz(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/configz"


@pytest.fixture
def kubelets(served: FakeCluster) -> FakeCluster:
    """An API server that passes on what kubelets answer; that of `big` has more than is written."""
    configurations: dict[str, Json] = {name: {"kubeletconfig": {}} for name in NODES}
    configurations["big"] = {"kubeletconfig": {"cpuManagerPolicy": "static", "staticPodPath": "/secret"}}
    served.api.documents |= {configz(name): document for name, document in configurations.items()}
    return served


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_a_written_file_can_be_read_again(cli: Cli, served: FakeCluster, name: str) -> None:
    path = cli.folder / name
    result = cli("snapshot", "-o", path, "--kubeconfig", served.kubeconfig)
    data = path.read_bytes()

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{path}: 3 Node, 2 NodeResourceTopology, 4 Namespace\n"
    assert json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["kind"] == "List"
    assert [node["name"] for node in cli.json("nodes", "--snapshot", path)] == [*NODES]


def test_unreadable_remembered_shapes_are_skipped(cli: Cli, served: FakeCluster) -> None:
    served.api.failures[CONFIGURATION] = HTTPStatus.FORBIDDEN
    result = cli("snapshot", "--kubeconfig", served.kubeconfig)

    assert result.exit_code == 0
    assert "skipped: ConfigMap numalign-shapes: not allowed to read Validating" in result.stderr


def test_remembered_shapes_are_written(cli: Cli, served: FakeCluster) -> None:
    gone = KnownShape(shape.of(node("cpu=8 mem=8Gi", policy="restricted")), seen=time.time() - 7200)
    hook = {"name": "w", "clientConfig": {"service": {"name": "numalign", "namespace": "numa"}}}
    served.api.documents[CONFIGURATION] = {"metadata": {"name": "zz-numalign"}, "webhooks": [hook]}
    data = {"data": shapes.encode(RememberedShapes((gone,)))}
    served.api.documents[f"/api/v1/namespaces/numa/configmaps/{shapes.NAME}"] = data
    path = cli.folder / "cluster.json"
    cli.text("snapshot", "--kubeconfig", served.kubeconfig, "-o", path)

    line = "restricted, scope container  remembered, last seen 2 h ago\n"
    assert line in cli.text("nodes", "--snapshot", path)
    assert "remembered" not in cli.text("nodes", "--snapshot", path, "--remember-shapes", "1h")


def test_objects_go_to_standard_output(cli: Cli, served: FakeCluster) -> None:
    words = ("snapshot", "--kubeconfig", served.kubeconfig)
    kinds = {"Node", "NodeResourceTopology", "Namespace"}

    assert {item["kind"] for item in json.loads(cli.text(*words))["items"]} == kinds
    assert {item["kind"] for item in json.loads(cli.text(*words, "--with-pods"))["items"]} == {*kinds, "Pod"}


def test_kubelet_configurations_are_written(cli: Cli, kubelets: FakeCluster) -> None:
    path = cli.folder / "cluster.json"
    result = cli("snapshot", "--with-kubelet-configs", "--kubeconfig", kubelets.kubeconfig, "-o", path)
    items = json.loads(path.read_bytes())["items"]

    assert (result.exit_code, result.stderr.endswith(", 4 Namespace, 3 KubeletConfiguration\n")) == (0, True)
    assert next(item for item in items if item["kind"] == "KubeletConfiguration") == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "metadata": {"name": "big"},
        "cpuManagerPolicy": "static",
    }
    assert cli("nodes", "--snapshot", path).stderr == ""


def test_unreadable_kubelet_configurations_are_skipped(cli: Cli, kubelets: FakeCluster) -> None:
    kubelets.api.documents[configz("small")] = {"kubeletconfig": {"cpuManagerPolicy": "ecstatic"}}
    kubelets.api.failures[configz("hidden")] = HTTPStatus.SERVICE_UNAVAILABLE
    result = cli("snapshot", "--with-kubelet-configs", "--kubeconfig", kubelets.kubeconfig)
    kinds = [item["kind"] for item in json.loads(result.stdout)["items"]]
    small, hidden = sorted(result.stderr.splitlines(), reverse=True)

    assert (result.exit_code, kinds.count("KubeletConfiguration")) == (0, 1)
    assert small.startswith('skipped: KubeletConfiguration small: cpuManagerPolicy: "ecstatic" is not')
    assert hidden.startswith("skipped: KubeletConfiguration hidden: the API server answered 503")


def test_forbidden_configurations_name_the_missing_right(cli: Cli, served: FakeCluster) -> None:
    served.api.failures |= {configz(node): HTTPStatus.FORBIDDEN for node in NODES}
    result = cli("snapshot", "--with-kubelet-configs", "--kubeconfig", served.kubeconfig)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: not allowed to read the configuration of node ")
    assert result.stderr.endswith("a ClusterRole must allow the verb get on nodes/proxy\n")


def test_explain_reads_the_cluster_too(cli: Cli, served: FakeCluster) -> None:
    live = ("--kubeconfig", served.kubeconfig)
    missing = cli("explain", "other", *live)

    assert cli.text("explain", "stored", *live).startswith("eager/stored requests single-numa-node alignment")
    assert (missing.exit_code, missing.stderr[:37]) == (2, "Error: pod eager/other does not exist")


def test_cluster_or_folder_out_of_reach_is_an_error(cli: Cli, served: FakeCluster) -> None:
    closed = cli("snapshot", "--kubeconfig", served.kubeconfig, "-s", "http://127.0.0.1:1")
    folder = cli("snapshot", "-o", cli.folder, "--kubeconfig", served.kubeconfig)

    assert (closed.exit_code, folder.exit_code, "Traceback" in folder.output) == (2, 2, False)
    assert closed.stderr.startswith("Error: http://127.0.0.1:1 cannot be reached: ")


def test_contents_are_counted_by_kind() -> None:
    assert contents({"items": [{"kind": "Node"}] * 1523}) == "1,523 Node"
    assert contents({"items": []}) == "nothing"
