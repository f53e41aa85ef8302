"""`kubectl numa pending`: why pods are pending, one line per cause."""

from kubectl_numa import moving, options, pending_pods
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import notify_skipped, waiting
from kubectl_numa.listings import Output
from kubectl_numa.questions import WebhookOptions
from kubectl_numa.selection import PodSelection


@options.command(
    "kubectl numa pending",
    "kubectl numa pending -A",
    "kubectl numa pending -n team -l app=train -o wide",
    (
        "kubectl numa pending --snapshot cluster.json.gz -o json"
        """ | jq '.[] | select(.verdict == "never") | .reason'"""
    ),
)
@options.of_pods
@options.from_cluster
@options.as_the_webhook
@options.listing_option
def pending(
    *, selection: PodSelection, source: ClusterSource, webhook: WebhookOptions, output: Output
) -> None:
    """List why pods are pending, one line per cause.

    Each line has the number of pods without a node, the reason, their namespaces, the age of the oldest pod,
    and what would help. Pods that request the same are evaluated once. For the five causes of the most pods,
    the command computes whether moving other pods would make room. A snapshot contains pods only if it was
    written with --with-pods.

    -o name lists the oldest pod of each cause, for `kubectl numa explain`.

    Exit code 0 for any result, 2 if some input could not be read.
    """
    chosen = selection.resolved(source)
    objects = source.documents(with_pods=True)
    view = source.view(webhook, objects=objects)
    with waiting("reading the pods") as now:
        placed = moving.placed_pods(view, objects, match=webhook.match, complete=source.snapshot is None)
        found = pending_pods.causes(placed, view, chosen, progress=now)
    if not found:
        moving.require_pods(placed)
    notify_skipped(placed.problems)
    options.print_listing(pending_pods.listing(found, now=view.seen), output)
