"""The generated pages are what the sources say now, and leave nothing out."""

import re

import click
import pytest
import yaml
from click.testing import CliRunner

from kubectl_numa.cli import program
from numalign.runtime import settings
from tools.generate.reference import commands_page, values_page
from tools.generate.reference.commands_page import kubectl_numa_page
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


def test_page_leaves_the_help_of_commands_unchanged() -> None:
    group = click.Group("planted", context_settings={"help_option_names": ["-h", "--help"]})
    group.add_command(click.Command("run", help="Run it."))

    assert "## planted run\n" in commands_page.page_of("# planted", group, "planted")

    assert CliRunner().invoke(group, ["run", "-h"]).exit_code == 0


def test_every_command_is_there() -> None:
    assert isinstance(program, click.Group)
    for name in program.commands:
        assert f"## kubectl numa {name}\n" in kubectl_numa_page()


def test_every_value_is_there_with_what_it_means() -> None:
    values = list(values_page.read(values_page.VALUES.read_text(encoding="utf-8")))
    assert [value.path for value in values if not value.comment and value.default] == []
    top = yaml.safe_load(values_page.VALUES.read_text(encoding="utf-8"))
    assert {value.path[0] for value in values} == top.keys()


def test_a_value_is_read_with_its_comment_and_its_default() -> None:
    text = """\
# How many answer.
replicas: 2

# Of the Service.
service:
  # Its names,
  # all of them.
  names: [a, b]
"""
    assert list(values_page.read(text)) == [
        values_page.Value(("replicas",), "2", "How many answer."),
        values_page.Value(("service",), "", "Of the Service."),
        values_page.Value(("service", "names"), "[a, b]", "Its names, all of them."),
    ]


def test_a_list_of_several_lines_is_shown_on_one() -> None:
    text = """\
# Where pods run.
tolerations:
  # By default everywhere.
  - operator: Exists
    effect: NoSchedule
  - {key: "a b"}
  - plain
"""
    [value] = values_page.read(text)
    assert value.default == '[{operator: Exists, effect: NoSchedule}, {key: "a b"}, plain]'
    assert yaml.safe_load(value.default) == yaml.safe_load(text)["tolerations"]


def test_a_text_of_several_lines_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"values.yaml:2: write this default in quotes"):
        list(values_page.read("# A script.\nscript: |\n  one\n  two\n"))
