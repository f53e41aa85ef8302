"""check -f: one line for each pod of manifests, and an exit code for pipelines."""

import pytest

from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import ITEMS, SERVICE, SINGLE, machine_object, manifest, unknown_kind
from tests.worlds.notation import table


def test_a_folder_is_checked_with_a_line_for_each_pod(cli: Cli) -> None:
    first = cli.write("dir/a.yaml", manifest("a"), manifest("b", namespace="strict"))
    second = cli.write("dir/deep/b.yaml", manifest("c", policy="tight"))
    result = cli("check", "-f", cli.folder / "dir", "--snapshot", cli.cluster())

    *lines, summary = result.stdout.splitlines()
    beginnings = [
        f"ok      default/a ({first}, document 1): no intent, 2 of 2 nodes could run it",
        f'denied  strict/b ({first}, document 2): namespace "strict" enforces NUMA alignment of at least ',
        f'bad     default/c ({second}, document 1): metadata.annotations[numalign.io/policy]: "tight" is ',
    ]
    assert [line[: len(begins)] for line, begins in zip(lines, beginnings, strict=True)] == beginnings
    assert (result.exit_code, summary) == (2, "3 pods: 1 bad, 1 denied, 1 ok")
    assert result.stderr.startswith(
        f"{second}, document 1 (Pod c): metadata.annotations[numalign.io/policy]: "
    )


@pytest.mark.parametrize(("cpus", "code"), [("8 32", 0), ("8 33", 1), ("33 x", 2), ("", 0)])
def test_exit_code_is_that_of_the_worst_manifest(cli: Cli, cpus: str, code: int) -> None:
    pods = (manifest("a", cpu, policy=SINGLE) for cpu in cpus.split())

    assert cli(*cli.check(SERVICE, *pods)).exit_code == code


def test_guessed_templates_decide_nothing_and_are_listed(cli: Cli) -> None:
    result = cli(*cli.check(unknown_kind(manifest("a", "33", policy=SINGLE)), SERVICE, manifest("b")))
    first, warning, *others = result.stdout.splitlines()
    place = f"{cli.folder}/pods.yaml, document 1, spec.template, guessed"

    assert result.exit_code == 0
    assert first.startswith(f"never   default/a ({place}): ")
    assert warning == "        warning: Thing.x.io is an unknown kind: found a pod template at spec.template"
    assert others[1:] == ["2 pods: 1 never, 1 ok, 1 with warnings"]
    assert result.stderr.splitlines() == ["1 object without pods: 1 Service"]


FLAGS = [
    ("defaults", "", 0, "warning: no node with a NUMA topology can align the pod; 1 node without"),
    ("nodes without topology", "--unknown-nodes cannot-fit", 1, "never"),
    ("an exempt user", "--unknown-nodes cannot-fit --created-by ci", 0, "ok"),
]


@pytest.mark.parametrize(("flags", "code", "part"), table(FLAGS))
def test_flags_stand_for_those_of_the_webhook(cli: Cli, flags: str, code: int, part: str) -> None:
    hidden = machine_object("hidden", cpu="64", memory="128Gi")
    nodes = [hidden, machine_object("big"), machine_object("small")]
    others = [item for item in ITEMS if item["kind"] != "Node"]
    policy = cli.write("policy.yaml", {"exemptions": {"users": ["ci"]}})
    pod = cli.write("p.yaml", manifest("a", "33", policy=SINGLE))
    snapshot = cli.cluster(items=[*nodes, *others])
    result = cli("check", "-f", pod, "--snapshot", snapshot, "--policy", policy, *flags.split())

    assert (result.exit_code, part in result.stdout) == (code, True)


def test_namespace_of_the_context_gives_its_rules(cli: Cli, served: FakeCluster) -> None:
    pod = cli.write("p.yaml", manifest("a", "33"))
    words = ("check", "-f", pod, "--kubeconfig", served.kubeconfig)
    result = cli(*words)

    assert result.exit_code == 1
    assert result.stdout.startswith(f"never   eager/a ({pod}, document 1): no node can align container ")
    assert cli(*words, "-n", "default").exit_code == 0
