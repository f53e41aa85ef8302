"""
Names of what is in a cluster, for a shell that completes what is typed.

They are asked of kubectl itself, which is there before we are and starts in a moment; whoever waits for a
prompt gets none if they do not come within a second.
"""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import CompletionItem

from numalign.kube import resource_types

SECONDS = 1.0
"""How long a prompt waits for names."""

MOST = 1000
"""Names that are handed to a shell."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]*")
_FLAGS = (
    ("kubeconfig", "--kubeconfig"),
    ("context", "--context"),
    ("server", "--server"),
    ("token", "--token"),
    ("user", "--as"),
    ("certificate_authority", "--certificate-authority"),
)
_TYPES = ("pod", "deploy", "sts", "ds", "job", "cronjob", "jobset")

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(*types: str, namespaced: bool = False) -> Completer:
    """Names of objects of these types, in the namespace that stands on the line."""

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        place = _namespace(context) if namespaced else ()
        every = _asked(context, "get", ",".join(types), "--output=name", *place)
        return _beginning(incomplete, (name.rpartition("/")[2] for name in every))

    return complete


def contexts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the contexts of the kubeconfig."""
    return _beginning(incomplete, _asked(context, "config", "get-contexts", "--output=name"))


def pods_and_workloads(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of pods, types, and after a type its names."""
    type_name, slash, _ = incomplete.partition("/")
    if not slash:
        pods = names_of("pods", namespaced=True)(context, _parameter, incomplete)
        return [*pods, *_beginning(incomplete, (f"{type_}/" for type_ in _TYPES))]
    if type_name not in resource_types.BY_NAME:
        return []
    every = _asked(context, "get", type_name, "--output=name", *_namespace(context))
    return _beginning(incomplete, (f"{type_name}/{name.rpartition('/')[2]}" for name in every))


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of nodes, without those that are on the line already."""
    written = context.params.get(parameter.name or "")
    already = written if isinstance(written, tuple) else ()
    every = (name.rpartition("/")[2] for name in _asked(context, "get", "nodes", "--output=name"))
    return _beginning(incomplete, (name for name in every if name not in already))


namespaces = names_of("namespaces")


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:MOST]


def _namespace(context: click.Context) -> tuple[str, ...]:
    name = context.params.get("namespace")
    return (f"--namespace={name}",) if name else ()


def _asked(context: click.Context, *arguments: str) -> Iterator[str]:
    """What kubectl lists for whoever types; nothing where it does not in time, and beside a snapshot file."""
    if context.params.get("snapshot"):
        return
    params = context.params
    flags = (f"{flag}={params[name]}" for name, flag in _FLAGS if params.get(name))
    insecure = ("--insecure-skip-tls-verify",) if params.get("insecure") else ()
    command = ["kubectl", *arguments, *flags, *insecure, f"--request-timeout={SECONDS:g}s"]
    try:
        done = subprocess.run(  # noqa: S603  the arguments are those of whoever types
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        # A prompt is no place to tell what is wrong with a cluster: the command itself does.
        return
    yield from filter(_NAME.fullmatch, done.stdout.splitlines())
