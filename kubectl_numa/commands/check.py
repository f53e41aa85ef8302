"""`kubectl numa check`: whether manifests could ever run, for pipelines."""

from collections import Counter

import click
from rich.text import Text

from kubectl_numa import checking, clusters, manifests, options
from kubectl_numa.checking import Checked, Result
from kubectl_numa.clusters import Source
from kubectl_numa.manifests import STDIN
from kubectl_numa.options import Output
from kubectl_numa.questions import Cluster
from numalign.cluster.terminal import Trouble
from numalign.rules.intent import Match

_STYLES = {Result.OK: "green", Result.NEVER: "red", Result.DENIED: "red", Result.BAD: "magenta"}


@click.command(
    epilog="""\b
Examples:
  kubectl numa check -f deploy/ --snapshot cluster.json.gz
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
@options.match_option
@options.output_option
def check(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    source: Source,
    policy_match: str,
    output: str,
) -> None:
    """Check that every pod in the manifests could run on some node, were nothing else on it.

    One line for each pod. The exit code is 0 if all could run, 1 if one never could or its namespace would
    not let it pass, 2 if something could not be read.
    """
    if source.snapshot == STDIN in files:
        raise click.UsageError("--snapshot and -f cannot both be standard input")
    found, missing = manifests.files(files)
    place = source.namespace(namespace)
    cluster = clusters.cluster(source.documents())
    if not cluster.fleet.nodes:
        raise Trouble("no node of this cluster publishes its topology, so nothing can be checked")
    with clusters.waiting("checking"):
        given = [manifest for file in found for manifest in manifests.read(file, namespace=place)]
        results = [checking.check(each, cluster, match=Match(policy_match)) for each in given if each.counts]
    _show(results, cluster, output=output)
    options.note(manifests.notes(given))
    options.tell([*missing, *(mistake for each in results for mistake in each.manifest.told())])
    raise click.exceptions.Exit(Trouble.exit_code if missing else checking.exit_code(results))


def _show(results: list[Checked], cluster: Cluster, *, output: str) -> None:
    if output == Output.JSON:
        options.print_json([each.to_json() for each in results])
        return
    paper = options.paper()
    for result, words in checking.lines(results, cluster):
        paper.write(Text.assemble((f"{result:<7}", _STYLES[result]), words))
    counts = Counter(each.result for each in results)
    said = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
    paper.write(f"{len(results)} pods: {said}" if results else "there is no pod in the manifests")
