"""`--dry-run` prints the labels that nodes would get, and writes nothing."""

from tests.system.e2e.clusters import Rehearsal
from tools.clusters import fleets


def test_dry_run_lists_labels_and_writes_nothing(rehearsal: Rehearsal) -> None:
    assert rehearsal.code == 0, rehearsal.output
    published = [topology["metadata"]["name"] for topology in fleets.topologies()]
    assert [name for name in published if name not in rehearsal.output] == []
    assert [name for name in fleets.names("new") if name in rehearsal.output] == []
    assert rehearsal.uses
    assert [use for use in rehearsal.uses if use.writes] == []
    assert rehearsal.after == rehearsal.before
