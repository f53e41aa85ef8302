"""`kubectl numa explain`: how every node evaluates a pod."""

import time
from collections.abc import Iterator
from dataclasses import replace

import click

from kubectl_numa import manifests, moving, options, pages, typed_names
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.explanation import Explanation, groups
from kubectl_numa.explanation import explain as explain_pod
from kubectl_numa.lines import TextWriter, full_name, notify_skipped, waiting
from kubectl_numa.lines import zones as placed_in
from kubectl_numa.listings import ListedRow, Listing, Output
from kubectl_numa.manifests import Manifest
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView, WebhookOptions
from numalign.decision.scoring import Strategy
from numalign.kube import name_completion
from numalign.kube.command_line import Trouble
from numalign.model.errors import BadInput
from numalign.scheduling import rejected_pods
from numalign.scheduling.node_explanation import Chance


@options.command(
    "kubectl numa explain my-pod -n team-a",
    "kubectl numa explain deploy/web",
    "kubectl numa explain -f pod.yaml --snapshot cluster.json.gz",
    "kubectl numa explain -f pod.yaml --node dgx-1",
    "kubectl numa explain -f pod.yaml --limit 0",
    "kubectl numa explain -f pod.yaml -o name | head -n 1",
    "helm template chart | kubectl numa explain -f - -o json",
)
@options.name_argument
@options.files_option("Manifests")
@options.namespace_option
@options.from_cluster
@options.choice(
    "--strategy", values=Strategy, default=Strategy.LEAST_NUMA_NODES, help_="Strategy that ranks the nodes."
)
@options.as_the_webhook
@click.option(
    "--node", "only", metavar="NODE", shell_complete=name_completion.nodes, help="Show this node in detail."
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of groups of equal nodes to show, best first; other nodes are counted by reason. 0 shows"
    " all. JSON always contains every node.",
)
@options.listing_option
def explain(  # noqa: PLR0913 - one argument for each option
    *,
    name: str | None,
    files: tuple[str, ...],
    namespace: str | None,
    source: ClusterSource,
    strategy: Strategy,
    webhook: WebhookOptions,
    only: str | None,
    limit: int,
    output: Output,
) -> None:
    """Explain on which nodes a pod fits, and why not on others.

    Name a pod or a workload of the cluster, or pass manifests; a workload (deploy/web, job/train) is
    evaluated by the pods that it would create. The output starts with what the webhook would decide,
    followed by every node, with its labels, taints and conditions considered, and every node shape without
    nodes. If a kubelet rejected the pod, that comes first.

    What pods hold counts as for the scorer, also if nodes do not report it yet. A snapshot contains pods only
    if it was written with --with-pods; without them, only what nodes report counts.

    -o name lists the nodes on which the pod fits now, best first.

    Exit code 0 for any result, 2 if some input could not be read. For exit codes by result, use `check`.
    """
    if bool(name) == bool(files):
        raise click.UsageError("specify a pod by NAME, a workload by TYPE/NAME, or manifests with -f")
    if source.snapshot == manifests.STDIN in files:
        raise click.UsageError("--snapshot and -f cannot both read standard input")
    place = source.namespace(namespace)
    objects = source.documents()
    cluster = source.view(webhook, objects=objects)
    with waiting("evaluating all nodes"):
        extra, uid = cluster.policy.templates, ""
        if name:
            named = typed_names.pod_or_workload(name)
            raw = source.one(named, namespace=place.name, objects=objects)
            uid = moving.uid_of(raw)
            given = manifests.of_object(raw, named, namespace=place, extra=extra)
        else:
            paths, missing = manifests.files(files)
            if missing:
                raise BadInput(missing)
            given = [entry for path in paths for entry in manifests.read(path, namespace=place, extra=extra)]
        placed = moving.placed_if_permitted(source, cluster, objects, match=webhook.match)
        explained, wrong = _explained(given, cluster, placed, strategy, uid)
    if only is not None:
        explained = [_narrowed(explanation, only) for explanation in explained]
    listing = Listing(
        columns=("pod", "node", "verdict", "score"),
        wide_columns=("zones", "class", "reason"),
        rows=_rows(explained, only_fitting=output is Output.NAME),
        documents=lambda: [explanation.to_json() for explanation in explained],
        text=lambda writer: _show(explained, writer, in_depth=only is not None, limit=limit or None),
    )
    options.print_listing(listing, output)
    notify_skipped(placed.problems)
    if not any(manifest.counts for manifest in given):
        options.note(["nothing to explain: the manifests contain no pods"])
    options.note(f"{manifest.where}: {warning}" for manifest in wrong for warning in manifest.warnings)
    options.note(manifests.notes(given))
    options.note(mistake for manifest in wrong for mistake in manifest.located_mistakes())
    if any(manifest.mistakes and not manifest.place.guessed for manifest in wrong):
        raise click.exceptions.Exit(Trouble.exit_code)


