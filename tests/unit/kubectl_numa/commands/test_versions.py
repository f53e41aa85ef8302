"""versions: changes of kubelets, and cases that can be replayed."""

import json

from kubectl_numa.kubelet_versions import ROWS, described
from numalign.model.options import PRE_RELEASE
from tests.unit.kubectl_numa.conftest import Cli


def test_a_change_has_its_effect_and_its_pull_request(cli: Cli) -> None:
    assert (
        "1.34  odd-share-of-a-cache  (CPU IDs)\n"
        "  With prefer-align-cpus-by-uncorecache, an odd number of CPUs fits into one cache\n"
        "  before: main: CPUs 0-1,4\n"
        "  after:  main: CPUs 4,6-7\n"
        "  https://github.com/kubernetes/kubernetes/pull/131850\n"
    ) in cli.text("versions")


def test_unreleased_changes_are_called_a_pre_release(cli: Cli) -> None:
    documents = cli.json("versions")

    assert {each["since"] for each in documents if each["preRelease"]} == {f"1.{PRE_RELEASE}"}
    assert f"1.{PRE_RELEASE} (pre-release)" in cli.text("versions", "-o", "wide")


def test_each_case_is_input_of_replay(cli: Cli) -> None:
    documents = cli.json("versions")

    assert len(documents) == len(ROWS)
    for document in documents:
        path = cli.write("events.jsonl", "\n".join(map(json.dumps, document["case"])))
        answers = [json.loads(line) for line in cli.text("replay", "-f", path).splitlines()]
        assert described(answers) == document["after"]
