"""The generated pages are what the sources say now, and leave nothing out."""

import re

import pytest
import yaml

from numalign.runtime import settings
from tools.generate.reference import values_page
from tools.generate.reference.flags_page import PROGRAMS, page
from tools.generate.reference.pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_would_be_written_now(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "python -m tools.generate reference"


def test_every_flag_of_every_program_is_there() -> None:
    flags = {
        setting.flag
        for model in PROGRAMS.values()
        for group in settings.explained(model).values()
        for setting in group
    }
    assert flags <= set(re.findall(r"^\| `(--[\w-]+)", page(), re.MULTILINE))


def test_differing_default_has_a_row_per_program() -> None:
    rows = re.findall(r"^\| `--max-body-bytes NUMBER` \| `(\d+)` \| `([\w-]+)`: ", page(), re.MULTILINE)
    assert rows == [(str(20 * 2**20), "numalign-webhook"), (str(8 * 2**20), "numalign-scorer")]


def test_every_value_is_there_with_what_it_means() -> None:
    values = list(values_page.read(values_page.VALUES.read_text(encoding="utf-8")))
    assert [value.path for value in values if not value.comment and value.default] == []
    top = yaml.safe_load(values_page.VALUES.read_text(encoding="utf-8"))
    assert {value.path[0] for value in values} == top.keys()
