"""The reference is what the sources say now, leaves nothing out, and names nothing that is not there."""

import ast
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest
import yaml

from numalign.kube.decode import kubelet_reports
from numalign.map import http, signing_in
from numalign.model import intent
from numalign.runtime import server, settings
from scorer.handlers import HANDLERS
from tests.worlds.syntax import parsed, walked
from tools.clusters import shipped
from tools.generate.reference import FOLDER, PAGES, PROGRAMS, VALUES, flags, read_values

ROOT = FOLDER.parents[1]
KEY, REASON = re.compile(r"numalign\.io/[a-z-]+"), re.compile(r"NUMA[A-Z][a-z]\w+")
SOURCES = ("numalign", "webhook", "scorer", "controller", "agent")
INSIDE = {"/tiles", "/static/{name}", signing_in.LOGIN, signing_in.LOGOUT}
"""What the map's own pages ask for; nobody else has to."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_would_be_written_now(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "python -m tools.generate reference"


def test_every_flag_of_every_program_is_there() -> None:
    groups = chain.from_iterable(settings.explained(model).values() for model in PROGRAMS.values())
    every = {setting.flag for group in groups for setting in group}
    assert every <= set(re.findall(r"^\| `(--[\w-]+)", flags(), re.MULTILINE))


def test_differing_default_has_a_row_per_program() -> None:
    rows = re.findall(r"^\| `--max-body-bytes NUMBER` \| `(\d+)` \| `([\w-]+)`: ", flags(), re.MULTILINE)
    assert rows == [(str(20 * 2**20), "numalign-webhook"), (str(8 * 2**20), "numalign-scorer")]


def test_every_value_is_there_with_what_it_means() -> None:
    text = VALUES.read_text(encoding="utf-8")
    values = list(read_values(text))
    assert [value.path for value in values if not value.comment and value.default] == []
    assert {value.path[0] for value in values} == yaml.safe_load(text).keys()


def texts(*files: Path) -> Iterable[str]:
    """Every text in the sources."""
    nodes = chain.from_iterable(walked(parsed(file.read_text(encoding="utf-8"))) for file in files)
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def first_cells(name: str) -> set[str]:
    """What stands as code in the first column of the tables of a page."""
    return set(re.findall(r"^\| `([^`]+)` \|", (FOLDER / name).read_text(encoding="utf-8"), re.MULTILINE))


def test_every_annotation_and_label_has_its_line() -> None:
    values = chain(vars(intent).values(), vars(kubelet_reports).values())
    named = first_cells("annotations.md") | first_cells("labels.md")
    keys = {value for value in values if isinstance(value, str) and KEY.fullmatch(value)}
    assert {name for name in named if KEY.fullmatch(name)} == keys


def test_page_lists_every_event_reason() -> None:
    files = chain.from_iterable((ROOT / folder).rglob("*.py") for folder in SOURCES)
    taints = {name.partition("=")[0] for name in first_cells("labels.md")}
    assert first_cells("events.md") == {*filter(REASON.fullmatch, texts(*files))} - taints


def test_every_route_is_named() -> None:
    entries = (entry for document in shipped.webhooks() for entry in document["webhooks"])
    webhooks = {entry["clientConfig"]["service"]["path"] for entry in entries}
    of_map = {text for text in texts(Path(http.__file__)) if re.fullmatch(r"/|(/[\w{}.-]+)+", text)} - INSIDE
    shown = {re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), path) for path in of_map}
    routes = webhooks | shown | {f"/{name}" for name in HANDLERS}
    routes |= {server.HEALTH, server.READINESS, server.METRICS, server.STATE}
    text = (FOLDER / "http-api.md").read_text(encoding="utf-8")
    assert {path for path in routes if not re.search(rf"`(GET |POST )?{re.escape(path)}`", text)} == set()
