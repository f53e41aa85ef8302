"""Clusters come from files or a kubeconfig, and what is left out is a notice."""

import io
import json
from http import HTTPStatus
from pathlib import Path

import pytest

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.manifests import Namespace
from kubectl_numa.selection import PodSelection
from numalign.cache.admission import Reaction
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError
from numalign.kube.files.policy import NO_POLICY, BadPolicy
from tests.unit.kubectl_numa.conftest import FakeCluster
from tests.unit.kubectl_numa.objects import ITEMS
from tests.worlds.objects import listed, nrt


def test_a_snapshot_comes_from_a_file_or_a_pipe(cluster_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(cluster_file.read_bytes())))

    for source in (str(cluster_file), "-"):
        read = ClusterSource(source).view().snapshot
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

    assert len(read.snapshot.nodes) == 2
    assert notices[0].startswith("skipped: NodeResourceTopology broken-0: ")
    assert notices[-1] == "skipped: 2 more objects"
