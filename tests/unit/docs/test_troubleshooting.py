"""docs/troubleshooting.md quotes what programs really print, and leaves out nothing that owners read."""

import gzip
import re
from pathlib import Path

import pytest
import yaml

from numalign.cache.admission import AdmissionState
from numalign.decision.verdict import Cause
from numalign.kubelet.admission_errors import RejectionReason
from tests.unit.docs import printed
from tests.unit.docs.blocks import ROOT
from tests.unit.docs.quotes import PAGE, Quote, from_template, quotes, tables, templated, templates

TEXT = PAGE.read_text()
QUOTES = quotes(TEXT)
MESSAGES = {each.name: each for each in QUOTES if each.source == "message"}
REFERENCE = ROOT / "docs" / "reference"

# Whatever these files can say to the owner of a pod has its entry.
REVIEWERS = (
    "numalign/cache/admission.py",
    "numalign/cache/dra.py",
    "numalign/decision/taints.py",
    "numalign/model/intent.py",
    "webhook/quota.py",
)
FEWEST_WORDS = 5

# ---- what is quoted is printed


def test_every_text_block_has_its_source() -> None:
    assert len(QUOTES) == len(re.findall(r"^```text$", TEXT, re.MULTILINE))


@pytest.mark.parametrize("quote", MESSAGES.values(), ids=MESSAGES.keys())
def test_a_message_is_what_our_code_prints(quote: Quote) -> None:
    assert quote.text == printed.messages()[quote.name], "`python -m tests.unit.docs.printed` mends the page"


@pytest.mark.parametrize(("text", "files"), [*templated(TEXT)])
def test_text_is_in_the_file_that_is_named(text: str, files: list[Path]) -> None:
    assert any(from_template(text, file) for file in files)


def test_messages_of_the_kubelet_were_recorded() -> None:
    files = (ROOT / "tests" / "kubelet" / "data").glob("kubelet-*.jsonl.gz")
    recorded = "".join(gzip.decompress(path.read_bytes()).decode() for path in files)
    quoted = [each.text for each in QUOTES if each.source == "from" and each.name == "kubelet"]
    assert quoted
    for line in "\n".join(quoted).splitlines():
        assert line.removeprefix("Pod was rejected: ") in recorded


@pytest.mark.parametrize("name", tables(TEXT))
def test_a_table_quotes_what_our_code_prints(name: str) -> None:
    rows = tables(TEXT)[name]
    expected = {key: [f"`{text}`" for text in texts] for key, texts in printed.tables()[name].items()}
    assert {key: cells[: len(expected.get(key, []))] for key, cells in rows.items()} == expected
    assert all(cells[-1] for cells in rows.values())


# ---- whatever is printed has its entry


def test_every_message_that_is_provoked_is_quoted() -> None:
    assert MESSAGES.keys() == printed.messages().keys()
    assert tables(TEXT).keys() == printed.tables().keys()


def test_every_decision_that_an_owner_hears_of_is_provoked() -> None:
    silent = {AdmissionState.NOT_ASKED, AdmissionState.FITS}
    assert {state for state, _ in printed.cases().values()} | silent >= set(AdmissionState)
    assert tables(TEXT)["causes"].keys() == {cause.value for cause in Cause}


@pytest.mark.parametrize("file", REVIEWERS)
def test_every_text_of_a_review_is_quoted(file: str) -> None:
    cells = [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", TEXT)]
    quoted = "\n".join([*(" ".join(each.text.split()) for each in QUOTES), *cells])
    texts = [each for each in templates(ROOT / file) if len(each.split(r"\ ")) >= FEWEST_WORDS]
    assert texts
    assert [each for each in texts if not re.search(each, quoted, re.IGNORECASE)] == []


def test_every_reason_of_events_and_kubelets_has_its_entry() -> None:
    events = re.findall(r"^\| `(\w+)` \|", (REFERENCE / "events.md").read_text(), re.MULTILINE)
    assert {*re.findall(r"^\| `(NUMA[A-Z][a-z]\w+)` \|", TEXT, re.MULTILINE)} == {*events}
    errors = re.findall(r"^#{2,3} `(\w+Error)`$", TEXT, re.MULTILINE)
    assert {*errors} == {str(each) for each in RejectionReason} - {RejectionReason.NOT_ANSWERED}


# ---- what the page names beside messages


def test_events_of_the_log_and_metrics_are_documented() -> None:
    documented = "".join((REFERENCE / page).read_text() for page in ("logs.md", "metrics.md"))
    named = {*re.findall(r"`(numalign_\w+)`", TEXT), *re.findall(r"grep (?:-e )?([a-z_]+\.[a-z_]*)", TEXT)}
    named |= {*re.findall(r"log has `([a-z_]+\.[a-z_]+)`", TEXT)}
    assert {name for name in named if f"`{name}" not in documented} == set()


def test_values_of_the_chart_are_there() -> None:
    values = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text())
    logged = (REFERENCE / "logs.md").read_text()
    named = {*re.findall(rf"`((?:{'|'.join(values)})(?:\.\w+)+)(?:[=:][^`]*)?`", TEXT)}
    for path in {path for path in named if f"`{path}`" not in logged}:
        below = values
        for key in path.split("."):
            assert key in below, f"there is no value {path}"
            below = below[key]
