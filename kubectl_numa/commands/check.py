"""`kubectl numa check`: which manifests, and which running pods, have findings."""

import click

from kubectl_numa import checking, manifests, moving, options, running_pods
from kubectl_numa.checking import Checked, CheckResult
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import TextWriter, notify_skipped, waiting
from kubectl_numa.listings import Output
from kubectl_numa.manifests import STDIN
from kubectl_numa.questions import ClusterView, WebhookOptions
from kubectl_numa.selection import PodSelection
from numalign.kube.command_line import Trouble

_STYLES = {
    CheckResult.OK: "green",
    CheckResult.UNKNOWN: "yellow",
    CheckResult.NEVER: "red",
    CheckResult.DENIED: "red",
    CheckResult.BAD: "magenta",
}
_INDENT = 8


@options.command(
    "kubectl numa check -A",
    "kubectl numa check -n team -l app=web --all",
    "kubectl numa check -f deploy/ --snapshot cluster.json.gz",
    "kubectl numa check -f job.yaml --policy policy.yaml --created-by system:serviceaccount:ci:deployer",
    "helm template chart | kubectl numa check -f -",
)
@options.files_option("Manifests to check")
@options.of_pods
@click.option("--all", "every", is_flag=True, help="Also list running pods without findings.")
@options.from_cluster
@options.as_the_webhook
@options.listing_option
def check(  # noqa: PLR0913  one for each option
    *,
    files: tuple[str, ...],
    selection: PodSelection,
    every: bool,
    source: ClusterSource,
    webhook: WebhookOptions,
    output: Output,
) -> None:
    """Check manifests and running pods.

    With -f, report what the webhook would decide for each pod in the manifests: one line per pod, and one per
    warning. -n is the namespace of manifests that set none.

    With -A, -n or -l, list running pods that are misaligned, that fall below a level of their namespace, or
    that would be denied if they were created now. A snapshot contains pods only if it was written with
    --with-pods.

    A pod is `unknown` if no known node could run it, but the webhook admits it because not all is known, or
    if its kind is not understood. A `bad` pod is one that the API server or the webhook would not accept.

    Exit code 0: there are no findings, or only warnings and unknown pods. 1: a pod could never run, would be
    denied, or is misaligned although it requests more than best-effort. 2: a pod is bad, or some input could
    not be read.
    """
    if files:
        if every or selection != PodSelection(selection.namespace):
            raise click.UsageError("-f checks manifests, but -A, -l and --all select running pods: use one")
        if source.snapshot == STDIN in files:
            raise click.UsageError("--snapshot and -f cannot both read standard input")
        paths, missing = manifests.files(files)
        place = source.namespace(selection.namespace)
        view = source.view(webhook)
        _require_nodes(view)
        with waiting("checking"):
            extra = view.policy.templates
            objects = [
                entry for path in paths for entry in manifests.read(path, namespace=place, extra=extra)
            ]
            results = [checking.check(manifest, view) for manifest in objects if manifest.counts]
        listing = checking.listing(results, text=lambda writer: _show(writer, results, view))
        options.print_listing(listing, output)
        options.note(manifests.notes(objects))
        options.note(missing)
        options.note(mistake for checked in results for mistake in checked.manifest.located_mistakes())
        raise click.exceptions.Exit(Trouble.exit_code if missing else checking.exit_code(results))
    if not selection.given:
        raise click.UsageError("nothing to check: use -f for manifests, or -A, -n or -l for running pods")
    selection = selection.resolved(source)
    stored = source.documents(with_pods=True)
    view = source.view(webhook, objects=stored)
    _require_nodes(view)
    with waiting("checking pods") as now:
        placed = moving.placed_pods(view, stored, match=webhook.match, complete=source.snapshot is None)
        moving.require_pods(placed)
        pods = running_pods.judged(placed, view, selection, progress=now)
    notify_skipped(placed.problems)
    listed = pods if every else [pod for pod in pods if pod.falls_short]
    options.print_listing(running_pods.listing(listed, pods), output)
    raise click.exceptions.Exit(running_pods.exit_code(pods))


def _require_nodes(cluster: ClusterView) -> None:
    if not cluster.cluster.shapes and not cluster.cluster.unknown:
        raise Trouble("the cluster has no nodes and no known node shapes, so nothing can be checked")


def _show(writer: TextWriter, results: list[Checked], cluster: ClusterView) -> None:
    nodes = len(cluster.cluster.nodes)
    for checked in results:
        style = _STYLES[checked.result]
        writer.line(checked.result, checked.line(nodes), indent=_INDENT, label_style=style)
        for warning in checked.warnings:
            label = f"{'':{_INDENT}}warning: "
            writer.line(label, warning, indent=len(label), label_style="yellow")
    writer.line("", checking.summary(results), indent=0)
