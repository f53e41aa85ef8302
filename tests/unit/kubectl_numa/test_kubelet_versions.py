"""Which versions run here and in the cluster, and what changes between versions of kubelets."""

import json
from http import HTTPStatus

import pytest
import yaml

from kubectl_numa.kubelet_versions import ROWS, VersionChange, described
from numalign.model import options
from numalign.model.options import CHANGES, PRE_RELEASE
from numalign.runtime import about
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import labelled
from tests.worlds.objects import Json, pod

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


OURS = about.version()
IMAGE = f"registry:5000/numalign:{OURS}"


def component(program: str, image: str, *, ready: bool = True) -> Json:
    """A pod of ours."""
    labels = {"app.kubernetes.io/name": "numalign", "app.kubernetes.io/component": program}
    containers = [{"name": "beside", "image": "x:9"}, {"name": program, "image": image}]
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    name = f"{program}-{ready}"
    return labelled(pod(name, namespace="numa", spec={"containers": containers}, status=status), **labels)


def installed(fake: FakeCluster, *pods: Json) -> tuple[object, ...]:
    """Return the words that print the versions of a cluster with these pods."""
    fake.api.documents["/version"] = {"gitVersion": "v1.34.2"}
    fake.put(*pods)
    return ("version", "--kubeconfig", fake.kubeconfig)


def test_client_alone_needs_no_cluster(cli: Cli) -> None:
    assert cli.text("version", "--client") == f"client      {OURS}\n"
    assert cli("version").stdout == f"client      {OURS}\n"


def test_programs_have_their_version_and_ready_pods(cli: Cli, fake: FakeCluster) -> None:
    webhooks = (component("webhook", IMAGE), component("webhook", IMAGE, ready=False))
    result = cli(*installed(fake, *webhooks, component("scheduler", "kube-scheduler:v1.34.2")))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"client      {OURS}\n"
        "kubernetes  v1.34.2\n"
        "scheduler   v1.34.2  1 pod in numa, all ready\n"
        f"webhook     {OURS}  2 pods in numa, 1 ready\n"
    )


def test_json_and_yaml_have_the_same_versions(cli: Cli, fake: FakeCluster) -> None:
    image = f"numalign:{OURS}@sha256:abc"
    words = installed(fake, component("agent", image))
    agent = {"program": "agent", "namespace": "numa", "version": OURS, "image": image, "pods": 1, "ready": 1}
    expected = {"client": OURS, "kubernetes": "v1.34.2", "programs": [agent], "skew": []}

    assert cli.json(*words) == expected
    assert yaml.load(cli.text(*words, "-o", "yaml"), yaml.CSafeLoader) == expected


DIFFERING = "versions differ in the cluster (agent 0.9, webhook 1.0): run the same version of all programs\n"
OTHERS = f"this program has version {OURS}, but the cluster runs others (webhook 99)\n"


def test_differing_versions_are_warned_of(cli: Cli, fake: FakeCluster) -> None:
    for versions, warning in (({"webhook": "99"}, OTHERS), ({"webhook": "1.0", "agent": "0.9"}, DIFFERING)):
        pods = (component(program, f"numalign:{version}") for program, version in versions.items())
        result = cli(*installed(fake, *pods))
        assert (result.exit_code, result.stderr) == (0, f"warning: {warning}")


def test_forbidden_pods_leave_the_other_versions(cli: Cli, fake: FakeCluster) -> None:
    words = installed(fake)
    assert "numalign does not run in this cluster" in cli.text(*words)
    fake.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
    result = cli(*words)

    assert (result.exit_code, result.stdout) == (0, f"client      {OURS}\nkubernetes  v1.34.2\n")
    assert result.stderr.startswith("programs in the cluster: unknown: not allowed to read the pods of")
