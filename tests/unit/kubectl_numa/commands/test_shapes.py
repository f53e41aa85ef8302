"""shapes: what kinds of nodes there are, were and may be; and the same as a policy file declares them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table

Run = Callable[..., Result]
Write = Callable[..., Path]


def listed(run: Run, *arguments: object) -> list[dict[str, Any]]:
    result = run("shapes", *arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def exported(run: Run, cluster_file: Path) -> str:
    result = run("shapes", "export", "--snapshot", cluster_file)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_every_shape_is_listed_with_the_nodes_of_it(run: Run, cluster_file: Path) -> None:
    found = listed(run, "--snapshot", cluster_file)
    assert [(each["known"], each["nodes"], each["lastSeen"]) for each in found] == [("present", 1, None)] * 2
    assert all(each["name"].startswith(each["class"]) for each in found)


def test_a_person_reads_how_each_is_known(run: Run, cluster_file: Path) -> None:
    page = run("shapes", "--snapshot", cluster_file).stdout
    assert page.count("single-numa-node, scope container  1 node present\n") == 2
    assert "  zone 0  ░░░░░░░░░░░░░░░░ 0/32  ░░░░░░░░░░░░░░░░ 0/64Gi\n" in page


def test_what_is_exported_can_be_declared(run: Run, cluster_file: Path, write: Write) -> None:
    policy = write("policy.yaml", exported(run, cluster_file))
    nobody = write("empty.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    declared = listed(run, "--snapshot", nobody, "--policy", policy)

    assert [each["known"] for each in declared] == ["declared"] * 2
    assert [(each["name"], each["zones"]) for each in declared] == [
        (each["name"], each["zones"]) for each in listed(run, "--snapshot", cluster_file)
    ]


SINGLE = "single-numa-node"
PODS = [
    # what it shows                      CPUs   what else it says              the answer
    ("that fits",                        "32",  {},                            "ok"),
    ("too large for a zone",             "33",  {},                            "never"),
    ("that selects a label it has",      "8",   {"pool": "a"},                 "ok"),
    ("that selects another value",       "8",   {"pool": "b"},                 "unknown"),
    ("too large for what it selects",    "33",  {"pool": "a"},                 "never"),
]  # fmt: skip


@pytest.mark.parametrize(("cpu", "selector", "answer"), table(PODS))
def test_of_declared_shapes_a_pod_hears_what_it_hears_of_nodes(  # noqa: PLR0913, PLR0917 - the fixtures, a table
    run: Run,
    cluster_file: Path,
    write: Write,
    cpu: str,
    selector: dict[str, str],
    answer: str,
) -> None:
    cluster = json.loads(cluster_file.read_text())
    for each in cluster["items"]:
        if each["kind"] == "Node":
            each["metadata"]["labels"] = {"pool": "a"}
    here = write("here.json", json.dumps(cluster))
    rest = [each for each in cluster["items"] if each["metadata"]["name"] not in {"big", "small", "hidden"}]
    gone = write("gone.json", json.dumps({**cluster, "items": rest}))
    policy = write("policy.yaml", exported(run, here))
    made = manifest("p", cpu, policy=SINGLE)
    pod = write("p.yaml", {**made, "spec": {**made["spec"], "nodeSelector": selector}})

    asked = ("check", "-f", pod, "-o", "json", "--unknown-nodes", "cannot-fit", "--snapshot")
    [of_nodes] = json.loads(run(*asked, here).stdout)
    [of_shapes] = json.loads(run(*asked, gone, "--policy", policy).stdout)
    assert (of_nodes["result"], of_shapes["result"]) == (answer, answer)


def test_an_export_can_go_into_a_file(run: Run, cluster_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "shapes.yaml"
    result = run("shapes", "export", "-o", path, "--snapshot", cluster_file)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{path}: 2 shapes\n"
    assert len(yaml.safe_load(path.read_text())["shapes"]) == 2


def test_declared_shapes_follow_the_nodes(run: Run, cluster_file: Path, write: Write) -> None:
    declared = yaml.safe_load(exported(run, cluster_file))["shapes"][0]
    declared["attributes"] = [{"name": "topologyManagerPolicy", "value": "restricted"}]
    policy = write("policy.yaml", {"shapes": [declared]})
    found = json.loads(run("nodes", "--snapshot", cluster_file, "--policy", policy, "-o", "json").stdout)
    assert [each["known"] for each in found] == ["counts", "counts", "nothing", "declared"]
    page = run("nodes", "--snapshot", cluster_file, "--policy", policy).stdout
    assert "restricted, scope container  declared\n" in page


def test_a_line_for_each_shape_and_names(run: Run, cluster_file: Path) -> None:
    heading, *lines = run("shapes", "--snapshot", cluster_file, "-o", "wide").stdout.splitlines()
    names = run("shapes", "--snapshot", cluster_file, "-o", "name").stdout.split()

    assert heading.split()[:6] == ["NAME", "KNOWN", "NODES", "ZONES", "POLICY", "SCOPE"]
    assert [line.split()[1:6] for line in lines] == [["present", "1", "2", SINGLE, "container"]] * 2
    assert names == [f"shape/{line.split()[0]}" for line in lines]
