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
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certs import authority
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
from tools.clusters.sim.cluster import Cluster, simulated
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.kubelet import Decision
from tools.clusters.sim.oracles import SimulationError
from tools.clusters.sim.real import outcomes, real
from tools.clusters.sim.shapes import SHAPES, Policy, SimNode

NODES = 20
SHAPE = "two-by-four,eight-zones"
FINGERPRINTS = {"all": Fingerprint.ALL, "exclusive": Fingerprint.EXCLUSIVE, "none": None}
LOOK_SECONDS = 0.2

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
OF_SIMULATED = (
    *("delay", "jitter", "fingerprint", "observe", "grace", "seed", "kubeconfig"),
    *("with", "write-kubeconfig"),
)
"""The options of simulated kubelets and exporters only."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        machines = fleet(options.shape, nodes=options.nodes, policy=options.policy)
    except BadInput as error:
        parser.error("; ".join(map(str, error.mistakes)))
    if options.kubelets == REAL and (strange := _of_simulated(parser, options)):
        parser.error(f"{', '.join(strange)}: not with real kubelets")
    if options.kubeconfig is not None and (strange := _of_own(options)):
        parser.error(f"{', '.join(strange)}: not with --kubeconfig")
    try:
        asyncio.run(_until_interrupted(_RUNS[options.kubelets](options, machines)))
    except Unconfigured as error:
        parser.error(str(error))
    except UnavailableError as error:
        return _failed(error, os.EX_UNAVAILABLE)
    except (BrokenError, ClusterError, KubeletError, SimulationError, pytest.fail.Exception) as error:
        return _failed(error, 1)
    return 0


def _of_simulated(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    told = vars(options)
    names = {name: name.replace("-", "_") for name in OF_SIMULATED}
    return [f"--{name}" for name, kept in names.items() if told[kept] != parser.get_default(kept)]


def _of_own(options: argparse.Namespace) -> list[str]:
    """Return the given options that need an API server that is started here."""
    told = vars(options)
    return [f"--{name}" for name in ("with", "write-kubeconfig") if told[name.replace("-", "_")] is not None]


def _failed(error: BaseException, code: int) -> int:
    sys.stderr.write(f"sim: {error}\n")
    return code


def fleet(shapes: str, *, nodes: int | None = None, policy: str = Policy.SINGLE) -> list[SimNode]:
    """Return the nodes of a text such as `two-by-four=10,small`.

    Shapes without a number share the rest of `nodes`. Raise `BadInput` if the text or the number is invalid.
    """
    counts: dict[str, int | None] = {}
    mistakes = []
    for entry in shapes.split(","):
        name, equals, number = entry.partition("=")
        if name not in SHAPES or name in counts:
            mistakes.append(Mistake("--shape", f"{entry!r}: want each of {', '.join(SHAPES)} at most once"))
        elif equals and not (number.isdecimal() and number.isascii()):
            mistakes.append(Mistake("--shape", f"{entry!r}: want a number of nodes after ="))
        counts[name] = int(number) if equals and number.isdecimal() and number.isascii() else None
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
        async for told in outcomes(cluster):
            _say(told)


async def _run(options: argparse.Namespace, machines: list[SimNode]) -> None:
    if options.kubeconfig is None:
        await _run_alone(options, machines)
        return
    async with (
        connected(Connection(options.kubeconfig)) as api,
        _simulated(options, machines, api) as cluster,
    ):
        _say(HOW_TO.format(count=len(machines), kubeconfig=options.kubeconfig, first=machines[0].name))
        await _tell(cluster)


async def _run_alone(options: argparse.Namespace, machines: list[SimNode]) -> None:
    """Run on an API server that is started for this."""
    [binaries] = await controlplane.find()
    with tempfile.TemporaryDirectory(prefix="numalign-sim-") as made:
        folder = Path(made)
        async with _plane(binaries, folder) as (children, plane), plane.client("admin") as client:
            own = plane.kubeconfig("admin", folder)
            api = Api(client, namespace="default")
            async with _simulated(options, machines, api) as cluster, AsyncExitStack() as stack:
                how_to = HOW_TO
                beside = vars(options)["with"]
                if beside is not None:
                    _say(f"starting {beside}\n")
                    await stack.enter_async_context(BESIDE[beside](children, plane))
                    how_to = HOW_TO_SCHEDULE
                kubeconfig = stack.enter_context(_written(own, options.write_kubeconfig))
                named = {"kubeconfig": kubeconfig, "first": machines[0].name, "beside": beside}
                _say(how_to.format(count=len(machines), **named))
                await _tell(cluster)


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


def _simulated(
    options: argparse.Namespace, machines: list[SimNode], api: Api
) -> AbstractAsyncContextManager[Cluster]:
    return simulated(
        api,
        machines,
        delay=options.delay,
        jitter=options.jitter,
        fingerprint=FINGERPRINTS[options.fingerprint],
        # In a cluster with numalign, an agent would report what pods hold.
        observe=options.observe or vars(options)["with"] == Beside.NUMALIGN,
        seed=options.seed,
        grace=options.grace,
    )


async def _tell(cluster: Cluster) -> None:
    """Print every decision when it is made."""
    told = 0
    while True:
        for decision in cluster.decisions[told:]:
            _say(line(decision))
            told += 1
        cluster.check()
        await asyncio.sleep(LOOK_SECONDS)


def line(decision: Decision) -> str:
    """Return the line that is printed for a decision."""
    said = "admitted" if decision.admitted else f"REJECTED {decision.reason}: {decision.message}"
    return f"{decision.node}: {decision.pod} {said}\n"


_RUNS = {SIMULATED: _run, REAL: _run_real}


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


@asynccontextmanager
async def _plane(binaries: Path, folder: Path) -> AsyncIterator[tuple[Children, Plane]]:
    for name in ("logs", "tls"):
        (folder / name).mkdir()
    issued = authority.issue(names=["127.0.0.1"], days=7, now=datetime.now(UTC))
    children = Children(logs=folder / "logs")
    place = Place(binaries, folder, authority.write(issued, folder / "tls"))
    plane = Plane(children, place, users={"admin": "system:masters", **USERS})
    try:
        await plane.start()
        yield children, plane
    finally:
        await children.end()


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
