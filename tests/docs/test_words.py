"""No private word reaches people: not on a page, in a help text, in the chart, or in a message."""

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import click
import pytest

from agent.settings import AgentSettings
from certs.cli import program as certs
from controller.settings import ControllerSettings
from kubectl_numa.cli import program as kubectl_numa
from numalign.runtime import settings
from scorer.settings import ScorerSettings
from tests.docs.private_words import Finding, findings
from webhook.settings import WebhookSettings

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "certs", "controller", "examples", "kubectl_numa", "numalign", "scorer", "webhook")
SERVERS: Mapping[str, type[settings.Settings]] = MappingProxyType(
    {
        "numalign-agent": AgentSettings,
        "numalign-controller": ControllerSettings,
        "numalign-scorer": ScorerSettings,
        "numalign-webhook": WebhookSettings,
    }
)
COMMANDS = MappingProxyType({"kubectl numa": kubectl_numa, "numalign-certs": certs})


def of_files(*patterns: str) -> Iterator[Finding]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield from findings(path.relative_to(ROOT).as_posix(), path.read_text())


def pages() -> Iterator[Finding]:
    return of_files("*.md", "docs/**/*.md")


def chart() -> Iterator[Finding]:
    """All of the chart's text: comments of values, notes, and templates."""
    return of_files("deploy/chart/*.yaml", "deploy/chart/templates/**/*.*", "deploy/chart/files/*.yaml")


def map_pages() -> Iterator[Finding]:
    return of_files("numalign/map/templates/**/*.html")


def helps(command: click.Command, name: str) -> Iterator[Finding]:
    context = click.Context(command, info_name=name)
    yield from findings(f"{name} --help", command.get_help(context))
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found
            yield from helps(found, f"{name} {sub}")


def all_helps() -> Iterator[Finding]:
    for name, command in COMMANDS.items():
        yield from helps(command, name)
    for name, model in SERVERS.items():
        yield from findings(f"{name} --help", settings.usage(model, prog=name))


def docstrings(tree: ast.Module) -> set[int]:
    """The lines on which a docstring begins; of an attribute, too."""
    bodies = [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list)]
    return {
        id(line.value)
        for body in bodies
        for line in body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    }


def of_source(where: str, source: str) -> Iterator[Finding]:
    """The private words in texts of a program: strings that are no docstrings and no single words."""
    tree = ast.parse(source)
    skipped = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = " ".join(node.value.split())
            if " " in text:
                yield from (each._replace(where=f"{where}:{node.lineno}") for each in findings(where, text))


def messages() -> Iterator[Finding]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from of_source(path.relative_to(ROOT).as_posix(), path.read_text())


SOURCES: MappingProxyType[str, Callable[[], Iterator[Finding]]] = MappingProxyType(
    {
        "pages": pages,
        "chart": chart,
        "pages of the map": map_pages,
        "--help": all_helps,
        "messages": messages,
    }
)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_no_private_word_reaches_people(source: Callable[[], Iterator[Finding]]) -> None:
    assert [str(each) for each in source()] == []
