"""
The options that commands share, and how answers leave the program.

The names are kubectl's own where kubectl has one.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import wraps
from typing import Any, TypeVar

import click
import orjson
from rich.console import Console

from kubectl_numa.clusters import Source
from kubectl_numa.lines import Paper
from kubectl_numa.settings import Settings
from numalign.kube.command_line import from_kubeconfig
from numalign.kube.settings import seconds
from numalign.model.errors import Mistake
from numalign.model.intent import Match

R = TypeVar("R")

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


class Output(StrEnum):
    """Text for people, JSON for programs."""

    TEXT = "text"
    JSON = "json"


def from_cluster(command: Callable[..., R]) -> Callable[..., R]:
    """Adds --snapshot, --kubeconfig and --context, and joins them into one argument `source`."""

    @wraps(command)
    def with_source(
        *arguments: object,
        snapshot: str | None,
        kubeconfig: str | None,
        context: str | None,
        **options: object,
    ) -> R:
        return command(*arguments, source=Source(snapshot, kubeconfig, context), **options)

    help_ = "File with the cluster, as `kubectl numa snapshot` writes it; - is standard input."
    return click.option("--snapshot", metavar="FILE", help=help_)(from_kubeconfig(with_source))


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice([each.value for each in Output]),
    default=Output.TEXT.value,
    show_default=True,
    help="Text for people, JSON for programs.",
)
namespace_option = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Namespace of pods that name none; by default that of the kubeconfig's context. With --snapshot it"
    " is `default`, unless --kubeconfig or --context is given.",
)


def as_the_webhook(command: Callable[..., R]) -> Callable[..., R]:
    """Adds what the webhook can be told, and joins it into one argument `settings`."""

    @wraps(command)
    def with_settings(
        *arguments: object,
        policy: str | None,
        policy_match: str,
        unknown_nodes: str,
        remember_shapes: float,
        user: str,
        **options: object,
    ) -> R:
        settings = Settings(
            policy=policy,
            match=Match(policy_match),
            unknown_may_fit=unknown_nodes == _MAY_FIT,
            remember=remember_shapes,
            user=user,
        )
        return command(*arguments, settings=settings, **options)

    return _with((*_OF_SHAPES, *_OF_PODS), with_settings)


def of_shapes(command: Callable[..., R]) -> Callable[..., R]:
    """Adds what decides which shapes are known, and joins it into one argument `settings`."""

    @wraps(command)
    def with_settings(*arguments: object, policy: str | None, remember_shapes: float, **options: object) -> R:
        return command(*arguments, settings=Settings(policy=policy, remember=remember_shapes), **options)

    return _with(_OF_SHAPES, with_settings)


def _span(_context: click.Context, _option: click.Parameter, text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error


def _with(added: Iterable[Option], command: Callable[..., R]) -> Callable[..., R]:
    """The command with these options, in this order."""
    for option in reversed([*added]):
        command = option(command)
    return command


_MAY_FIT = "may-fit"
_OF_SHAPES: tuple[Option, ...] = (
    click.option(
        "--policy",
        metavar="FILE",
        help="The cluster's policy file. By default the one that is installed in the running cluster; beside"
        " --snapshot there is none.",
    ),
    click.option(
        "--remember-shapes",
        metavar="SPAN",
        callback=_span,
        default="30d",
        show_default=True,
        help="How long shapes count whose last node is gone: 30d, 12h.",
    ),
)
_OF_PODS: tuple[Option, ...] = (
    click.option(
        "--policy-match",
        type=click.Choice([each.value for each in Match]),
        default=Match.SATISFIES.value,
        show_default=True,
        help="Nodes that can keep the pod's promise, or only those with the same policy (as Volcano).",
    ),
    click.option(
        "--unknown-nodes",
        type=click.Choice([_MAY_FIT, "cannot-fit"]),
        default=_MAY_FIT,
        show_default=True,
        help="Whether a node without topology that is large enough saves a pod from refusal.",
    ),
    click.option(
        "--as",
        "user",
        metavar="USER",
        default="",
        help="Who creates the pods, for the policy may exempt users; by default nobody whom it names.",
    ),
)


def print_json(value: Any) -> None:  # noqa: ANN401 any JSON document
    """The answer for programs, on standard output."""
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def paper() -> Paper:
    """Where text for people goes: standard output, coloured only on a terminal."""
    return Paper(Console())


def tell(mistakes: Iterable[Mistake]) -> None:
    """Everything that is wrong, on standard error."""
    for mistake in mistakes:
        click.echo(str(mistake), err=True)


def note(lines: Iterable[str]) -> None:
    """What people should know besides the answer, on standard error."""
    for line in lines:
        click.echo(line, err=True)
