"""snapshot: a file with everything, from a cluster that answers."""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from kubectl_numa.commands.snapshot import contents
from numalign.kube.decode import shapes
from numalign.shapes import KnownShape, RememberedShapes, shape
from tests.worlds.notation import node

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/zz-numalign"

Run = Callable[..., Result]


def configz(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/configz"


@pytest.fixture
def kubelets(objects: dict[str, Any]) -> dict[str, Any]:
    """What kubelets answer, by path."""
    objects[configz("big")] = {"kubeletconfig": {"cpuManagerPolicy": "static", "staticPodPath": "/secret"}}
    return objects


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_what_is_written_can_be_read_again(run: Run, api_server: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "out" / name
    path.parent.mkdir()
    result = run("snapshot", "-o", path, "--kubeconfig", api_server)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{path}: 3 Node, 2 NodeResourceTopology, 4 Namespace\n"
    data = path.read_bytes()
    assert json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["kind"] == "List"
    listed = json.loads(run("nodes", "--snapshot", path, "-o", "json").stdout)
    assert [node["name"] for node in listed] == ["big", "small", "hidden"]


def test_shapes_that_may_not_be_seen_are_told_of(
    run: Run, api_server: Path, refusals: dict[str, str]
) -> None:
    refusals[CONFIGURATION] = "403 Forbidden"
    result = run("snapshot", "--kubeconfig", api_server)
    assert result.exit_code == 0
    assert "skipped: ConfigMap numalign-shapes: not allowed to read Validating" in result.stderr


def test_shapes_that_are_remembered_are_in_it(
    run: Run, api_server: Path, objects: dict[str, Any], tmp_path: Path
) -> None:
    known = shape.of(node("cpu=8 mem=8Gi", policy="restricted"))
    seen = KnownShape(known, seen=time.time() - 7200)
    hook = {"name": "w", "clientConfig": {"service": {"name": "numalign", "namespace": "numa"}}}
    objects[CONFIGURATION] = {"metadata": {"name": "zz-numalign"}, "webhooks": [hook]}
    objects[f"/api/v1/namespaces/numa/configmaps/{shapes.NAME}"] = {
        "data": shapes.encode(RememberedShapes((seen,)))
    }
    path = tmp_path / "cluster.json"

    assert run("snapshot", "--kubeconfig", api_server, "-o", path).exit_code == 0
    page = run("nodes", "--snapshot", path).stdout
    assert "restricted, scope container  remembered, last seen 2 h ago\n" in page
    assert "remembered" not in run("nodes", "--snapshot", path, "--remember-shapes", "1h").stdout


def test_standard_output_is_the_default(run: Run, api_server: Path) -> None:
    result = run("snapshot", "--with-pods", "--kubeconfig", api_server)
    kinds = {item["kind"] for item in json.loads(result.stdout)["items"]}
    assert kinds == {"Node", "NodeResourceTopology", "Namespace", "Pod"}


def test_kubelets_tell_their_configurations(
    run: Run, api_server: Path, kubelets: dict[str, Any], tmp_path: Path
) -> None:
    kubelets.update({configz(node): {"kubeletconfig": {}} for node in ("small", "hidden")})
    path = tmp_path / "cluster.json"
    result = run("snapshot", "--with-kubelet-configs", "--kubeconfig", api_server, "-o", path)
    assert result.exit_code == 0
    assert result.stderr.endswith(", 4 Namespace, 3 KubeletConfiguration\n")
    items = json.loads(path.read_bytes())["items"]
    assert next(item for item in items if item["kind"] == "KubeletConfiguration") == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "metadata": {"name": "big"},
        "cpuManagerPolicy": "static",
    }
    assert run("nodes", "--snapshot", path).stderr == ""


def test_options_that_a_kubelet_cannot_have_leave_the_rest_of_its_configuration_readable(
    run: Run, api_server: Path, kubelets: dict[str, Any], tmp_path: Path
) -> None:
    told = {"prefer-blue": "true", "numa-allocation-strategy": "none", "numa-score-weights": "cpu"}
    kubelets[configz("small")] = {
        "kubeletconfig": {"topologyManagerPolicy": "best-effort", "topologyManagerPolicyOptions": told}
    }
    kubelets[configz("hidden")] = {"kubeletconfig": {}}
    path = tmp_path / "cluster.json"
    written = run("snapshot", "--with-kubelet-configs", "--kubeconfig", api_server, "-o", path)
    assert "skipped" not in written.stderr

    [small] = json.loads(run("doctor", "small", "--snapshot", path, "-o", "json").stdout)
    found = [(each["finding"], each["detail"]) for each in small["findings"] if "option" in each["finding"]]
    gate = "TopologyManagerPolicyAlphaOptions"
    lacking = f"no kubelet up to the pre-release 1.38 has it, and needs the feature gate {gate}, which is off"
    assert found == [
        ("unknown-option", "numa-score-weights=cpu"),
        ("unknown-option", "prefer-blue"),
        ("unreleased-option", f"numa-allocation-strategy: {lacking}"),
        ("unreleased-option", f"numa-score-weights: {lacking}"),
    ]
    [node] = json.loads(run("nodes", "small", "--snapshot", path, "-o", "json").stdout)
    assert node["policy"] == "best-effort"


def test_kubelets_that_tell_nothing_are_told_of(
    run: Run, api_server: Path, kubelets: dict[str, Any], refusals: dict[str, str]
) -> None:
    kubelets[configz("small")] = {"kubeletconfig": {"cpuManagerPolicy": "ecstatic"}}
    refusals[configz("hidden")] = "503 Service Unavailable"
    result = run("snapshot", "--with-kubelet-configs", "--kubeconfig", api_server)
    found = [item["kind"] for item in json.loads(result.stdout)["items"]]
    assert (result.exit_code, found.count("KubeletConfiguration")) == (0, 1)
    small, hidden = sorted(result.stderr.splitlines(), reverse=True)
    assert small.startswith('skipped: KubeletConfiguration small: cpuManagerPolicy: "ecstatic" is not')
    assert hidden.startswith("skipped: KubeletConfiguration hidden: the API server answered 503")


def test_who_may_not_ask_kubelets_hears_which_right_is_missing(
    run: Run, api_server: Path, kubelets: dict[str, Any], refusals: dict[str, str]
) -> None:
    kubelets.clear()
    refusals.update({configz(node): "403 Forbidden" for node in ("big", "small", "hidden")})
    result = run("snapshot", "--with-kubelet-configs", "--kubeconfig", api_server)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: not allowed to read the configuration of node ")
    assert result.stderr.endswith("a ClusterRole must allow the verb get on nodes/proxy\n")


def test_nobody_is_asked_who_was_not_to_be_asked(run: Run, api_server: Path) -> None:
    result = run("snapshot", "--kubeconfig", api_server)
    assert "KubeletConfiguration" not in result.stdout


def test_other_commands_ask_the_cluster_too(run: Run, api_server: Path) -> None:
    result = run("explain", "stored", "--kubeconfig", api_server)
    assert result.stdout.startswith("eager/stored requests single-numa-node alignment (namespace default)")
    missing = run("explain", "nobody", "--kubeconfig", api_server)
    assert missing.exit_code == 2
    assert missing.stderr.startswith("Error: pod eager/nobody does not exist")


def test_a_cluster_that_does_not_answer_is_told(run: Run, api_server: Path) -> None:
    text = api_server.read_text()
    broken = yaml.safe_load(text)
    broken["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    api_server.write_text(yaml.safe_dump(broken))
    result = run("snapshot", "--kubeconfig", api_server)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: http://127.0.0.1:1 cannot be reached: ")


def test_contents_in_words() -> None:
    assert contents({"items": [{"kind": "Node"}] * 1523}) == "1,523 Node"
    assert contents({"items": []}) == "nothing"
