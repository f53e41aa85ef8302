"""Clusters come from files or a kubeconfig, with notices of what is left out, and are written to files."""

import gzip
import io
import json
import time
from http import HTTPStatus
from pathlib import Path

import pytest

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.commands.snapshot import contents
from kubectl_numa.manifests import Namespace
from kubectl_numa.selection import PodSelection
from numalign.cache.admission import Reaction
from numalign.kube.connection import Connection
from numalign.kube.decode import shapes
from numalign.kube.errors import ClusterError
from numalign.kube.files.policy import NO_POLICY, BadPolicy
from numalign.shapes import KnownShape, RememberedShapes, shape
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import ITEMS
from tests.worlds.notation import node
from tests.worlds.objects import Json, listed, nrt


def test_a_snapshot_comes_from_a_file_or_a_pipe(cluster_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(cluster_file.read_bytes())))

    for source in (str(cluster_file), "-"):
        read = ClusterSource(source).view().cluster
        assert ([node.name for node in read.nodes], read.unknown) == (["big", "small"], ("hidden",))


CLUSTER, FILE = None, "file"
NAMESPACES = [
    # the snapshot, whether a kubeconfig is named, the context, the option, and the namespace
    (CLUSTER, True,  None,  None,     Namespace("team-a")),
    (CLUSTER, True,  "two", None,     Namespace("team-b")),
    (CLUSTER, True,  None,  "team-c", Namespace("team-c", asked=True)),
    (FILE,    False, None,  None,     Namespace("default")),
    (FILE,    False, None,  "team-c", Namespace("team-c", asked=True)),
    (FILE,    True,  None,  None,     Namespace("team-a")),
    (FILE,    True,  None,  "team-c", Namespace("team-c", asked=True)),
]  # fmt: skip


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """One of two contexts, each with its namespace."""
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
        for name, namespace in (("one", "team-a"), ("two", "team-b"))
    ]
    cluster, user = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}, {"name": "u", "user": {}}
    document = {"clusters": [cluster], "users": [user], "contexts": contexts, "current-context": "one"}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    return str(path)


def test_namespace_is_that_of_the_context(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a context, a selection has all namespaces."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig)

    for snapshot, configured, context, option, namespace in NAMESPACES:
        source = ClusterSource(snapshot, Connection(kubeconfig if configured else None, context))
        selected = PodSelection(option).resolved(source)
        assert source.namespace(option) == namespace
        assert selected.namespace == (namespace.name if configured or option else None)
        assert selected.everywhere is (selected.namespace is None)


def test_a_missing_context_or_kubeconfig_is_an_error(kubeconfig: str) -> None:
    with pytest.raises(ClusterError, match="elsewhere"):
        ClusterSource(connection=Connection(kubeconfig, "elsewhere")).namespace(None)
    with pytest.raises(ClusterError, match=r"there is no kubeconfig at /nowhere.*or read a file"):
        ClusterSource(connection=Connection("/nowhere")).documents()


ADMISSION, HOOKS = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
CONFIGURATION = {"apiVersion": ADMISSION, "kind": HOOKS, "metadata": {"name": "zz-numalign"}}
PATH = f"/apis/{ADMISSION}/validatingwebhookconfigurations/zz-numalign"


def install(fake: FakeCluster, policy: str = "never: warn") -> ClusterSource:
    """Serve a cluster in which numalign is installed with this policy."""
    hook = {"name": "w", "clientConfig": {"service": {"name": "numalign", "namespace": "numa"}}}
    metadata = {"name": "numalign-policy", "namespace": "numa"}
    fake.put(
        CONFIGURATION | {"webhooks": [hook]},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": policy}},
    )
    return ClusterSource(connection=Connection(str(fake.kubeconfig)))


def test_the_installed_policy_is_used_without_a_file(
    fake: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, file = install(fake), tmp_path / "policy.yaml"
    assert source.policy(None).never is Reaction.WARN
    assert capsys.readouterr().err == "cluster policy: ConfigMap numa/numalign-policy\n"

    file.write_text("unknownResources: deny\n")
    policy = source.policy(str(file))
    assert (policy.never, policy.unknown_resources) == (Reaction.DENY, Reaction.DENY)
    assert capsys.readouterr().err == ""

    fake.api.failures[PATH] = HTTPStatus.FORBIDDEN
    assert source.policy(None) == NO_POLICY
    notice = capsys.readouterr().err
    assert notice.startswith("cluster policy: unknown: not allowed to read ValidatingWebhookConfiguration")
    assert notice.endswith("specify its file with --policy\n")


def test_without_an_installation_there_is_no_policy(
    served: FakeCluster, cluster_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in (ClusterSource(str(cluster_file)), ClusterSource(None, Connection(str(served.kubeconfig)))):
        assert source.policy(None) == NO_POLICY
    assert capsys.readouterr().err == ""


def test_a_wrong_installed_policy_is_an_error(fake: FakeCluster) -> None:
    with pytest.raises(BadPolicy, match=r"ConfigMap numa/numalign-policy\.nevver: unknown key"):
        install(fake, "nevver: warn").policy(None)


def test_broken_objects_are_skipped_with_notices(capsys: pytest.CaptureFixture[str]) -> None:
    broken = [nrt(f"broken-{number}", zones=[{"name": "x"}]) for number in range(12)]
    read = ClusterSource("-").view(objects=[listed(*ITEMS, *broken)])
    notices = capsys.readouterr().err.splitlines()

    assert len(read.cluster.nodes) == 2
    assert notices[0].startswith("skipped: NodeResourceTopology broken-0: ")
    assert notices[-1] == "skipped: 2 more objects"


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
    served.api.failures[PATH] = HTTPStatus.FORBIDDEN
    result = cli("snapshot", "--kubeconfig", served.kubeconfig)

    assert result.exit_code == 0
    assert "skipped: ConfigMap numalign-shapes: not allowed to read Validating" in result.stderr


def test_remembered_shapes_are_written(cli: Cli, served: FakeCluster) -> None:
    gone = KnownShape(shape.of(node("cpu=8 mem=8Gi", policy="restricted")), seen=time.time() - 7200)
    hook = {"name": "w", "clientConfig": {"service": {"name": "numalign", "namespace": "numa"}}}
    served.api.documents[PATH] = {"metadata": {"name": "zz-numalign"}, "webhooks": [hook]}
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
