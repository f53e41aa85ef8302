"""Changes of kubelets from version to version, each with a case that shows it."""

import pytest

from kubectl_numa.kubelet_versions import ROWS, VersionChange
from numalign.model import options
from numalign.model.options import CHANGES

UNRELEASED = 60
"""No kubelet has this version; each test takes another, because answers are cached by version."""


def test_every_change_has_a_row() -> None:
    assert [row.change for row in ROWS] == [*CHANGES]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.change)
def test_a_case_shows_only_its_change(row: VersionChange, monkeypatch: pytest.MonkeyPatch) -> None:
    case, since = row.case, CHANGES[row.change]
    before, after = case.predictions(since - 1), case.predictions(since)
    without = {other: minor for other, minor in CHANGES.items() if other is not row.change and minor <= since}
    monkeypatch.setattr(options, "CHANGES", without)

    assert before != after
    assert case.predictions(UNRELEASED + [*CHANGES].index(row.change)) != after


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.change)
def test_effect_names_what_differs(row: VersionChange) -> None:
    before, after = (row.case.predictions(minor) for minor in (row.minor - 1, row.minor))
    verdicts = [[each["admitted"] for each in predictions] for predictions in (before, after)]
    affinities = [
        [container["affinity"] for each in predictions for container in each["containers"].values()]
        for predictions in (before, after)
    ]
    alike = {
        "verdict": verdicts[0] == verdicts[1],
        "affinity": affinities[0] == affinities[1],
        "CPU IDs": False,
    }

    assert row.effect == next(effect for effect, same in alike.items() if not same)
    assert row.before != row.after
