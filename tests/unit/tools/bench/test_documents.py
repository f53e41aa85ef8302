"""Nodes of a fleet, written down and read again."""

from dataclasses import replace

import pytest

from numalign.kube.files import snapshot
from numalign.model.intent import Policy
from numalign.model.node import Known
from tools.bench import documents
from tools.bench.fleets import MOST_MAKES, Case


@pytest.mark.parametrize("makes", [1, MOST_MAKES])
def test_nodes_are_read_as_they_were_written(makes: int) -> None:
    members = Case.mixed(MOST_MAKES, makes, Policy.NONE).members()
    seen = snapshot.of([documents.listed(members)])
    # Whoever follows an exporter has not seen the kubelet's own configuration.
    assert seen.nodes == tuple(replace(node, known=Known.COUNTS) for node in members)
    assert seen.problems == ()
