"""`kubectl numa pods`: what each pod holds, and whether it is aligned as it requests."""

import time

import click

from kubectl_numa import moving, options, podmap
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import notify_skipped, waiting
from kubectl_numa.listings import Output
from kubectl_numa.questions import WebhookOptions
from kubectl_numa.selection import PodSelection
from numalign.kube.selectors import EVERYTHING


@options.command(
    "kubectl numa pods",
    "kubectl numa pods -A -o wide",
    "kubectl numa pods -n team --misaligned",
    "kubectl numa pods -A --rejected",
    "kubectl numa pods -A --quota",
    "kubectl numa pods --snapshot cluster.json.gz -o json | jq '.[] | select(.aligned == false) | .name'",
)
@click.option("--misaligned", is_flag=True, help="List only misaligned pods.")
@click.option(
    "--rejected",
    is_flag=True,
    help="List pods that a kubelet rejected instead: by which node, when and why; the last ones first.",
)
@click.option(
    "--quota",
    is_flag=True,
    help="List namespaces with a limit of exclusive CPUs instead: how many are in use, and how many allowed.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Also list pods that request no alignment, if resources of NUMA zones are allocated to them.",
)
@options.of_pods
@options.from_cluster
@options.as_the_webhook
@options.listing_option
def pods(  # noqa: PLR0913  one for each option
    *,
    misaligned: bool,
    rejected: bool,
    quota: bool,
    every: bool,
    selection: PodSelection,
    source: ClusterSource,
    webhook: WebhookOptions,
    output: Output,
) -> None:
    """List what running pods hold, and whether they are aligned; if not, why.

    A pod is judged by what was observed, by the agent on its node or in the pod's annotations; pods that were
    not observed are not judged. CPU ids are known only where an agent reports them. A snapshot contains pods
    only if it was written with --with-pods.

    Exit code 0 for any result, 2 if some input could not be read.
    """
    if rejected and (misaligned or every):
        raise click.UsageError("--rejected lists pods that never ran: use it without --misaligned and --all")
    if quota and (misaligned or every or rejected or selection.selector != EVERYTHING):
        raise click.UsageError("--quota lists namespaces: use it only with -n or -A")
    chosen = selection.resolved(source)
    objects = source.documents(with_pods=True)
    view = source.view(webhook, objects=objects)
    with waiting("looking at pods"):
        placed = moving.placed_pods(view, objects, match=webhook.match, complete=source.snapshot is None)
        listed = () if rejected or quota else podmap.rows(placed, chosen, every=every)
    notify_skipped(placed.problems)
    if rejected:
        moving.require_pods(placed)
        options.print_listing(podmap.rejected_listing(placed, chosen, now=time.time()), output)
        return
    if quota:
        moving.require_pods(placed)
        options.print_listing(podmap.quota_listing(placed, view, chosen), output)
        return
    listed = tuple(row for row in listed if row.aligned is False) if misaligned else listed
    options.print_listing(podmap.listing(listed), output)
