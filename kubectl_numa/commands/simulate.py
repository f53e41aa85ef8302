"""`kubectl numa simulate`: how many GPUs of a cluster each strategy leaves stranded."""

import math
from pathlib import Path

import click

from kubectl_numa import moving, options, simulating
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import counted, notify, waiting
from kubectl_numa.listings import Listing, Output
from kubectl_numa.simulating import Gpus, MadeUpZones, Simulation
from numalign.kube.command_line import FILE, joined
from numalign.model.intent import Match, Policy, Scope
from numalign.model.options import Options
from numalign.simulation.zone_schedulers import ZONE_SCHEDULERS
from numalign.simulation.zoned_nodes import GPU

_made_up = joined(
    "made_up",
    MadeUpZones,
    click.option(
        "--zones",
        type=click.IntRange(1, 8),
        help=f"NUMA zones of each node of --nodes; {simulating.DEFAULT_ZONES} by default.",
    ),
    options.choice(
        "--topology-policy",
        "policy",
        values=Policy,
        help_=f"Kubelet policy of the nodes of --nodes; {simulating.DEFAULT_POLICY} by default.",
    ),
    options.choice(
        "--topology-scope",
        "scope",
        values=Scope,
        help_="Kubelet scope of the nodes of --nodes; container by default.",
    ),
)

_gpus = joined(
    "gpus",
    Gpus,
    click.option(
        "--gpu-resource",
        "resource",
        metavar="NAME",
        default=GPU,
        show_default=True,
        help="Resource of the cluster's nodes that counts as the trace's GPUs.",
    ),
    click.option(
        "--model-label",
        metavar="KEY",
        default="nvidia.com/gpu.product",
        show_default=True,
        help="Node label with the GPU model, for pods that accept only some models.",
    ),
)


_RATIOS = click.FloatRange(0.01, 10)


def _ratio(_context: click.Context, _option: click.Parameter, ratio: float) -> float:
    # Comparisons with NaN are always false, so the range lets it pass.
    if math.isnan(ratio):
        raise click.BadParameter(f"{ratio} is not in the range {_RATIOS.min}<=x<={_RATIOS.max}.")
    return ratio


@options.command(
    "kubectl numa simulate --pods openb_pod_list_default.csv",
    (
        "kubectl numa simulate --pods pods.csv --snapshot cluster.json.gz"
        " --strategies stock,scorer,MostAllocated"
    ),
    "kubectl numa simulate --pods pods.csv --nodes nodes.csv --zones 4 --pin-cpus --plots charts",
    "kubectl numa simulate --pods pods.csv --kubelet-option numa-allocation-strategy=most-allocated -o wide",
    "kubectl numa simulate --pods pods.csv -o json | jq '.[] | {strategy, mean}'",
)
@click.option(
    "--pods",
    type=FILE,
    metavar="FILE",
    required=True,
    help="CSV with the pods of the trace: cpu_milli, memory_mib, num_gpu, gpu_milli, and optionally gpu_spec,"
    " qos, count.",
)
@click.option(
    "--nodes",
    type=FILE,
    metavar="FILE",
    help="CSV with nodes to use instead of a cluster's: cpu_milli, memory_mib, gpu, and optionally model,"
    " count.",
)
@_made_up
@click.option(
    "--kubelet-option",
    "kubelet",
    metavar="NAME=VALUE",
    multiple=True,
    callback=lambda _context, _option, texts: simulating.kubelet_options(texts),
    help="Option of the kubelets' topology manager, also one that no kubelet has yet; may be repeated. Any of"
    f" {', '.join(simulating.OPTION_VALUES)}.",
)
@options.from_cluster
@_gpus
@click.option(
    "--strategies",
    "names",
    metavar="NAME,...",
    default="stock,webhook,scorer,LeastNUMANodes,MostAllocated",
    show_default=True,
    callback=lambda _context, _option, text: simulating.strategies(text),
    help=f"Strategies to compare: any of {', '.join(ZONE_SCHEDULERS)}.",
)
@click.option(
    "--ratio",
    type=_RATIOS,
    callback=_ratio,
    default=1.3,
    show_default=True,
    help="GPUs that all pods request together, as a multiple of the GPUs there are.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 50),
    default=3,
    show_default=True,
    help="Number of runs, each with pods and nodes in another random order; results are means.",
)
@click.option(
    "--pin-cpus",
    is_flag=True,
    help="Make every pod Guaranteed and round its CPUs up, so that it gets exclusive CPUs.",
)
@click.option("--plots", type=FILE, metavar="FOLDER", help="Folder to write charts to, as SVG.")
@options.listing_option
def simulate(  # noqa: PLR0913 - one keyword for each option
    *,
    pods: str,
    nodes: str | None,
    made_up: MadeUpZones,
    kubelet: Options | None,
    source: ClusterSource,
    gpus: Gpus,
    names: tuple[str, ...],
    ratio: float,
    seeds: int,
    pin_cpus: bool,
    plots: str | None,
    output: Output,
) -> None:
    """Replay a trace of GPU pods under several strategies, and compare how many GPUs each leaves stranded.

    Pods arrive one after the other in random order, until they request --ratio times the existing GPUs; none
    of them finishes. They are placed on the nodes of a cluster, with what is free there now, or on nodes of
    the trace with assumed zones. The kubelet's rules decide whether a pod is admitted.

    ALLOCATED is the share of all GPUs that is allocated in the end. FRAGMENTS are idle GPUs that typical pods
    cannot use; STRANDED are those that they could use if nodes had no zones. REFUSALS counts rejections by
    kubelets, at most five per pod. With -o wide, ALIGNED are the pods that got everything from one zone,
    TURNED AWAY those that found room on a node in total and no kubelet that admits them. FREE CPUS and FREE
    GPUS are free in the zone of each node that has most of them, as the mean of nodes.

    --kubelet-option shows what an option of the kubelets would change. Of equally good zones, the options of
    KEP-6007 choose by how much is allocated; no kubelet was released with them, and
    prefer-most-allocated-numa-node acts under the policy single-numa-node alone.

    stock is kube-scheduler without numalign; webhook adds the webhook's node affinity; scorer is
    kube-scheduler with the scorer as an extender. gate places pods as the controller does; the name of a
    strategy does so with that strategy alone.
    """
    if nodes is None:
        made_up.none_without_a_table()
    trace = simulating.read_tables(Path(nodes) if nodes else None, Path(pods))
    trace = trace.pinned() if pin_cpus else trace
    if nodes:
        places = made_up.zoning(kubelet).nodes_of(trace)
    else:
        objects = source.documents()
        view = source.view(objects=objects)
        placed = moving.placed_if_permitted(source, view, objects, match=Match.SATISFIES)
        if view.cluster.unknown:
            notify(f"skipped: {counted(len(view.cluster.unknown))} without a NUMA topology")
        places = simulating.nodes_of_cluster(placed.nodes, gpus, kubelet)
    simulation = Simulation(places, trace, names, ratio, range(42, 42 + seeds))
    if plots:
        Path(plots).mkdir(exist_ok=True)
    with waiting("replaying") as progress:
        simulated = simulation.run(progress)
    listing = Listing(
        columns=simulating.COLUMNS,
        wide_columns=simulating.WIDE_COLUMNS,
        rows=simulated.rows(),
        documents=simulated.documents,
    )
    options.print_listing(listing, output)
    if plots:
        for path in simulated.write_charts(Path(plots)):
            notify(f"wrote {path}")
