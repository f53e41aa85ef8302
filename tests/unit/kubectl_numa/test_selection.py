"""Which pods are meant."""

import json
from pathlib import Path

import pytest

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.selection import PodSelection
from numalign.kube import selectors
from numalign.kube.connection import Connection
from tests.worlds.notation import table

GOLD, LEAD = selectors.parse("tier=gold"), selectors.parse("tier=lead")

SELECTED = [
    # what it shows                      what was asked for    whether it is
    ("nothing was asked for",            PodSelection(),                       True),
    ("its namespace",                    PodSelection("team"),                 True),
    ("another namespace",                PodSelection("other"),                False),
    ("all beside another namespace",     PodSelection("other", everywhere=True), True),
    ("all namespaces",                   PodSelection(everywhere=True),        True),
    ("its label",                        PodSelection(selector=GOLD),          True),
    ("another label",                    PodSelection("team", selector=LEAD),  False),
    ("its label in another namespace",   PodSelection("other", selector=GOLD), False),
]  # fmt: skip


@pytest.mark.parametrize(("selection", "selected"), table(SELECTED))
def test_a_pod_of_team_that_is_gold_is_selected_where(selection: PodSelection, selected: bool) -> None:  # noqa: FBT001 - a column
    assert selection.selects("team", {"tier": "gold"}) is selected


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig whose context means the namespace `team`."""
    named = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(named))
    return str(path)


RESOLVED = [
    # what it shows                         snapshot  kubeconfig  what was asked for              meant
    ("a cluster: that of its context",      None,     True,       PodSelection(),                 "team"),
    ("a cluster: the one asked for",        None,     True,       PodSelection("other"),          "other"),
    ("a cluster: all",                      None,     True,       PodSelection(everywhere=True),  None),
    ("a file: all",                         "file",   False,      PodSelection(),                 None),
    ("a file: the one asked for",           "file",   False,      PodSelection("other"),          "other"),
    ("a file beside a context",             "file",   True,       PodSelection(),                 "team"),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "named", "asked", "meant"), table(RESOLVED))
def test_where_nobody_says_which_it_is_the_namespace_of_the_context(
    kubeconfig: str,
    snapshot: str | None,
    named: bool,  # noqa: FBT001 - a column of the table
    asked: PodSelection,
    meant: str | None,
) -> None:
    resolved = asked.resolved(ClusterSource(snapshot, Connection(kubeconfig if named else None)))

    assert (resolved.namespace, resolved.everywhere) == (meant, meant is None)
