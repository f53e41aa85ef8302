"""Clusters come from files, and what is left out is told."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.manifests import Namespace
from kubectl_numa.typed_names import TypedName
from numalign.cache.admission import Reaction
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError
from numalign.kube.files.policy import NO_POLICY, BadPolicy
from numalign.kube.resource_types import POD
from numalign.model.errors import BadInput
from tests.worlds.notation import table


def test_a_snapshot_is_read(cluster_file: Path) -> None:
    found = ClusterSource(str(cluster_file)).view()
    assert [node.name for node in found.snapshot.nodes] == ["big", "small"]


def test_standard_input_is_one_too(cluster_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(cluster_file.read_bytes())))
    assert ClusterSource("-").view().snapshot.unknown == ("hidden",)


def test_without_a_file_the_kubeconfig_is_asked() -> None:
    with pytest.raises(ClusterError, match=r"there is no kubeconfig at /nowhere.*or read a file"):
        ClusterSource(connection=Connection("/nowhere")).documents()


def test_a_pod_can_be_taken_out_of_a_snapshot(cluster_file: Path) -> None:
    source = ClusterSource(str(cluster_file))
    found = source.documents()
    assert (
        source.one(TypedName(POD, "stored"), namespace="default", objects=found)["metadata"]["name"]
        == "stored"
    )
    with pytest.raises(BadInput, match="contains no pod team-a/stored: pass its manifest with -f"):
        source.one(TypedName(POD, "stored"), namespace="team-a", objects=found)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig with two contexts, and a namespace in each."""
    contexts = {"one": "team-a", "two": "team-b"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            for name, namespace in contexts.items()
        ],
        "current-context": "one",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("snapshot", "named", "context", "asked", "meant"),
    table(
        [
            ("a cluster: its context", None, True, None, None, Namespace("team-a")),
            ("a cluster: another context", None, True, "two", None, Namespace("team-b")),
            ("a cluster: the option", None, True, None, "team-c", Namespace("team-c", asked=True)),
            ("a file has no context", "file", False, None, None, Namespace("default")),
            ("beside a file one is named", "file", True, None, None, Namespace("team-a")),
            ("beside a file: the option", "file", True, None, "team-c", Namespace("team-c", asked=True)),
        ]
    ),
)
def test_the_namespace_is_that_of_the_context(  # noqa: PLR0913, PLR0917 - the fixtures and the table
    kubeconfig: str,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: str | None,
    named: bool,  # noqa: FBT001 - a column of the table
    context: str | None,
    asked: str | None,
    meant: Namespace,
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    source = ClusterSource(snapshot, Connection(kubeconfig if named else None, context))
    assert source.namespace(asked) == meant


def test_a_context_that_is_not_there_is_told(kubeconfig: str) -> None:
    with pytest.raises(ClusterError, match="elsewhere"):
        ClusterSource(connection=Connection(kubeconfig, "elsewhere")).namespace(None)


# The cluster's policy.

POLICY = "never: warn\n"
FORBIDDEN = "403 Forbidden"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/zz-numalign"
CONFIG_MAP = "/api/v1/namespaces/numa/configmaps/numalign-policy"


@pytest.fixture
def installed(objects: dict[str, Any]) -> dict[str, Any]:
    """An API server of a cluster in which numalign is installed, with a policy."""
    hook = {"name": "w", "clientConfig": {"service": {"name": "numalign", "namespace": "numa"}}}
    objects[CONFIGURATION] = {"metadata": {"name": "zz-numalign"}, "webhooks": [hook]}
    objects[CONFIG_MAP] = {"metadata": {"name": "numalign-policy"}, "data": {"policy.yaml": POLICY}}
    return objects


def test_the_installed_policy_is_heard_and_told(
    installed: dict[str, Any], api_server: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ClusterSource(connection=Connection(str(api_server))).policy(None)

    assert installed
    assert found.never is Reaction.WARN
    assert capsys.readouterr().err == "cluster policy: ConfigMap numa/numalign-policy\n"


def test_a_file_is_heard_before_it(
    installed: dict[str, Any], api_server: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text("unknownResources: deny\n")
    found = ClusterSource(connection=Connection(str(api_server))).policy(str(tmp_path / "policy.yaml"))

    assert installed
    assert (found.never, found.unknown_resources) == (Reaction.DENY, Reaction.DENY)
    assert capsys.readouterr().err == ""


def test_beside_a_file_of_the_cluster_nothing_is_installed(cluster_file: Path) -> None:
    assert ClusterSource(str(cluster_file)).policy(None) == NO_POLICY


def test_where_nothing_is_installed_there_is_no_policy(
    api_server: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ClusterSource(connection=Connection(str(api_server))).policy(None) == NO_POLICY
    assert capsys.readouterr().err == ""


def test_who_may_not_see_the_policy_is_told_and_answered_without(
    refusals: dict[str, str], api_server: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusals[CONFIGURATION] = FORBIDDEN

    assert ClusterSource(connection=Connection(str(api_server))).policy(None) == NO_POLICY
    told = capsys.readouterr().err
    assert told.startswith("cluster policy: unknown: not allowed to read ValidatingWebhookConfiguration")
    assert told.endswith("specify its file with --policy\n")


def test_an_installed_policy_that_is_wrong_is_a_mistake(installed: dict[str, Any], api_server: Path) -> None:
    installed[CONFIG_MAP]["data"]["policy.yaml"] = "nevver: warn"

    with pytest.raises(BadPolicy, match=r"ConfigMap numa/numalign-policy\.nevver: unknown key"):
        ClusterSource(connection=Connection(str(api_server))).policy(None)


def test_broken_objects_are_told_and_the_rest_is_used(
    cluster_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = json.loads(cluster_file.read_text())
    zoneless = {**taken["items"][0], "metadata": {"name": "broken"}, "zones": [{"name": "x"}]}
    broken = [{**zoneless, "metadata": {"name": f"broken-{number}"}} for number in range(12)]
    found = ClusterSource("-").view(objects=[{**taken, "items": [*taken["items"], *broken]}])
    assert len(found.snapshot.nodes) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("skipped: NodeResourceTopology broken-0: ")
    assert told[-1] == "skipped: 2 more objects"
