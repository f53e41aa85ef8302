"""
The options that commands share, and how answers are printed.

The names are kubectl's own where kubectl has one.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum

import click
import orjson
from rich.console import Console

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import TextWriter
from kubectl_numa.listings import Listing, Output, on_one_line, table
from kubectl_numa.questions import WebhookOptions
from kubectl_numa.selection import PodSelection
from numalign.kube import name_completion, selectors
from numalign.kube.command_line import FILE, Option, for_terminal, from_kubeconfig, joined
from numalign.model.intent import Match
from numalign.runtime.clock import seconds


def command(*examples: str) -> Callable[[Callable[..., object]], click.Command]:
    """Return a decorator that makes a command, whose help ends with these examples."""
    lines = "".join(f"  {example}\n" for example in examples)
    return click.command(epilog=f"\b\nExamples:\n{lines}")


def choice(*names: str, values: Iterable[StrEnum], default: StrEnum | None = None, help_: str) -> Option:
    """Return an option whose value is one of these; the command gets the member, or None."""
    members = {value.value: value for value in values}
    return click.option(
        *names,
        type=click.Choice([*members]),
        callback=lambda _context, _option, text: members.get(text),
        default=default and default.value,
        show_default=default is not None,
        help=help_,
    )


document_option = choice(
    *("-o", "--output"),
    values=(Output.TEXT, Output.JSON, Output.YAML),
    default=Output.TEXT,
    help_="Output format: text to read, json or yaml for programs.",
)
"""Adds -o to a command whose answer is a document; `print_document` prints it."""

listing_option = choice(
    *("-o", "--output"),
    values=Output,
    default=Output.TEXT,
    help_="Output format: text to read, wide (a table with more columns), name (one TYPE/NAME per line), json"
    " or yaml.",
)
"""Adds -o to a command that lists; `print_listing` prints it."""

name_argument = click.argument(
    "name", required=False, metavar="[NAME|TYPE/NAME]", shell_complete=name_completion.pods_and_workloads
)
"""Adds the name of a pod or workload; `typed_names.pod_or_workload` reads it."""


def files_option(what: str) -> Option:
    """Return -f, of any number of manifests; the command gets their names as `files`."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE|FOLDER|URL",
        type=FILE,
        help=f"{what}: a file, a folder (searched recursively) or a URL; - is standard input. May be"
        " repeated.",
    )


def port_option(default: int) -> Option:
    """Return --port, for --serve."""
    return click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=default,
        show_default=True,
        help="Port for --serve, on 127.0.0.1; 0 selects a free port.",
    )


namespace_option = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=name_completion.namespaces,
    help="Namespace of the named pod or workload, and of manifests that set none. Defaults to the namespace"
    " of the kubeconfig's context; with --snapshot to `default`, unless --kubeconfig or --context is given.",
)


def _span(_context: click.Context, _option: click.Parameter, text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error


timeout_option = click.option(
    "--timeout",
    metavar="SPAN",
    callback=_span,
    default="0",
    show_default=True,
    help="How long to retry until the outcome is as expected: 30s, 2m.",
)
"""Adds --timeout; the command gets seconds."""

_MAY_FIT = "may-fit"
_OF_SHAPES: tuple[Option, ...] = (
    click.option(
        "--policy",
        metavar="FILE",
        type=FILE,
        help="Cluster policy file. Defaults to the policy that is installed in the cluster; with --snapshot,"
        " to none.",
    ),
    click.option(
        "--remember-shapes",
        "remember",
        metavar="SPAN",
        callback=_span,
        default="30d",
        show_default=True,
        help="How long node shapes are remembered after their last node is gone: 30d, 12h.",
    ),
)
_OF_PODS: tuple[Option, ...] = (
    choice(
        "--policy-match",
        "match",
        values=Match,
        default=Match.SATISFIES,
        help_=(
            "Match nodes that can align the pod as it requests, or only nodes with an equal policy (as"
            " Volcano does)."
        ),
    ),
    click.option(
        "--unknown-nodes",
        "unknown_may_fit",
        type=click.Choice([_MAY_FIT, "cannot-fit"]),
        callback=lambda _context, _option, text: text == _MAY_FIT,
        default=_MAY_FIT,
        show_default=True,
        help="Whether a pod may be admitted because of a node without a topology that is large enough.",
    ),
    click.option(
        "--created-by",
        "created_by",
        metavar="USER",
        default="",
        help="User who creates the pods, as the policy may exempt users. Defaults to a user who is not"
        " exempt.",
    ),
)

from_cluster = joined(
    "source",
    ClusterSource,
    click.option(
        "--snapshot",
        metavar="FILE",
        type=FILE,
        help="Read the cluster from a file written by `kubectl numa snapshot`; - is standard input.",
    ),
    from_kubeconfig,
)
"""Adds --snapshot and kubectl's flags of a connection, joined into one argument `source`."""

selector_option = click.option(
    "-l",
    "--selector",
    metavar="SELECTOR",
    default="",
    callback=lambda _context, _option, text: selectors.parse(text),
    help="Label selector to filter on:  a=b,c!=d,e in (f,g),h,!i.",
)
"""Adds -l; the command gets a `LabelSelector`."""

all_namespaces_option = click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="Select pods in all namespaces."
)

of_pods = joined(
    "selection",
    PodSelection,
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        shell_complete=name_completion.namespaces,
        help="Namespace of the pods. Defaults to the namespace of the kubeconfig's context; with --snapshot,"
        " to all namespaces.",
    ),
    all_namespaces_option,
    selector_option,
)
"""Adds -n, -A and -l, joined into one argument `selection`."""

as_the_webhook = joined("webhook", WebhookOptions, *_OF_SHAPES, *_OF_PODS)
"""Adds the webhook's own settings, joined into one argument `webhook`."""

of_shapes = joined("webhook", WebhookOptions, *_OF_SHAPES)
"""Adds the settings that decide which shapes are known, joined into one argument `webhook`."""


def print_document(value: object, output: Output) -> None:
    """Print an answer for programs as JSON or YAML."""
    if output is not Output.YAML:
        click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))
        return
    # Imported here, so that other formats do not wait for it.
    import yaml  # noqa: PLC0415  imported only if needed

    # The dumper knows neither enumerations nor read-only mappings.
    plain = orjson.loads(orjson.dumps(value))
    click.echo(yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True), nl=False)


def print_listing(listing: Listing, output: Output) -> None:
    """Print a listing in the requested format."""
    if output in {Output.JSON, Output.YAML}:
        print_document(listing.documents(), output)
    elif output is Output.NAME:
        text_writer().write(*(on_one_line(row.name) for row in listing.rows if row.name))
    elif output is Output.WIDE:
        text_writer().write(*table((*listing.columns, *listing.wide_columns), listing.rows))
    elif listing.text:
        listing.text(text_writer())
    else:
        text_writer().write(*table(listing.columns, listing.rows))


def text_writer() -> TextWriter:
    """Return the writer for standard output, coloured only on a terminal."""
    return TextWriter(Console())


def note(lines: Iterable[object]) -> None:
    """Print mistakes and notes, one per line, on standard error."""
    for line in lines:
        click.echo(for_terminal(str(line)), err=True)
