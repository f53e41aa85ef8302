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
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from numalign.kube.client import Api, connected
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError, Unconfigured
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import about
from tools.clusters.controlplane import build as controlplane
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.gotools import BrokenError, UnavailableError
from tools.clusters.kubelets.build import versions
from tools.clusters.kubelets.kubelets import KubeletError
from tools.clusters.oracle.build import USUAL
from tools.clusters.processes import Children
from tools.clusters.sim.beside import BESIDE, USERS, Beside
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.oracles import SimulationError
from tools.clusters.sim.real import outcomes, real
from tools.clusters.sim.shapes import SHAPES, Policy, SimNode

NODES = 20
SHAPE = "two-by-four,eight-zones"
FINGERPRINTS = {"all": Fingerprint.ALL, "exclusive": Fingerprint.EXCLUSIVE, "none": None}

HOW_TO = """\
{count} nodes are there. No scheduler and no controller runs beside them; a pod is one's own to bind:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes,noderesourcetopologies
  kubectl run a --image=a --restart=Never --overrides='{{"spec": {{"nodeName": "{first}"}}}}'
  kubectl get pods -o wide

Every decision of a kubelet is a line here. Ctrl-C ends it all.
"""

HOW_TO_SCHEDULE = """\
{count} nodes are there, with {beside}.

  export KUBECONFIG={kubeconfig}
  kubectl get nodes

Every decision of a kubelet is a line here. Ctrl-C ends it all.
"""

HOW_TO_LOOK = """
No exporter runs beside them. Of the first, and of the others likewise:

  podresources  {podresources}
  /sys          {sysfs}
  state         {state}
  serves at     {url}
  log           {log}
"""

