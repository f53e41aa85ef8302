"""`kubectl numa pods`: how running pods sit."""

import click

from kubectl_numa import moving, options, podmap
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.listings import Output
from kubectl_numa.notices import tell_left_out
from kubectl_numa.questions import WebhookOptions


@click.command(
    epilog="""\b
Examples:
  kubectl numa pods
  kubectl numa pods -n team --misaligned
  kubectl numa pods --snapshot cluster.json.gz -o json | jq '.[] | select(.aligned == false) | .name'
"""
)
@click.option("-n", "--namespace", metavar="NAME", help="Only the pods of this namespace; by default of all.")
@click.option("--misaligned", is_flag=True, help="Only those that do not sit as they were meant.")
@options.from_cluster
@options.as_the_webhook
@options.output_option
def pods(
    namespace: str | None,
    *,
    misaligned: bool,
    source: ClusterSource,
    webhook: WebhookOptions,
    output: str,
) -> None:
    """Tell how running pods sit that ask for alignment: whether they are aligned, and if not, why.

    That is judged by what was observed of it, by the agent of its node or in its annotations; of a pod that
    nobody observed nothing is said. A file has pods in it if it was written with --with-pods.
    """
    objects = source.documents(with_pods=True)
    view = source.view(webhook, objects=objects)
    placed = moving.placed_pods(view, objects, match=webhook.match, complete=source.snapshot is None)
    tell_left_out(placed.problems)
    listed = podmap.rows(placed, namespace=namespace)
    listed = tuple(row for row in listed if row.aligned is False) if misaligned else listed
    if output == Output.JSON:
        options.print_json(podmap.to_json(listed))
        return
    podmap.draw(listed, options.paper())
