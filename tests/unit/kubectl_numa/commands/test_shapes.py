"""shapes: which node shapes exist, existed and are declared; and the same as a policy file."""

from pathlib import Path

import yaml

from tests.unit.kubectl_numa.conftest import Cli
from tests.worlds.objects import node


def exported(cli: Cli, path: Path) -> Path:
    """Write a policy that declares the shapes of a snapshot."""
    return cli.write("policy.yaml", cli.text("shapes", "export", "--snapshot", path))


def test_shapes_are_listed_with_their_nodes(cli: Cli) -> None:
    words = ("shapes", "--snapshot", cli.cluster())
    listed, page = cli.json(*words), cli.text(*words)

    assert [(each["known"], each["nodes"], each["lastSeen"]) for each in listed] == [("present", 1, None)] * 2
    assert all(each["name"].startswith(each["class"]) for each in listed)
    assert page.count("single-numa-node, scope container  1 node present\n") == 2
    assert "  zone 0  ░░░░░░░░░░░░░░░░ 0/32  ░░░░░░░░░░░░░░░░ 0/64Gi\n" in page


def test_exported_shapes_can_be_declared(cli: Cli) -> None:
    present = cli.json("shapes", "--snapshot", cli.cluster())
    policy = exported(cli, cli.cluster())
    declared = cli.json("shapes", "--snapshot", cli.cluster(items=[node("bare")]), "--policy", policy)

    assert [each["known"] for each in declared] == ["declared"] * 2
    assert [(each["name"], each["zones"]) for each in declared] == [
        (each["name"], each["zones"]) for each in present
    ]


def test_an_export_goes_into_a_file(cli: Cli) -> None:
    path = cli.folder / "shapes.yaml"
    result = cli("shapes", "export", "-o", path, "--snapshot", cli.cluster())

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{path}: 2 shapes\n")
    assert len(yaml.safe_load(path.read_text())["shapes"]) == 2


def test_declared_shapes_follow_the_nodes(cli: Cli) -> None:
    declared = yaml.safe_load(exported(cli, cli.cluster()).read_text())["shapes"][0]
    declared["attributes"] = [{"name": "topologyManagerPolicy", "value": "restricted"}]
    policy = cli.write("policy.yaml", {"shapes": [declared]})
    words = ("nodes", "--snapshot", cli.cluster(), "--policy", policy)

    assert [each["known"] for each in cli.json(*words)] == ["counts", "counts", "nothing", "declared"]
    assert "restricted, scope container  declared\n" in cli.text(*words)
