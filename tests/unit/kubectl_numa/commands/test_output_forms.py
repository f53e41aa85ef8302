"""What holds for the output forms of all commands."""

import json
from typing import Any

import pytest
import yaml

from kubectl_numa import listings, options
from kubectl_numa.listings import ListedRow, Listing, Output
from numalign.model.intent import Policy
from tests.unit.kubectl_numa.conftest import STORED, Cli
from tests.unit.kubectl_numa.objects import SINGLE, levels, manifest, rejected, running, waiting
from tests.worlds.notation import table

CLUSTER = (
    levels("team", **{"exclusive-cpus": "100"}),
    running("bad", 0, 1),
    running("good", 1),
    waiting("stuck", "40"),
    rejected("out"),
    STORED,
)

# the command      whether it fails      columns of the table      what -o name prints, without its entries
LISTINGS = [
    ("nodes", "nodes", "NAME STATUS ZONES CPU MEMORY DEVICES POLICY SCOPE KNOWN SOURCE AGE CLASS",
        "node/{name}"),
    ("doctor", "doctor", "NAME LACKS NOTES KNOWN SOURCE AGE", "node/{name}"),
    ("shapes", "shapes", "NAME KNOWN NODES ZONES POLICY SCOPE", "shape/{name}"),
    ("pods", "pods -A", "NAMESPACE NAME NODE POLICY ALIGNED ZONES CPUS", "pod/{name}"),
    ("rejected pods", "pods --rejected", "NAMESPACE NAME NODE REJECTED REASON OWNER MESSAGE", "pod/{name}"),
    ("quotas", "pods --quota", "NAMESPACE", "namespace/{namespace}"),
    ("pending pods", "pending", "PODS VERDICT NAMESPACES OLDEST REASON OLDEST POD REMEDY",
        "pod/{oldest[name]}"),
    ("manifests", "check -f POD", "RESULT NAMESPACE NAME KIND WHERE WARNINGS REASON", "pod/{pod}"),
    ("running pods", "check -A --all",
        "NAMESPACE NAME OUTCOME POLICY ALIGNED BELOW ADMITTED NODE OWNER WHY", "pod/{name}"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "columns", "named"), table(LISTINGS))
def test_all_forms_list_the_same(cli: Cli, command: str, columns: str, named: str) -> None:
    pod = cli.write("p.yaml", manifest("a"), manifest("b", "33", policy=SINGLE))
    words = (*command.replace("POD", str(pod)).split(), "--snapshot", cli.cluster(*CLUSTER))
    results = {form: cli(*words, "-o", form) for form in ("json", "yaml", "name", "wide", "text")}
    entries = json.loads(results["json"].stdout)
    heading, *rows = results["wide"].stdout.splitlines()

    assert len({result.exit_code for result in results.values()}) == 1
    assert entries
    assert yaml.load(results["yaml"].stdout, yaml.CSafeLoader) == entries
    assert results["name"].stdout.splitlines() == [named.format(**entry) for entry in entries]
    assert " ".join(heading.split()).startswith(columns)
    assert len(rows) == len(entries)
    words_of_rows = [row.split() for row in rows]
    for entry, row in zip(entries, words_of_rows, strict=True):
        assert {str(entry[key]) for key in ("name", "namespace") if entry.get(key)} <= {*row}


DOCUMENTS = ["defrag stuck -n team", "explain stuck -n team", "versions"]


@pytest.mark.parametrize("command", DOCUMENTS)
def test_yaml_holds_the_json_document(cli: Cli, command: str) -> None:
    words = [*command.split(), *(["--snapshot", cli.cluster(*CLUSTER)] if command != "versions" else [])]

    assert yaml.load(cli(*words, "-o", "yaml").stdout, yaml.CSafeLoader) == cli.json(*words)


@pytest.mark.parametrize("command", ["nodes", "doctor", "pods -A", "check -A"])
def test_colour_is_for_terminals_that_want_it(cli: Cli, command: str) -> None:
    words = (*command.split(), "--snapshot", cli.cluster(*CLUSTER))
    colours: dict[str, Any] = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}

    assert "\x1b[" not in cli(*words).stdout
    assert "\x1b[3" in cli(*words, **colours).stdout
    assert "\x1b[3" not in cli(*words, NO_COLOR="1", **colours).stdout


def test_names_are_arguments_of_the_next_command(cli: Cli) -> None:
    snapshot = ("--snapshot", cli.cluster())
    names = cli("nodes", *snapshot, "-o", "name").stdout

    assert cli("nodes", *names.split(), *snapshot, "-o", "name").stdout == names
    named = {node["name"] for node in cli.json("doctor", *names.split(), *snapshot)}
    assert named == {"big", "hidden", "small"}


LISTED = [{"name": "a", "policy": Policy.RESTRICTED, "zones": []}, {"name": "b: c", "policy": None}]
ROWS = [ListedRow("node/a", ("a", Policy.RESTRICTED, 12)), ListedRow("node/b", ("b\nc", None, ""))]


def printed(listing: Listing, output: Output, capsys: pytest.CaptureFixture[str]) -> str:
    options.print_listing(listing, output)
    return capsys.readouterr().out


def test_a_listing_is_printed_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing(("name", "policy"), wide_columns=("pods",), rows=ROWS, documents=lambda: LISTED)
    texts = {output: printed(listing, output, capsys) for output in Output}

    assert texts[Output.NAME] == "node/a\nnode/b\n"
    assert texts[Output.TEXT] == "NAME   POLICY\na      restricted\nb c    <none>\n"
    assert texts[Output.WIDE] == (
        "NAME   POLICY       PODS\na      restricted   12\nb c    <none>       <none>\n"
    )
    assert yaml.load(texts[Output.YAML], yaml.CSafeLoader) == json.loads(texts[Output.JSON]) == LISTED
    assert [*listings.table(("name", "pods"), ())] == ["NAME   PODS"]


def test_names_steer_no_terminal_and_begin_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    steering = [ListedRow("pod/a\npod/forged", ("a\x1b[31m\nb",)), ListedRow(""), ListedRow("pod/b\x1b[2J")]
    wide = printed(Listing(("name",), steering[:1], list), Output.WIDE, capsys)

    assert wide == "NAME\na\N{REPLACEMENT CHARACTER}[31m b\n"
    assert (
        printed(Listing(("name",), steering, list), Output.NAME, capsys)
        == "pod/a pod/forged\npod/b\ufffd[2J\n"
    )
