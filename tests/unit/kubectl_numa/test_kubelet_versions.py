"""What kubelets do differently from version to version, shown by a case for each change."""

import pytest

from kubectl_numa.kubelet_versions import ROWS, VersionChange
from numalign.model import options
from numalign.model.options import CHANGES, KubeletChange

UNLIKE_ANY = 60
"""A version that no kubelet has; each test takes another, because answers are cached by version."""

BY_CHANGE = {row.change: row for row in ROWS}


def test_every_change_has_a_row() -> None:
    assert [row.change for row in ROWS] == [*CHANGES]


@pytest.mark.parametrize("change", CHANGES)
def test_a_case_shows_what_a_version_changed(change: KubeletChange) -> None:
    case, since = BY_CHANGE[change].case, CHANGES[change]

    assert case.predictions(since - 1) != case.predictions(since)


@pytest.mark.parametrize("change", CHANGES)
def test_without_its_change_the_version_would_do_something_else(
    change: KubeletChange, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, since, unlike = BY_CHANGE[change].case, CHANGES[change], UNLIKE_ANY + [*CHANGES].index(change)
    after = case.predictions(since)
    without = {other: minor for other, minor in CHANGES.items() if other is not change and minor <= since}
    monkeypatch.setattr(options, "CHANGES", without)

    assert case.predictions(unlike) != after


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.change)
def test_a_difference_is_in_what_is_said_to_differ(row: VersionChange) -> None:
    before, after = (row.case.predictions(minor) for minor in (row.minor - 1, row.minor))
    verdicts, affinities = (
        [[each["admitted"] for each in predicted] for predicted in (before, after)],
        [
            [[held["affinity"] for held in each["containers"].values()] for each in predicted]
            for predicted in (before, after)
        ],
    )
    effect = (
        "verdict"
        if verdicts[0] != verdicts[1]
        else "affinity"
        if affinities[0] != affinities[1]
        else "CPU IDs"
    )

    assert (row.effect, row.before != row.after) == (effect, True)
