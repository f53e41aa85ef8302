"""docs/troubleshooting.md quotes what programs really print, and leaves out nothing that owners read."""

import gzip
import re
from functools import cache
from typing import Any

import pytest
import yaml

from numalign.cache.admission import AdmissionState
from numalign.decision import taints
from numalign.decision.verdict import Cause
from numalign.kubelet.admission_errors import RejectionReason
from tests.unit.docs import printed
from tests.unit.docs.quotes import (
    PAGE,
    ROOT,
    Cell,
    Quote,
    blocks,
    cells,
    code,
    event_reasons,
    from_template,
    quotes,
    tables,
    templates,
)

TEXT = PAGE.read_text()
QUOTES = quotes(TEXT)
CELLS = [*cells(TEXT)]
PROGRAMS = ("agent", "certs", "controller", "kubectl_numa", "numalign", "scorer", "webhook")

OTHER_PROGRAMS = frozenset({"helm", "kube-apiserver", "kubelet"})
KUBERNETES_STATES = frozenset({"SchedulingGated"})
"""What kubectl shows as the status of a pod, and no program of ours prints."""

# Whatever these files can say to the owner of a pod has its entry.
REVIEWERS = (
    "numalign/cache/admission.py",
    "numalign/cache/dra.py",
    "numalign/decision/taints.py",
    "numalign/model/intent.py",
    "webhook/quota.py",
)
FEWEST_WORDS = 5


def of_source(source: str) -> list[Any]:
    """The quotes from one kind of source, as parameters."""
    return [
        pytest.param(each, id=f"{number} {each.name}")
        for number, each in enumerate(QUOTES)
        if each.source == source
    ]


def said(text: str) -> str:
    """A text in one line."""
    return " ".join(text.split())


# ---- what is quoted is printed


def test_every_text_block_has_its_source() -> None:
    assert len(QUOTES) == blocks(TEXT)


@pytest.mark.parametrize("quote", of_source("message"))
def test_a_message_is_what_our_code_prints(quote: Quote) -> None:
    assert quote.text == printed.messages()[quote.name], "`python -m tests.unit.docs.printed` mends the page"


@pytest.mark.parametrize("quote", of_source("template"))
def test_every_line_is_a_text_of_the_file_that_is_named(quote: Quote) -> None:
    assert [line for line in quote.lines if not from_template(line, ROOT / quote.name)] == []


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.text)
def test_message_in_a_table_is_in_the_named_file(cell: Cell) -> None:
    assert any(from_template(cell.text, ROOT / file) for file in cell.files)


@cache
def recorded() -> str:
    """What the kubelet's own code answered, as it was recorded."""
    files = (ROOT / "tests" / "kubelet" / "data").glob("kubelet-*.jsonl.gz")
    return "".join(gzip.decompress(path.read_bytes()).decode() for path in sorted(files))


@pytest.mark.parametrize("quote", [each for each in of_source("from") if each.values[0].name == "kubelet"])
def test_a_message_of_the_kubelet_was_recorded(quote: Quote) -> None:
    for line in quote.lines:
        assert line.removeprefix("Pod was rejected: ") in recorded()


def test_api_servers_complain_of_webhooks_that_there_are() -> None:
    manifests = (ROOT / "deploy" / "manifests" / "webhooks.yaml").read_text()
    entries = {
        entry["name"]: (entry["clientConfig"]["service"]["path"], entry["timeoutSeconds"])
        for configuration in yaml.safe_load_all(manifests)
        for entry in configuration["webhooks"]
    }
    called = re.findall(r'failed calling webhook "([^"]+)": .*?:443(/\w+)\?timeout=(\d+)s', TEXT)
    assert called
    for name, path, seconds in called:
        assert entries[name] == (path, int(seconds))


@pytest.mark.parametrize("name", tables(TEXT))
def test_a_table_quotes_what_our_code_prints(name: str) -> None:
    rows = tables(TEXT)[name]
    expected = {key: [f"`{text}`" for text in texts] for key, texts in printed.tables()[name].items()}
    assert {key: cells[: len(expected.get(key, []))] for key, cells in rows.items()} == expected
    assert all(cells[-1] for cells in rows.values())


