"""`kubectl numa check`: whether manifests could ever run, for pipelines."""

import click
from rich.text import Text

from kubectl_numa import checking, manifests, options
from kubectl_numa.checking import Checked, CheckResult
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.listings import Output
from kubectl_numa.manifests import STDIN
from kubectl_numa.notices import waiting
from kubectl_numa.questions import WebhookOptions
from numalign.kube.command_line import Trouble

_STYLES = {
    CheckResult.OK: "green",
    CheckResult.NEVER: "red",
    CheckResult.DENIED: "red",
    CheckResult.BAD: "magenta",
}
_INDENT = " " * 7


@click.command(
    epilog="""\b
Examples:
  kubectl numa check -f deploy/ --snapshot cluster.json.gz
  kubectl numa check -f job.yaml --policy policy.yaml --created-by system:serviceaccount:ci:deployer
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
    source: ClusterSource,
    webhook: WebhookOptions,
    output: str,
) -> None:
    """Check what the webhook would say to every pod in the manifests.

    One line for each pod, and one for each warning. The exit code is 0 if all would be admitted, with
    warnings too, 1 if one never could run or its namespace would not let it pass, 2 if something could not be
    read.
    """
    if source.snapshot == STDIN in files:
        raise click.UsageError("--snapshot and -f cannot both be standard input")
    paths, missing = manifests.files(files)
    place = source.namespace(namespace)
    cluster = source.view(webhook)
    if not cluster.snapshot.shapes and not cluster.snapshot.unknown:
        raise Trouble("no node of this cluster is known, so nothing can be checked")
    with waiting("checking"):
        extra = cluster.policy.templates
        objects = [entry for path in paths for entry in manifests.read(path, namespace=place, extra=extra)]
        results = [checking.check(manifest, cluster) for manifest in objects if manifest.counts]
    if output == Output.JSON:
        options.print_json([checked.to_json() for checked in results])
    else:
        _show(results, nodes=len(cluster.snapshot.nodes))
    options.note(manifests.notes(objects))
    options.note(
        [*missing, *(mistake for checked in results for mistake in checked.manifest.located_mistakes())]
    )
    raise click.exceptions.Exit(Trouble.exit_code if missing else checking.exit_code(results))


def _show(results: list[Checked], *, nodes: int) -> None:
    paper = options.paper()
    for checked in results:
        paper.write(Text.assemble((f"{checked.result:<7}", _STYLES[checked.result]), checked.line(nodes)))
        for warning in checked.warnings:
            paper.write(Text.assemble(_INDENT, ("warning: ", "yellow"), warning))
    paper.write(checking.summary(results))
