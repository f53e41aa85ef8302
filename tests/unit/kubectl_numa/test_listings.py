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


def rows() -> Iterator[ListedRow]:
    yield ListedRow("node/a", ("a", Policy.RESTRICTED, 12))
    yield ListedRow("node/b", ("b\nc", None, ""))


def listing(**text: object) -> Listing:
    drawn = text.get("text")
    return Listing(
        columns=("name", "policy"),
        wide_columns=("pods",),
        rows=rows(),
        documents=lambda: DOCUMENTS,
        text=(lambda writer: writer.write(str(drawn))) if drawn else None,
    )


PRINTED = [
    (Output.NAME, "node/a\nnode/b\n"),
    (Output.TEXT, "NAME   POLICY\na      restricted\nb c    <none>\n"),
    (Output.WIDE, "NAME   POLICY       PODS\na      restricted   12\nb c    <none>       <none>\n"),
]


@pytest.mark.parametrize(("output", "printed"), PRINTED)
def test_it_is_printed_as_was_asked(output: Output, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    options.print_listing(listing(), output)

    assert capsys.readouterr().out == printed


def test_a_command_may_draw_its_text_itself(capsys: pytest.CaptureFixture[str]) -> None:
    options.print_listing(listing(text="drawn"), Output.TEXT)

    assert capsys.readouterr().out == "drawn\n"


def test_json_and_yaml_hold_the_same_documents(capsys: pytest.CaptureFixture[str]) -> None:
    options.print_listing(listing(), Output.JSON)
    as_json = json.loads(capsys.readouterr().out)
    options.print_listing(listing(), Output.YAML)

    assert yaml.safe_load(capsys.readouterr().out) == as_json
    assert as_json == [{"name": "a", "policy": "restricted", "zones": []}, {"name": "b: c", "policy": None}]


def test_a_table_without_rows_is_its_heading() -> None:
    assert [*table(("name", "pods"), ())] == ["NAME   PODS"]


def test_what_a_tenant_wrote_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [ListedRow("pod/a", ("a\x1b[31m\nb",))]
    writer = TextWriter(Console())

    Listing(("name",), rows, list).draw_wide(writer)

    assert capsys.readouterr().out == "NAME\na\N{REPLACEMENT CHARACTER}[31m b\n"


def test_a_name_stays_in_its_line_and_what_has_none_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [ListedRow("pod/a\npod/forged"), ListedRow(""), ListedRow("pod/b\x1b[2J")]

    options.print_listing(Listing(("name",), rows, list), Output.NAME)

    assert capsys.readouterr().out == "pod/a pod/forged\npod/b\ufffd[2J\n"
