"""versions: what kubelets do differently, and cases that can be played."""

import json
from collections.abc import Callable
from pathlib import Path

import orjson
from click.testing import Result

from kubectl_numa.kubelet_versions import ROWS, described
from numalign.model.options import PRE_RELEASE

Run = Callable[..., Result]


def test_a_change_is_told_with_its_version_what_it_does_and_where_it_was_made(run: Run) -> None:
    result = run("versions")

    assert result.exit_code == 0
    assert (
        "1.34  odd-share-of-a-cache  (CPU IDs)\n"
        "  With prefer-align-cpus-by-uncorecache, an odd number of CPUs fits into one cache\n"
        "  before: main: CPUs 0-1,4\n"
        "  after:  main: CPUs 4,6-7\n"
        "  https://github.com/kubernetes/kubernetes/pull/131850\n"
    ) in result.stdout


def test_what_is_not_released_is_called_a_pre_release(run: Run) -> None:
    documents = json.loads(run("versions", "-o", "json").stdout)

    assert {each["since"] for each in documents if each["preRelease"]} == {f"1.{PRE_RELEASE}"}
    assert f"1.{PRE_RELEASE} (pre-release)" in run("versions", "-o", "wide").stdout


def test_a_case_is_the_input_of_replay(run: Run, tmp_path: Path) -> None:
    documents = json.loads(run("versions", "-o", "json").stdout)
    assert len(documents) == len(ROWS)
    for document in documents:
        played = tmp_path / "events.jsonl"
        played.write_bytes(b"\n".join(map(orjson.dumps, document["case"])))
        answers = map(json.loads, run("replay", "-f", str(played)).stdout.splitlines())

        assert described([*answers]) == document["after"]
