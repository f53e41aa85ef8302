"""Changes of kubelets from version to version, each with a case that shows it."""

import json

import pytest

from kubectl_numa.kubelet_versions import ROWS, VersionChange, described
from numalign.model import options
from numalign.model.options import CHANGES, PRE_RELEASE
from tests.unit.kubectl_numa.conftest import Cli

UNRELEASED = 60
"""No kubelet has this version; each test takes another, because answers are cached by version."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.change)
def test_a_case_shows_only_its_change(row: VersionChange, monkeypatch: pytest.MonkeyPatch) -> None:
    case, since = row.case, CHANGES[row.change]
    before, after = case.predictions(since - 1), case.predictions(since)
    without = {other: minor for other, minor in CHANGES.items() if other is not row.change and minor <= since}
    monkeypatch.setattr(options, "CHANGES", without)

    assert before != after
    assert case.predictions(UNRELEASED + [*CHANGES].index(row.change)) != after

    verdicts, affinities = (
        [[read(pod) for pod in predictions] for predictions in (before, after)]
        for read in (
            lambda pod: pod["admitted"],
            lambda pod: [c["affinity"] for c in pod["containers"].values()],
        )
    )
    moved = affinities[0] != affinities[1]
    assert row.effect == ("verdict" if verdicts[0] != verdicts[1] else "affinity" if moved else "CPU IDs")
    assert row.before != row.after


def test_versions_lists_changes_and_cases_for_replay(cli: Cli) -> None:
    documents = cli.json("versions")

    assert (
        "1.34  odd-share-of-a-cache  (CPU IDs)\n"
        "  With prefer-align-cpus-by-uncorecache, an odd number of CPUs fits into one cache\n"
        "  before: main: CPUs 0-1,4\n"
        "  after:  main: CPUs 4,6-7\n"
        "  https://github.com/kubernetes/kubernetes/pull/131850\n"
    ) in cli.text("versions")
    assert f"1.{PRE_RELEASE} (pre-release)" in cli.text("versions", "-o", "wide")
    assert {each["since"] for each in documents if each["preRelease"]} == {f"1.{PRE_RELEASE}"}
    assert [each["change"] for each in documents] == [*CHANGES]
    for document in documents:
        path = cli.write("events.jsonl", "\n".join(map(json.dumps, document["case"])))
        answers = [json.loads(line) for line in cli.text("replay", "-f", path).splitlines()]
        assert described(answers) == document["after"]
