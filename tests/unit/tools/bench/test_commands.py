"""Every command is measured, and asked what the case asks."""

from numalign.kube.decode import pods
from numalign.model.intent import Policy
from tools.bench import commands
from tools.bench.fleets import Case

CASE = Case.mixed(36, 36, Policy.RESTRICTED)


def test_the_pod_asks_what_the_case_does() -> None:
    made = commands.pod(CASE)

    [container] = pods.pod(made).containers
    assert container.requests == CASE.question(0).demand.total
    assert made["metadata"]["annotations"] == {"numalign.io/policy": "restricted"}


def test_every_command_is_measured() -> None:
    found = commands.measure(Case.mixed(2, 36, Policy.RESTRICTED), repeats=1)

    assert [*found] == ["--version", "--help", "explain", "check", "nodes", "shapes"]
    assert all(times.median > 0 for times in found.values())
