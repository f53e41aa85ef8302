"""What commands list, in every form."""

import json

import pytest
import yaml
from rich.console import Console

from kubectl_numa import options
from kubectl_numa.lines import TextWriter
from kubectl_numa.listings import ListedRow, Listing, Output, table
from numalign.model.intent import Policy

DOCUMENTS = [{"name": "a", "policy": Policy.RESTRICTED, "zones": []}, {"name": "b: c", "policy": None}]
ROWS = [ListedRow("node/a", ("a", Policy.RESTRICTED, 12)), ListedRow("node/b", ("b\nc", None, ""))]


def printed(listing: Listing, output: Output, capsys: pytest.CaptureFixture[str]) -> str:
    options.print_listing(listing, output)
    return capsys.readouterr().out


def test_a_listing_is_printed_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing(("name", "policy"), wide_columns=("pods",), rows=ROWS, documents=lambda: DOCUMENTS)
    texts = {output: printed(listing, output, capsys) for output in Output}

    assert texts[Output.NAME] == "node/a\nnode/b\n"
    assert texts[Output.TEXT] == "NAME   POLICY\na      restricted\nb c    <none>\n"
    assert texts[Output.WIDE] == (
        "NAME   POLICY       PODS\na      restricted   12\nb c    <none>       <none>\n"
    )
    assert yaml.safe_load(texts[Output.YAML]) == json.loads(texts[Output.JSON]) == DOCUMENTS
    assert [*table(("name", "pods"), ())] == ["NAME   PODS"]


def test_names_steer_no_terminal_and_begin_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    steering = [ListedRow("pod/a\npod/forged", ("a\x1b[31m\nb",)), ListedRow(""), ListedRow("pod/b\x1b[2J")]
    Listing(("name",), steering[:1], list).draw_wide(TextWriter(Console()))

    assert capsys.readouterr().out == "NAME\na\N{REPLACEMENT CHARACTER}[31m b\n"
    assert (
        printed(Listing(("name",), steering, list), Output.NAME, capsys)
        == "pod/a pod/forged\npod/b\ufffd[2J\n"
    )
