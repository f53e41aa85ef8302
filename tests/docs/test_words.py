"""No private word reaches people: not on a page, in a help text, in the chart, or in a message."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import click
import pytest
from pydantic import Field

from agent.settings import AgentSettings
from certs.cli import program as certs
from controller.settings import ControllerSettings
from kubectl_numa.cli import program as kubectl_numa
from numalign.runtime.settings import Settings
from scorer.settings import ScorerSettings
from tests.docs import texts
from tests.docs.private_words import findings
from tests.docs.texts import Text
from webhook.settings import WebhookSettings

ROOT = Path(__file__).parents[2]
COMMANDS = MappingProxyType({"kubectl numa": kubectl_numa, "numalign-certs": certs})
SERVERS: Mapping[str, type[Settings]] = MappingProxyType(
    {
        "numalign-agent": AgentSettings,
        "numalign-controller": ControllerSettings,
        "numalign-scorer": ScorerSettings,
        "numalign-webhook": WebhookSettings,
    }
)


def all_helps(_root: Path) -> Iterator[Text]:
    for name, command in COMMANDS.items():
        yield from texts.command_help(command, name)
    for name, model in SERVERS.items():
        yield from texts.settings_help(model, name)


Source = Callable[[Path], Iterator[Text]]
SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "pages": texts.pages,
        "chart": texts.chart,
        "examples": texts.examples,
        "pages of the map": texts.map_pages,
        "--help": all_helps,
        "messages": texts.messages,
    }
)


def private_words(source: Iterable[Text]) -> list[str]:
    return [str(each) for text in source for each in findings(text.where, text.words, line=text.line)]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_no_private_word_reaches_people(source: Source) -> None:
    assert private_words(source(ROOT)) == []


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_source_has_texts(source: Source) -> None:
    assert any(text.words for text in source(ROOT))


# A private word is planted where WORD is, and then a plain one.
PRIVATE, PLAIN = "boards", "tables"
INSTEAD = '"boards": write table, dashboard'

IN_FILES = [
    # where                    what reads it    the file                             its text, and the line
    ("a page at the root",     texts.pages,     "README.md",                         "The WORD.", 1),
    ("a page below",           texts.pages,     "docs/how-to/deep/page.md",          "# Title\n\nA WORD", 3),
    ("a page of a package",    texts.pages,     "certs/README.md",                   "The WORD.", 1),
    ("values of the chart",    texts.chart,     "deploy/chart/values.yaml",          "a: 1\n# A WORD\n", 2),
    ("notes of the chart",     texts.chart,     "deploy/chart/templates/NOTES.txt",  "See the WORD.", 1),
    ("a template below",       texts.chart,     "deploy/chart/templates/a/b.yaml",   "{{- /* WORD */}}", 1),
    ("an alert",               texts.chart,     "deploy/chart/files/alerts.yaml",    "summary: WORD", 1),
    ("a manifest",             texts.examples,  "examples/data/pods.yaml",           "# Shows: WORD.", 1),
    ("the map",                texts.map_pages, "numalign/map/templates/a/x.html",   "<p>\nWORD</p>", 2),
    ("a message",              texts.messages,  "webhook/x.py",                      'a("no WORD")', 1),
    ("a message in two parts", texts.messages,  "webhook/x.py",                      'a("no "\n"WORD")', 1),
    ("a message below",        texts.messages,  "numalign/kube/x.py",                'a()\na("no WORD")', 2),
    ("an f-string",            texts.messages,  "agent/x.py",                        'a(f"no {b} WORD")', 1),
    ("a word and a value",     texts.messages,  "agent/x.py",                        'a(f"{b} WORD")', 1),
    ("a text in a value",      texts.messages,  "agent/x.py",                        'a(f"{\'a WORD\'}")', 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "file", "text", "line"), [pytest.param(*row, id=name) for name, *row in IN_FILES]
)
def test_a_planted_word_is_found_in_a_file(
    source: Source, file: str, text: str, line: int, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("WORD", PRIVATE), encoding="utf-8")
    assert private_words(source(tmp_path)) == [f"{file}:{line}: {INSTEAD}"]
    path.write_text(text.replace("WORD", PLAIN), encoding="utf-8")
    assert private_words(source(tmp_path)) == []


def command_with(*, summary: str = "Run.", option: str = "One.", epilog: str = "") -> click.Command:
    """A command with these texts, below a group."""
    flag = click.Option(["--one"], help=option)
    command = click.Command("run", help=summary, epilog=epilog, params=[flag])
    return click.Group("program", commands=[command])


@pytest.mark.parametrize("part", ["summary", "option", "epilog"])
def test_a_planted_word_is_found_in_the_help_of_a_command(part: str) -> None:
    planted = command_with(**{part: f"See the {PRIVATE}."})
    found = [each for each in private_words(texts.command_help(planted, "p")) if each.startswith("p run ")]
    assert [each.partition(": ")[2] for each in found] == [INSTEAD]
    plain = command_with(**{part: f"See the {PLAIN}."})
    assert private_words(texts.command_help(plain, "p")) == []


def test_a_planted_word_is_found_in_the_help_of_settings() -> None:
    class Planted(Settings):
        """Settings of a test."""

        rows: int = Field(default=1, description=f"How many {PRIVATE} there are.")

    class Plain(Settings):
        """Settings of a test."""

        rows: int = Field(default=1, description=f"How many {PLAIN} there are.")

    [found] = private_words(texts.settings_help(Planted, "p"))
    assert found.endswith(INSTEAD)
    assert private_words(texts.settings_help(Plain, "p")) == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Many boards."""', id="a module's docstring"),
        pytest.param('class A:\n    """Many boards."""', id="a class's docstring"),
        pytest.param('def a():\n    """Many boards."""', id="a function's docstring"),
        pytest.param('A = 1\n"""Many boards."""', id="an attribute's docstring"),
        pytest.param("A = 1  # many boards", id="a comment"),
        pytest.param('A = {"boards": 1}', id="a single word, which may be a key"),
        pytest.param('A = f"{boards} of them"', id="a name in an f-string"),
    ],
)
def test_what_only_developers_read_is_left_alone(source: str) -> None:
    assert private_words(texts.strings("a.py", source)) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param("Ask the door.", ["door"], id="a word"),
        pytest.param("Doors and STRANGERS", ["Doors", "STRANGERS"], id="capitals"),
        pytest.param("It makes\nno sense.", ["makes no sense"], id="a line's end within"),
        pytest.param("# It makes\n# no sense.", ["makes no sense"], id="a comment's line within"),
        pytest.param("Outdoors, or behind a dashboard.", [], id="parts of longer words"),
        pytest.param("It stands in the log, whoever reads it.", ["stands in", "whoever"], id="two"),
        pytest.param("The agent is told of it.", ["is told", "told of"], id="two that overlap"),
        pytest.param("A star stands for any name. Pods are told apart by UID.", [], id="a plain meaning"),
    ],
)
def test_a_private_word_is_found_as_it_is_written(words: str, found: list[str]) -> None:
    assert sorted(each.word for each in findings("a.md", words)) == sorted(found)
