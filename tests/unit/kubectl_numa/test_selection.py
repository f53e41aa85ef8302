"""Selection of pods by namespace and labels."""

from pathlib import Path

import pytest

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.selection import PodSelection
from numalign.kube import selectors
from numalign.kube.connection import Connection
from tests.unit.kubectl_numa.conftest import kubeconfig
from tests.worlds.notation import table

GOLD, LEAD = selectors.parse("tier=gold"), selectors.parse("tier=lead")
SELECTED = [
    ("everything",                       PodSelection(),                       True),
    ("its namespace",                    PodSelection("team"),                 True),
    ("another namespace",                PodSelection("other"),                False),
    ("all beside another namespace",     PodSelection("other", everywhere=True), True),
    ("its label",                        PodSelection(selector=GOLD),          True),
    ("another label",                    PodSelection(selector=LEAD),          False),
    ("its label elsewhere",              PodSelection("other", selector=GOLD), False),
]  # fmt: skip


@pytest.mark.parametrize(("selection", "selected"), table(SELECTED))
def test_a_gold_pod_of_team_is_selected_by(selection: PodSelection, *, selected: bool) -> None:
    assert selection.selects("team", {"tier": "gold"}) is selected


RESOLVED = [
    # the snapshot, whether a kubeconfig is named, the selection, and the namespace
    ("a cluster: its context",       None,    True,   PodSelection(),                 "team"),
    ("a cluster: the option",        None,    True,   PodSelection("other"),          "other"),
    ("a cluster: all",               None,    True,   PodSelection(everywhere=True),  None),
    ("a file: all",                  "file",  False,  PodSelection(),                 None),
    ("a file: the option",           "file",  False,  PodSelection("other"),          "other"),
    ("a file and a context",         "file",  True,   PodSelection(),                 "team"),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "configured", "selection", "namespace"), table(RESOLVED))
def test_default_namespace_is_that_of_the_context(
    tmp_path: Path, snapshot: str | None, selection: PodSelection, namespace: str | None, *, configured: bool
) -> None:
    path = kubeconfig(tmp_path / "kubeconfig", x="team")
    resolved = selection.resolved(ClusterSource(snapshot, Connection(path if configured else None)))

    assert (resolved.namespace, resolved.everywhere) == (namespace, namespace is None)
