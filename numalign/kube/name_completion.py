"""
Names of objects in a cluster, for shell completion.

They are read with kubectl, which is installed already and starts quickly; if it does not answer within a
second, there are no completions.
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
"""The limit of names passed to a shell."""

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
    """Return a completer of objects of these types, in the namespace on the command line."""

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
    """Return names of pods and types, and after a type its names."""
    type_name, slash, _ = incomplete.partition("/")
    if not slash:
        pods = names_of("pods", namespaced=True)(context, _parameter, incomplete)
        return [*pods, *_beginning(incomplete, (f"{type_}/" for type_ in _TYPES))]
    if type_name not in resource_types.BY_NAME:
        return []
    every = _asked(context, "get", type_name, "--output=name", *_namespace(context))
    return _beginning(incomplete, (f"{type_name}/{name.rpartition('/')[2]}" for name in every))


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of nodes, without those on the command line already."""
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
    """Yield what kubectl lists for the user; nothing if it is late, or with a snapshot file."""
    if context.params.get("snapshot"):
        return
    params = context.params
    flags = (f"{flag}={params[name]}" for name, flag in _FLAGS if params.get(name))
    insecure = ("--insecure-skip-tls-verify",) if params.get("insecure") else ()
    command = ["kubectl", *arguments, *flags, *insecure, f"--request-timeout={SECONDS:g}s"]
    try:
        done = subprocess.run(  # noqa: S603  the user types the arguments
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        # A prompt does not show errors of a cluster: the command itself does.
        return
    yield from filter(_NAME.fullmatch, done.stdout.splitlines())