SIMULATED, REAL = "simulated", "real"
OF_OWN = ("with", "write-kubeconfig")
"""The options that need an API server that is started here."""
OF_SIMULATED = ("delay", "jitter", "fingerprint", "observe", "grace", "seed", "kubeconfig", *OF_OWN)
"""The options of simulated kubelets and exporters only."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        machines = fleet(options.shape, nodes=options.nodes, policy=options.policy)
    except BadInput as error:
        parser.error("; ".join(map(str, error.mistakes)))
    for given, excluded, why in (
        (options.kubelets == REAL, OF_SIMULATED, "with real kubelets"),
        (options.kubeconfig is not None, OF_OWN, "with --kubeconfig"),
    ):
        names = {name: name.replace("-", "_") for name in excluded if given}
        used = [f"--{name}" for name, at in names.items() if vars(options)[at] != parser.get_default(at)]
        if used:
            parser.error(f"{', '.join(used)}: not {why}")
    try:
        asyncio.run(_until_interrupted(_RUNS[options.kubelets](options, machines)))
    except Unconfigured as error:
        parser.error(str(error))
    except (
        *(UnavailableError, BrokenError, ClusterError, KubeletError, SimulationError),
        pytest.fail.Exception,
    ) as error:
        sys.stderr.write(f"sim: {error}\n")
        return os.EX_UNAVAILABLE if isinstance(error, UnavailableError) else 1
    return 0


def fleet(shapes: str, *, nodes: int | None = None, policy: str = Policy.SINGLE) -> list[SimNode]:
    """Return the nodes of a text such as `two-by-four=10,small`.

    Shapes without a number share the rest of `nodes`. Raise `BadInput` if the text or the number is invalid.
    """
    counts: dict[str, int | None] = {}
    mistakes = []
    for entry in shapes.split(","):
        name, equals, number = entry.partition("=")
        count = int(number) if number.isdecimal() and number.isascii() else None
        if name not in SHAPES or name in counts:
            mistakes.append(Mistake("--shape", f"{entry!r}: want each of {', '.join(SHAPES)} at most once"))
        elif equals and count is None:
            mistakes.append(Mistake("--shape", f"{entry!r}: want a number of nodes after ="))
        counts[name] = count
    if mistakes:
        raise BadInput(mistakes)
    return [
        SimNode(f"{name}-{number:02}", name, policy)
        for name, count in _shared(counts, nodes).items()
        for number in range(count)
    ]


def _shared(counts: dict[str, int | None], nodes: int | None) -> dict[str, int]:
    given = {name: count for name, count in counts.items() if count is not None}
    sharing = [name for name in counts if name not in given]
    left = (NODES if nodes is None else nodes) - sum(given.values())
    if not sharing and nodes is not None and left:
        raise BadInput([Mistake("--nodes", f"{nodes} is not the sum of the numbers of --shape")])
    if sharing and left < len(sharing):
        raise BadInput([Mistake("--nodes", f"too few: at least one for each of {', '.join(sharing)}")])
    if not sharing and not sum(given.values()):
        raise BadInput([Mistake("--shape", "want one node at least")])
    shares = {name: left // len(sharing) + (at < left % len(sharing)) for at, name in enumerate(sharing)}
    return {name: shares.get(name, given.get(name, 0)) for name in counts}


async def _until_interrupted(run: Coroutine[Any, Any, None]) -> None:
    running = asyncio.ensure_future(run)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()


async def _run_real(options: argparse.Namespace, machines: list[SimNode]) -> None:
    _say(f"starting {len(machines)} kubelets {options.kubernetes}\n")
    async with real(machines, version=options.kubernetes) as cluster:
        kubeconfig = cluster.plane.kubeconfig("admin", cluster.folder)
        _say(HOW_TO.format(count=len(machines), kubeconfig=kubeconfig, first=machines[0].name))
        _say(HOW_TO_LOOK.format_map(cluster.kubelets[machines[0].name].paths()))
        async for said in outcomes(cluster):
            _say(said)


async def _run(options: argparse.Namespace, machines: list[SimNode]) -> None:
    how_to, beside = HOW_TO, vars(options)["with"]
    async with AsyncExitStack() as stack:
        plane = None
        if options.kubeconfig is None:
            children, plane = await stack.enter_async_context(_plane())
            api = Api(await stack.enter_async_context(plane.client("admin")), namespace="default")
        else:
            api = await stack.enter_async_context(connected(Connection(options.kubeconfig)))
        cluster = await stack.enter_async_context(
            simulated(
                api,
                machines,
                delay=options.delay,
                jitter=options.jitter,
                fingerprint=FINGERPRINTS[options.fingerprint],
                # In a cluster with numalign, an agent would report what pods hold.
                observe=options.observe or beside == Beside.NUMALIGN,
                seed=options.seed,
                grace=options.grace,
            )
        )
        kubeconfig = options.kubeconfig
        if plane:
            if beside is not None:
                _say(f"starting {beside}\n")
                await stack.enter_async_context(BESIDE[beside](children, plane))
                how_to = HOW_TO_SCHEDULE
            own = plane.kubeconfig("admin", plane.folder)
            kubeconfig = stack.enter_context(_written(own, options.write_kubeconfig))
        named = {"kubeconfig": kubeconfig, "first": machines[0].name, "beside": beside}
        _say(how_to.format(count=len(machines), **named))
        printed = 0
        while True:
            for decision in cluster.decisions[printed:]:
                said = "admitted" if decision.admitted else f"REJECTED {decision.reason}: {decision.message}"
                _say(f"{decision.node}: {decision.pod} {said}\n")
                printed += 1
            cluster.check()
            await asyncio.sleep(0.2)


@asynccontextmanager
async def _plane() -> AsyncIterator[tuple[Children, Plane]]:
    [binaries] = await controlplane.find()
    with tempfile.TemporaryDirectory(prefix="numalign-sim-") as made:
        folder = Path(made)
        for name in ("logs", "tls"):
            (folder / name).mkdir()
        children = Children(logs=folder / "logs")
        users = {"admin": "system:masters", **USERS}
        plane = Plane(children, Place.new(binaries, folder), users=users)
        try:
            await plane.start()
            yield children, plane
        finally:
            await children.end()


@contextmanager
def _written(kubeconfig: Path, copy: Path | None) -> Iterator[Path]:
    """Yield the path of the kubeconfig for people; a copy exists as long as the API server."""
    if copy is None:
        yield kubeconfig
        return
    copy.touch(mode=0o600)
    content = kubeconfig.read_bytes()
    copy.write_bytes(content)
    try:
        yield copy
    finally:
        # Another simulation may have written its own meanwhile.
        if copy.exists() and copy.read_bytes() == content:
            copy.unlink()


_RUNS = {SIMULATED: _run, REAL: _run_real}


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.clusters.sim",
        description="Nodes whose kubelets decide as real ones do, at a real API server.",
        epilog=f"Shapes: {', '.join(SHAPES)}. Without --kubeconfig an API server is started.",
    )
    parser.add_argument("--nodes", type=_count, help=f"how many; {NODES} if not given")
    parser.add_argument("--shape", default=SHAPE, metavar="NAME[=COUNT],...", help=f"{SHAPE} if not given")
    parser.add_argument(
        "--kubelets", choices=_RUNS, default=SIMULATED, help="simulated, or real ones, which want root"
    )
    parser.add_argument(
        "--kubernetes", choices=versions(), default=USUAL, metavar="VERSION", help="of real kubelets"
    )
    parser.add_argument("--policy", choices=[*Policy], default=Policy.SINGLE, help="of the topology managers")
    parser.add_argument(
        "--delay", type=_seconds, default=1, metavar="SECONDS", help="how late topologies are"
    )
    parser.add_argument(
        "--jitter", type=_seconds, default=0.2, metavar="SECONDS", help="up to so much later, by chance"
    )
    parser.add_argument(
        "--fingerprint", choices=FINGERPRINTS, default="all", help="the pods that topologies account for"
    )
    parser.add_argument("--observe", action="store_true", help="write to each pod what it holds")
    parser.add_argument(
        "--grace", type=_seconds, default=0.05, metavar="SECONDS", help="how long a deleted pod takes to end"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the jitter")
    parser.add_argument("--kubeconfig", metavar="FILE", help="of a cluster where the nodes shall be")
    parser.add_argument(
        "--with",
        choices=BESIDE,
        help="start kube-scheduler and Kubernetes' controllers too, or also numalign",
    )
    parser.add_argument(
        "--write-kubeconfig", type=Path, metavar="FILE", help="also write the kubeconfig here while it runs"
    )
    parser.add_argument("--version", action="version", version=f"numalign {about.version()}, kubelet {USUAL}")
    return parser


def _count(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r}: want one node at least")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: want seconds, 0 or more")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
