"""`--dry-run` says which labels the nodes would get, and touches nothing."""

import pytest

from tests.system.e2e.clusters import Rehearsal
from tools.clusters import fleets

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_dry_run_lists_every_node_to_label(rehearsal: Rehearsal) -> None:
    assert rehearsal.code == 0, rehearsal.said
    published = [topology["metadata"]["name"] for topology in fleets.topologies()]
    assert [name for name in published if name not in rehearsal.said] == []
    assert [name for name in fleets.names("new") if name in rehearsal.said] == []


async def test_a_rehearsal_reads_the_cluster_and_writes_nothing(rehearsal: Rehearsal) -> None:
    assert rehearsal.uses
    assert [use for use in rehearsal.uses if use.writes] == []
    assert rehearsal.after == rehearsal.before