def _explained(
    given: list[Manifest], view: ClusterView, placed: PlacedPods, strategy: Strategy, uid: str
) -> tuple[list[Explanation], list[Manifest]]:
    """Return every pod that can be read, beside the `placed` ones, and the others with their mistakes."""
    explained, wrong = list[Explanation](), list[Manifest]()
    for manifest in given:
        if manifest.mistakes or not manifest.pod:
            wrong += [manifest] if manifest.counts else []
            continue
        pod = manifest.pod
        try:
            decided = view.decide(manifest.place.raw, name=pod.name, namespace=pod.namespace)
        except BadInput as error:
            wrong.append(manifest.wrong_pod(error))
            continue
        made = explain_pod(decided, view, placed.state, strategy=strategy, uid=uid)
        remarks = (*manifest.warnings, *made.remarks)
        made = replace(made, remarks=remarks, rejected=rejected_pods.read(manifest.place.raw))
        if made.only_later:
            # What would make room.
            file = manifests.STDIN if manifest.file == manifests.STANDARD_INPUT else manifest.file
            home = f" -n {made.pod.namespace}" if made.pod.namespace else ""
            asked = f"-f {file}" if manifest.document is not None else f"{manifest.file}{home}"
            room = f"`kubectl numa defrag {asked}` lists the pods that would have to move"
            if placed.complete:
                priority = moving.priority_of(manifest.place.raw, placed) or 0
                advice = moving.advise(made.pod, view, placed, priority=priority, uid=uid)
                room = f"{moving.summary(advice)}. See `kubectl numa defrag {asked}`"
            made = replace(made, room=room)
        explained.append(made)
    return explained, wrong


def _narrowed(explanation: Explanation, only: str) -> Explanation:
    answers = tuple(answer for answer in explanation.answers if answer.node.name == only)
    if not answers:
        hidden = "publishes no topology" if only in explanation.unknown else "is not in this cluster"
        raise Trouble(f'node "{only}" {hidden}: `kubectl numa nodes` lists the nodes that can be evaluated')
    return replace(explanation, answers=answers, absent=(), unknown=())


def _rows(explained: list[Explanation], *, only_fitting: bool) -> Iterator[ListedRow]:
    """Yield every node for every pod, the best first; with `-o name` those on which the pod fits now."""
    for explanation in explained:
        pod = explanation.pod
        for group in groups(explanation.answers):
            answer = group.answer
            if only_fitting and answer.chance is not Chance.FITS:
                break
            zones = None if answer.placement is None else placed_in(answer.placement)
            for name in group.names:
                cells = (answer.chance, answer.score, zones, answer.node_class, answer.reason)
                yield ListedRow(f"node/{name}", (full_name(pod.namespace, pod.name), name, *cells))


def _show(explained: list[Explanation], writer: TextWriter, *, in_depth: bool, limit: int | None) -> None:
    now = time.time()
    for number, explanation in enumerate(explained):
        if number:
            writer.write("")
        pages.show(explanation, writer, now=now, limit=limit)
        for answer in explanation.answers if in_depth else ():
            pages.show_node(explanation, answer, writer)