# ---- whatever is printed has its entry


def test_every_message_that_is_provoked_is_quoted() -> None:
    assert {each.name for each in QUOTES if each.source == "message"} == printed.messages().keys()
    assert tables(TEXT).keys() == printed.tables().keys()


def test_every_decision_that_an_owner_hears_of_is_provoked() -> None:
    silent = {AdmissionState.NOT_ASKED, AdmissionState.FITS}
    assert {case.state for case in printed.CASES.values()} | silent >= set(AdmissionState)


def test_every_cause_of_a_refusal_has_its_row() -> None:
    assert tables(TEXT)["causes"].keys() == {cause.value for cause in Cause}


@pytest.mark.parametrize("file", REVIEWERS)
def test_every_text_of_a_review_is_quoted(file: str) -> None:
    quoted = "\n".join((*(said(each.text) for each in QUOTES), *in_tables(TEXT)))
    texts = [each for each in templates(ROOT / file) if len(each.split(r"\ ")) >= FEWEST_WORDS]
    assert texts
    assert [each for each in texts if not re.search(each, quoted, re.IGNORECASE)] == []


def in_tables(page: str) -> list[str]:
    """The texts of our own code in the tables of a page."""
    printed_cells = [cell for rows in tables(page).values() for row in rows.values() for cell in row]
    return [*map(code, printed_cells), *(each.text for each in cells(page))]


def headings() -> dict[str, str]:
    """The entries under a message: what stands below each heading that begins with code."""
    parts = re.split(r"^#{2,3} ", TEXT, flags=re.MULTILINE)
    entries = (part.partition("\n") for part in parts)
    return {head: body for head, _, body in entries if head.startswith("`")}


def names_in_headings() -> set[str]:
    """Headings that are one name: the reason of a kubelet, or the status of a pod."""
    return {name for head in headings() for name in re.findall(r"^`(\w+)`$", head)}


def test_every_reason_of_an_event_has_its_entry() -> None:
    reasons = {*event_reasons(PROGRAMS)} - {*taints.KEYS}
    assert {each.name for each in CELLS if each.name.startswith("NUMA")} == reasons


def test_every_reason_of_a_kubelet_has_its_entry() -> None:
    reasons = {str(each) for each in RejectionReason} - {RejectionReason.NOT_ANSWERED}
    assert {name for name in names_in_headings() if name.endswith("Error")} == reasons


@pytest.mark.parametrize("head", headings())
def test_a_heading_is_part_of_the_message_below_it(head: str) -> None:
    if (name := head.strip("`")) in names_in_headings():
        assert name in {*RejectionReason, *KUBERNETES_STATES}
        return
    body = headings()[head]
    quoted = "\n".join((*(said(each.text) for each in quotes(body)), *in_tables(body)))
    fragments = [part.strip() for part in re.findall(r"`([^`]+)`", head)[0].split("...")]
    assert [part for part in fragments if part not in quoted] == []


# ---- what the page names beside messages


def test_events_of_the_log_and_metrics_are_documented() -> None:
    reference = ROOT / "docs" / "reference"
    documented = "".join((reference / page).read_text() for page in ("logs.md", "metrics.md"))
    named = {*re.findall(r"`(numalign_\w+)`", TEXT), *re.findall(r"grep (?:-e )?([a-z_]+\.[a-z_]*)", TEXT)}
    named |= {*re.findall(r"log has `([a-z_]+\.[a-z_]+)`", TEXT)}
    assert {name for name in named if f"`{name}" not in documented} == set()


def test_values_of_the_chart_are_there() -> None:
    values = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text())
    logged = (ROOT / "docs" / "reference" / "logs.md").read_text()
    named = {*re.findall(rf"`((?:{'|'.join(values)})(?:\.\w+)+)(?:[=:][^`]*)?`", TEXT)}
    named = {path for path in named if f"`{path}`" not in logged}
    assert named
    for path in named:
        below = values
        for key in path.split("."):
            assert key in below, f"there is no value {path}"
            below = below[key]
