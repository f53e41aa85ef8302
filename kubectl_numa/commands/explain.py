"""`kubectl numa explain`: what every node says to a pod."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import click

from kubectl_numa import clusters, explanation, manifests, options, pages, questions
from kubectl_numa.clusters import Source
from kubectl_numa.explanation import Answer, Explanation
from kubectl_numa.manifests import Manifest, Namespace
from kubectl_numa.options import Output
from kubectl_numa.questions import Cluster
from kubectl_numa.settings import Settings
from numalign.decision.scoring import Strategy
from numalign.kube.command_line import Trouble
from numalign.kube.decode import pods
from numalign.kube.decode.templates import TemplateLocation, TemplatePaths
from numalign.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to explain, and how."""

    name: str | None
    files: tuple[str, ...]
    namespace: Namespace
    strategy: Strategy


@click.command(
    epilog="""\b
Examples:
  kubectl numa explain my-pod -n team-a
  kubectl numa explain -f pod.yaml --snapshot cluster.json.gz
  kubectl numa explain -f pod.yaml --node dgx-1
  helm template chart | kubectl numa explain -f - -o json
"""
)
@click.argument("name", required=False)
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE", help="Manifests; - is standard input."
)
@options.namespace_option
@options.from_cluster
@click.option(
    "--strategy",
    type=click.Choice([each.value for each in Strategy]),
    default=Strategy.LEAST_NUMA_NODES.value,
    show_default=True,
    help="What makes one node better than another.",
)
@options.as_the_webhook
@click.option("--node", "only", metavar="NODE", help="One node in depth.")
@options.output_option
def explain(  # noqa: PLR0913 - one argument for each option
    *,
    name: str | None,
    files: tuple[str, ...],
    namespace: str | None,
    source: Source,
    strategy: str,
    settings: Settings,
    only: str | None,
    output: str,
) -> None:
    """Tell what every node says to a pod: whether it fits, why not, which zones it would get.

    Pods come by NAME from the cluster, or from manifests; workloads stand for the pods they would make. What
    the webhook would say stands first; then every node answers, with its labels, taints and condition, and
    every shape of which no node is here. The exit code is 0 whatever is said (`check` is for that), 2 for
    input that cannot be read.
    """
    if bool(name) == bool(files):
        raise click.UsageError("give the NAME of a pod, or manifests with -f")
    if source.snapshot == manifests.STDIN in files:
        raise click.UsageError("--snapshot and -f cannot both be standard input")
    place = source.namespace(namespace)
    wanted = Wanted(name, files, place, Strategy(strategy))
    found = source.documents()
    cluster = clusters.cluster(found, source.policy(settings.policy), settings, where=source.name)
    with clusters.waiting("asking every node"):
        given = list(_manifests(wanted, source, found, cluster.templates))
        explained, wrong = _explain(given, cluster, wanted)
    shown = [_narrowed(each, only) for each in explained]
    if output == Output.JSON:
        options.print_json([explanation.to_json(each) for each in shown])
    else:
        _show(shown, in_depth=only is not None)
    options.note(manifests.notes(given))
    options.tell(mistake for each in wrong for mistake in each.told())
    if not all(each.place.guessed for each in wrong):
        raise click.exceptions.Exit(Trouble.exit_code)


def _manifests(
    wanted: Wanted, source: Source, found: list[object], extra: TemplatePaths
) -> Iterator[Manifest]:
    if wanted.name:
        raw = source.pod(wanted.name, namespace=wanted.namespace.name, found=found)
        yield Manifest("cluster", kind="Pod", place=TemplateLocation("", raw), pod=pods.pod(raw))
        return
    files, missing = manifests.files(wanted.files)
    if missing:
        raise BadInput(missing)
    for file in files:
        yield from manifests.read(file, namespace=wanted.namespace, extra=extra)


def _explain(
    given: list[Manifest], cluster: Cluster, wanted: Wanted
) -> tuple[list[Explanation], list[Manifest]]:
    """Every pod that can be read, and the others with their mistakes."""
    explained: list[Explanation] = []
    wrong: list[Manifest] = []
    for manifest in given:
        if manifest.mistakes or not manifest.pod:
            wrong += [manifest] if manifest.counts else []
            continue
        try:
            asked = questions.ask(
                manifest.place.raw, cluster, name=manifest.pod.name, namespace=manifest.pod.namespace
            )
            explained.append(explanation.explain(asked, cluster, strategy=wanted.strategy))
        except BadInput as error:
            wrong.append(manifest.wrong_pod(error))
    return explained, wrong


def _narrowed(explained: Explanation, only: str | None) -> Explanation:
    """With one node's answer alone, if that is asked for."""
    if only is None:
        return explained
    answers = tuple(each for each in explained.answers if each.node.name == only)
    if not answers:
        hidden = "publishes no topology" if only in explained.unknown else "is not in this cluster"
        raise Trouble(f'node "{only}" {hidden}: `kubectl numa nodes` lists those that can be asked')
    return replace(explained, answers=answers, absent=(), unknown=())


def _show(explained: list[Explanation], *, in_depth: bool) -> None:
    paper, now = options.paper(), time.time()
    for number, each in enumerate(explained):
        if number:
            paper.write("")
        pages.show(each, paper, now=now)
        answer: Answer
        for answer in each.answers if in_depth else ():
            pages.show_node(each, answer, paper)
    if not explained:
        click.echo("nothing to explain: there is no pod in the manifests", err=True)
