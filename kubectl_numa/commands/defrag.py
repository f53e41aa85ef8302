"""`kubectl numa defrag`: which pods would have to move for one to fit."""

from typing import Any

import click

from kubectl_numa import manifests, moving, options, typed_names
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import notify, notify_skipped, waiting
from kubectl_numa.listings import Output
from kubectl_numa.manifests import Namespace
from kubectl_numa.questions import ClusterView, WebhookOptions
from numalign.kube import name_completion
from numalign.kube.command_line import FILE, Trouble
from numalign.kube.decode.parts import inner
from numalign.kube.resource_types import POD
from numalign.model.errors import BadInput
from numalign.scheduling.defragmentation import Remedy


@options.command(
    "kubectl numa defrag -f pod.yaml",
    "kubectl numa defrag my-pod -n team-a",
    "kubectl numa defrag job/train",
    "kubectl numa defrag -f pod.yaml --node dgx-1",
    "kubectl numa defrag -f job.yaml --priority 1000 --snapshot cluster.json.gz",
)
@options.name_argument
@click.option(
    "-f",
    "--filename",
    "file",
    metavar="FILE|URL",
    type=FILE,
    help="Manifest with one pod or workload: a file or a URL; - is standard input.",
)
@options.namespace_option
@options.from_cluster
@options.as_the_webhook
@click.option(
    "--node",
    "only",
    metavar="NODE",
    shell_complete=name_completion.nodes,
    help="Make room on this node only.",
)
@click.option(
    "--priority",
    type=click.IntRange(-(2**31), 2**31 - 1),
    help="Priority of the pod; pods with a higher priority are not moved. Defaults to the pod's own priority,"
    " or to that of its priority class if other pods have the same class, or else to 0.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=100),
    default=3,
    show_default=True,
    help="Number of nodes to report: nodes on which room can be made, or if there is none, what prevents it.",
)
@options.document_option
def defrag(  # noqa: PLR0913 - one argument for each option
    *,
    name: str | None,
    file: str | None,
    namespace: str | None,
    source: ClusterSource,
    webhook: WebhookOptions,
    only: str | None,
    priority: int | None,
    limit: int,
    output: Output,
) -> None:
    """List the pods that would have to move to make room for a pod, and where each of them would go.

    Only pods of one node move: as few as possible, preferring those with the lowest priority and then the
    youngest. Pods that should not be evicted, or that have a higher priority than the new pod, stay. The
    command only reads: it does not move pods. A snapshot must have been written with --with-pods.

    Exit code 0 for any result, 2 if some input could not be read.
    """
    if bool(name) == bool(file):
        raise click.UsageError("specify a pod by NAME, a workload by TYPE/NAME, or a manifest with -f")
    if source.snapshot == manifests.STDIN == file:
        raise click.UsageError("--snapshot and -f cannot both read standard input")
    place = source.namespace(namespace)
    objects = source.documents(with_pods=True)
    view = source.view(webhook, objects=objects)
    raw, pod_name, pod_namespace, uid = _asked(name, str(file), place, source, objects, view)
    pod = view.decide(raw, name=pod_name, namespace=pod_namespace)
    with waiting("reading the pods") as now:
        placed = moving.placed_pods(view, objects, match=webhook.match, complete=source.snapshot is None)
        if priority is None:
            priority = moving.priority_of(raw, placed)
        if priority is None:
            unknown = inner(raw.get("spec"), "priorityClassName")
            notify(
                f'the priority of class "{unknown}" is unknown, so 0 is assumed: specify it with --priority'
            )
            priority = 0
        if only is not None and only not in {node.name for node in view.cluster.nodes}:
            hidden = "publishes no topology" if only in view.cluster.unknown else "is not in this cluster"
            raise Trouble(
                f'node "{only}" {hidden}: `kubectl numa nodes` lists the nodes that can be evaluated'
            )
        advice = moving.advise(
            pod,
            view,
            placed,
            priority=priority,
            nodes=None if only is None else [only],
            uid=uid,
            plans=limit,
            progress=now,
        )
    notify_skipped(placed.problems)
    if not placed.complete and advice.remedy is not Remedy.FITS:
        notify("the snapshot contains no pods on nodes, so none can move: write it with --with-pods")
    if output is not Output.TEXT:
        options.print_document(moving.to_json(pod, priority, advice), output)
        return
    # Why no node could ever take the pod, as in `explain`.
    never = pod.decision.refusal or view.why_not(pod) if advice.remedy is Remedy.NEVER else ""
    moving.show(pod, advice, options.text_writer(), now=view.seen, never=never)


def _asked(  # noqa: PLR0913, PLR0917  a pod of the cluster, or of a file
    name: str | None,
    file: str,
    place: Namespace,
    source: ClusterSource,
    objects: list[object],
    view: ClusterView,
) -> tuple[Any, str, str, str]:
    """Return the pod or template that is named or in a file, its name, namespace and UID ("" without one)."""
    extra = view.policy.templates
    if name:
        named = typed_names.pod_or_workload(name)
        raw = source.one(named, namespace=place.name, objects=objects)
        if named.type == POD:
            if node := inner(raw.get("spec"), "nodeName"):
                raise Trouble(f"pod {place.name}/{named.name} is already on node {node}")
            uid = inner(raw.get("metadata"), "uid")
            return raw, named.name, place.name, uid if isinstance(uid, str) else ""
        where, read = str(named), manifests.of_object(raw, named, namespace=place, extra=extra)
    else:
        paths, missing = manifests.files([file])
        if missing:
            raise BadInput(missing)
        where, read = (
            file,
            [each for path in paths for each in manifests.read(path, namespace=place, extra=extra)],
        )
    if mistakes := [mistake for each in read for mistake in each.located_mistakes()]:
        raise BadInput(mistakes)
    pods = [(each, each.pod) for each in read if each.pod]
    if not pods:
        raise Trouble(f"{where}: contains no pod, but must contain one")
    if len(pods) > 1:
        places = "; ".join(each.where for each, _ in pods[:4])
        more = f" and {len(pods) - 4} more" if len(pods) > 4 else ""  # noqa: PLR2004  as many as are named
        raise Trouble(f"{where}: contains {len(pods)} pods, but must contain one: {places}{more}")
    [(manifest, pod)] = pods
    return manifest.place.raw, pod.name, pod.namespace, ""
