"""A cluster of simulated nodes: `python -m tools.clusters.sim`, or `make sim`.

It is for people who develop a scheduler, an extender or a dashboard, and do not have twenty NUMA machines. It
runs any number of nodes, with kubelets that decide as the real ones do, until it is interrupted; see --help.
Exit code 2 means that its flags are invalid, 69 that a program that it needs is not available on this
machine, 1 that something else failed.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from numalign.kube.client import Api, connected
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError, Unconfigured
from tools.clusters import builds
from tools.clusters.certificates import pair
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.gotools import BrokenError, UnavailableError
from tools.clusters.kubelets.clusters import started
from tools.clusters.processes import Children
from tools.clusters.sim.beside import USERS, scheduling
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.desk import learn
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.kubelet import SimulationError
from tools.clusters.sim.shapes import POLICIES, SHAPES, SimNode

FINGERPRINTS = {"all": Fingerprint.ALL, "exclusive": Fingerprint.EXCLUSIVE, "none": None}
NUMALIGN = "numalign"
IGNORED = {"kubelets": ("delay", "fingerprint", "write_kubeconfig"), "kubeconfig": ("write_kubeconfig",)}
"""By options, others that would change nothing: no exporter runs beside real kubelets, for example."""

HOW_TO = """\
{count} nodes are there, with {beside} beside them.

  export KUBECONFIG={kubeconfig}
  kubectl get nodes,noderesourcetopologies
  kubectl run a --image=a --restart=Never --overrides='{{"spec": {{"nodeName": "{first}"}}}}'
  kubectl get pods -o wide

Every decision of a simulated kubelet is a line here. Ctrl-C ends it all.
"""

HOW_TO_LOOK = """
No exporter runs beside real kubelets. Of the first, and of the others likewise:

  podresources  {0.podresources}
  /sys          {0.sysfs}
  state         {0.state}
  serves at     {0.url}
  log           {0.log}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    for other, ignored in IGNORED.items():
        changed = (name for name in ignored if vars(options)[name] != parser.get_default(name))
        if vars(options)[other] and (name := next(changed, "")):
            parser.error(f"argument --{name.replace('_', '-')}: not allowed with argument --{other}")
    # Both signals end the simulation, even if the shell has it ignore the first.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_run(options))
    except Unconfigured as error:
        parser.error(str(error))
    except (
        *(UnavailableError, BrokenError, ClusterError, SimulationError),
        pytest.fail.Exception,
    ) as error:
        sys.stderr.write(f"sim: {error}\n")
        return os.EX_UNAVAILABLE if isinstance(error, UnavailableError) else 1
    return 0


async def _run(options: argparse.Namespace) -> None:
    machines = [SimNode(name, shape, options.policy) for name, shape in options.shape]
    beside, kubeconfig = vars(options)["with"], options.kubeconfig
    how_to = {"count": len(machines), "first": machines[0].name, "beside": beside or "no scheduler"}
    async with AsyncExitStack() as stack:
        if options.kubelets:
            nodes = [machine.real() for machine in machines]
            real = await stack.enter_async_context(started(nodes, version=options.kubelets))
            client = await stack.enter_async_context(real.plane.client("admin"))
            await learn(Api(client, namespace="default"))
            kubeconfig = real.plane.kubeconfig("admin", real.folder)
            _say(HOW_TO.format(**how_to, kubeconfig=kubeconfig))
            _say(HOW_TO_LOOK.format(real.kubelets[machines[0].name]))
            await asyncio.Event().wait()
        if kubeconfig:
            api = await stack.enter_async_context(connected(Connection(kubeconfig)))
        else:
            children, plane = await _plane(stack)
            api = Api(await stack.enter_async_context(plane.client("admin")), namespace="default")
        cluster = await stack.enter_async_context(
            simulated(
                api,
                machines,
                delay=options.delay,
                jitter=options.delay / 5,
                fingerprint=FINGERPRINTS[options.fingerprint],
                # In a cluster with numalign, an agent would report what pods hold.
                observe=beside == NUMALIGN,
            )
        )
        if beside:
            _say(f"starting {beside}\n")
            await stack.enter_async_context(scheduling(children, plane, numalign=beside == NUMALIGN))
        if not kubeconfig:
            kubeconfig = plane.kubeconfig("admin", plane.folder)
            if copy := options.write_kubeconfig:
                copy.touch(mode=0o600)
                stack.callback(copy.unlink, missing_ok=True)
                copy.write_bytes(kubeconfig.read_bytes())
                kubeconfig = copy
        _say(HOW_TO.format(**how_to, kubeconfig=kubeconfig))
        printed = 0
        while True:
            for decision in cluster.decisions[printed:]:
                rejected = f"REJECTED {decision.reason}: {decision.message}"
                _say(f"{decision.node}: {decision.pod} {rejected if decision.reason else 'admitted'}\n")
                printed += 1
            cluster.check()
            await asyncio.sleep(0.2)


async def _plane(stack: AsyncExitStack) -> tuple[Children, Plane]:
    """Start a control plane that ends with the stack."""
    binaries = await builds.control_plane()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="numalign-sim-")))
    (folder / "logs").mkdir()
    children = Children(logs=folder / "logs")
    stack.push_async_callback(children.end)
    plane = Plane(
        children, Place(binaries, folder, pair(folder / "tls")), users={"admin": "system:masters", **USERS}
    )
    await plane.start()
    return children, plane


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.clusters.sim",
        description="Nodes whose kubelets decide as real ones do, at a real API server.",
        epilog=f"Shapes: {', '.join(SHAPES)}. Without --kubeconfig an API server is started.",
    )
    add = parser.add_argument
    shapes = "two-by-four=10,eight-zones=10"
    add("--shape", type=fleet, default=shapes, metavar="NAME=COUNT,...", help=f"{shapes} if not given")
    add("--policy", choices=POLICIES, default=POLICIES[0], help="of the topology managers")
    add("--delay", type=float, default=1, metavar="SECONDS", help="how late topologies are")
    add("--fingerprint", choices=FINGERPRINTS, default="all", help="the pods that topologies account for")
    add("--write-kubeconfig", type=Path, metavar="FILE", help="also write the kubeconfig here while it runs")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kubeconfig", metavar="FILE", help="of a cluster where the nodes shall be")
    where.add_argument(
        "--with",
        choices=("scheduler", NUMALIGN),
        help="start kube-scheduler and Kubernetes' controllers too, or also numalign",
    )
    where.add_argument(
        *("--kubelets",),
        choices=builds.versions(builds.KUBELETS),
        metavar="VERSION",
        help="run real kubelets of this version instead, which want root",
    )
    return parser


def fleet(shapes: str) -> list[tuple[str, str]]:
    """Return the names of nodes, and their shapes, of a text such as `two-by-four=10,small=1`."""
    counts = dict(entry.split("=") for entry in shapes.split(","))
    nodes = [(f"{name}-{at:02}", name) for name, count in counts.items() for at in range(int(count))]
    if not nodes or not counts.keys() <= SHAPES.keys():
        raise argparse.ArgumentTypeError(f"{shapes!r}: want numbers of nodes of {', '.join(SHAPES)}")
    return nodes


if __name__ == "__main__":
    sys.exit(main())
