"""Clusters come from files or a kubeconfig, and what is left out is a notice."""

import io
from pathlib import Path

import pytest

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.manifests import Namespace
from numalign.cache.admission import Reaction
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError
from numalign.kube.files.policy import NO_POLICY, BadPolicy
from tests.unit.kubectl_numa.conftest import ReadOnlyApi, kubeconfig
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
    (FILE,    True,  None,  None,     Namespace("team-a")),
    (FILE,    True,  None,  "team-c", Namespace("team-c", asked=True)),
]  # fmt: skip


def test_namespace_is_that_of_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubeconfig(tmp_path / "kubeconfig", one="team-a", two="team-b")
    monkeypatch.setenv("KUBECONFIG", path)

    for snapshot, configured, context, option, namespace in NAMESPACES:
        source = ClusterSource(snapshot, Connection(path if configured else None, context))
        assert source.namespace(option) == namespace


def test_a_missing_context_or_kubeconfig_is_an_error(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "kubeconfig", one="team-a")

    with pytest.raises(ClusterError, match="elsewhere"):
        ClusterSource(connection=Connection(path, "elsewhere")).namespace(None)
    with pytest.raises(ClusterError, match=r"there is no kubeconfig at /nowhere.*or read a file"):
        ClusterSource(connection=Connection("/nowhere")).documents()


CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/zz-numalign"
CONFIG_MAP = "/api/v1/namespaces/numa/configmaps/numalign-policy"


def install(api: ReadOnlyApi, policy: str = "never: warn") -> ClusterSource:
    """Serve a cluster in which numalign is installed with this policy."""
    hook = {"name": "w", "clientConfig": {"service": {"name": "numalign", "namespace": "numa"}}}
    api.objects[CONFIGURATION] = {"metadata": {"name": "zz-numalign"}, "webhooks": [hook]}
    api.objects[CONFIG_MAP] = {"metadata": {"name": "numalign-policy"}, "data": {"policy.yaml": policy}}
    return ClusterSource(connection=Connection(str(api.kubeconfig)))


def test_the_installed_policy_is_used_without_a_file(
    api: ReadOnlyApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, file = install(api), tmp_path / "policy.yaml"
    assert source.policy(None).never is Reaction.WARN
    assert capsys.readouterr().err == "cluster policy: ConfigMap numa/numalign-policy\n"

    file.write_text("unknownResources: deny\n")
    policy = source.policy(str(file))
    assert (policy.never, policy.unknown_resources) == (Reaction.DENY, Reaction.DENY)
    assert capsys.readouterr().err == ""


def test_without_an_installation_there_is_no_policy(
    api: ReadOnlyApi, cluster_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in (ClusterSource(str(cluster_file)), ClusterSource(None, Connection(str(api.kubeconfig)))):
        assert source.policy(None) == NO_POLICY
    assert capsys.readouterr().err == ""


def test_a_forbidden_policy_is_a_notice(api: ReadOnlyApi, capsys: pytest.CaptureFixture[str]) -> None:
    source = install(api)
    api.failures[CONFIGURATION] = 403

    assert source.policy(None) == NO_POLICY
    notice = capsys.readouterr().err
    assert notice.startswith("cluster policy: unknown: not allowed to read ValidatingWebhookConfiguration")
    assert notice.endswith("specify its file with --policy\n")


def test_a_wrong_installed_policy_is_an_error(api: ReadOnlyApi) -> None:
    with pytest.raises(BadPolicy, match=r"ConfigMap numa/numalign-policy\.nevver: unknown key"):
        install(api, "nevver: warn").policy(None)


def test_broken_objects_are_skipped_with_notices(capsys: pytest.CaptureFixture[str]) -> None:
    broken = [nrt(f"broken-{number}", zones=[{"name": "x"}]) for number in range(12)]
    read = ClusterSource("-").view(objects=[listed(*ITEMS, *broken)])
    notices = capsys.readouterr().err.splitlines()

    assert len(read.snapshot.nodes) == 2
    assert notices[0].startswith("skipped: NodeResourceTopology broken-0: ")
    assert notices[-1] == "skipped: 2 more objects"
