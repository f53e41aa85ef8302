"""What commands list, in every form."""

import json
from collections.abc import Iterator

import pytest
import yaml
from rich.console import Console

from kubectl_numa import options
from kubectl_numa.lines import TextWriter
from kubectl_numa.listings import ListedRow, Listing, Output, table
from numalign.model.intent import Policy

DOCUMENTS = [{"name": "a", "policy": Policy.RESTRICTED, "zones": []}, {"name": "b: c", "policy": None}]
AS_JSON = [{"name": "a", "policy": "restricted", "zones": []}, {"name": "b: c", "policy": None}]


def rows() -> Iterator[ListedRow]:
    yield ListedRow("node/a", ("a", Policy.RESTRICTED, 12))
    yield ListedRow("node/b", ("b\nc", None, ""))


def listing() -> Listing:
    return Listing(("name", "policy"), wide_columns=("pods",), rows=rows(), documents=lambda: DOCUMENTS)


def printed(listing: Listing, output: Output, capsys: pytest.CaptureFixture[str]) -> str:
    options.print_listing(listing, output)
    return capsys.readouterr().out


def test_a_listing_is_printed_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {output: printed(listing(), output, capsys) for output in Output}

    assert texts[Output.NAME] == "node/a\nnode/b\n"
    assert texts[Output.TEXT] == "NAME   POLICY\na      restricted\nb c    <none>\n"
    assert texts[Output.WIDE] == (
        "NAME   POLICY       PODS\na      restricted   12\nb c    <none>       <none>\n"
    )
    assert yaml.safe_load(texts[Output.YAML]) == json.loads(texts[Output.JSON]) == AS_JSON


def test_a_command_may_draw_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = Listing(("name",), [], list, text=lambda writer: writer.write("drawn"))

    assert printed(drawn, Output.TEXT, capsys) == "drawn\n"


def test_a_table_without_rows_is_its_heading() -> None:
    assert [*table(("name", "pods"), ())] == ["NAME   PODS"]


def test_names_steer_no_terminal_and_begin_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    steering = [ListedRow("pod/a\npod/forged", ("a\x1b[31m\nb",)), ListedRow(""), ListedRow("pod/b\x1b[2J")]
    Listing(("name",), steering[:1], list).draw_wide(TextWriter(Console()))

    assert capsys.readouterr().out == "NAME\na\N{REPLACEMENT CHARACTER}[31m b\n"
    assert (
        printed(Listing(("name",), steering, list), Output.NAME, capsys)
        == "pod/a pod/forged\npod/b\ufffd[2J\n"
    )
