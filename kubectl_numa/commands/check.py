"""`kubectl numa check`: whether manifests could ever run, for pipelines."""

import click
from rich.text import Text

from kubectl_numa import checking, clusters, manifests, options
from kubectl_numa.checking import Checked, Result
from kubectl_numa.clusters import Source
from kubectl_numa.manifests import STDIN
from kubectl_numa.options import Output
from kubectl_numa.questions import Cluster
from kubectl_numa.settings import Settings
from numalign.kube.command_line import Trouble

_STYLES = {Result.OK: "green", Result.NEVER: "red", Result.DENIED: "red", Result.BAD: "magenta"}
_INDENT = " " * 7


@click.command(
    epilog="""\b
Examples:
  kubectl numa check -f deploy/ --snapshot cluster.json.gz
  kubectl numa check -f job.yaml --policy policy.yaml --as system:serviceaccount:ci:deployer
  helm template chart | kubectl numa check -f -
"""
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|FOLDER",
    help="Manifests; folders are searched to the bottom; - is standard input.",
)
@options.namespace_option
@options.from_cluster
@options.as_the_webhook
@options.output_option
def check(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    source: Source,
    settings: Settings,
    output: str,
) -> None:
    """Check what the webhook would say to every pod in the manifests.

    One line for each pod, and one for each warning. The exit code is 0 if all would be admitted, with
    warnings too, 1 if one never could run or its namespace would not let it pass, 2 if something could not be
    read.
    """
    if source.snapshot == STDIN in files:
        raise click.UsageError("--snapshot and -f cannot both be standard input")
    found, missing = manifests.files(files)
    place = source.namespace(namespace)
    cluster = clusters.ready(source, settings)
    if not cluster.shapes and not cluster.unknown:
        raise Trouble("no node of this cluster is known, so nothing can be checked")
    with clusters.waiting("checking"):
        extra = cluster.templates
        given = [each for file in found for each in manifests.read(file, namespace=place, extra=extra)]
        results = [checking.check(each, cluster) for each in given if each.counts]
    _show(results, cluster, output=output)
    options.note(manifests.notes(given))
    options.tell([*missing, *(mistake for each in results for mistake in each.manifest.told())])
    raise click.exceptions.Exit(Trouble.exit_code if missing else checking.exit_code(results))


def _show(results: list[Checked], cluster: Cluster, *, output: str) -> None:
    if output == Output.JSON:
        options.print_json([each.to_json() for each in results])
        return
    paper = options.paper()
    for checked, words in zip(results, checking.lines(results, cluster), strict=True):
        paper.write(Text.assemble((f"{checked.result:<7}", _STYLES[checked.result]), words))
        for warning in checked.warnings:
            paper.write(Text.assemble(_INDENT, ("warning: ", "yellow"), warning))
    paper.write(checking.summary(results))
