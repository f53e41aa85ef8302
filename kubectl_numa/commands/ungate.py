"""`kubectl numa ungate`: lift numalign's scheduling gate where no controller does."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from kubectl_numa import options
from kubectl_numa.lines import notify, waiting
from kubectl_numa.listings import ListedRow, Listing, Output
from kubectl_numa.selection import PodSelection
from numalign.kube import gates, installation
from numalign.kube.client import Api, connected
from numalign.kube.command_line import Trouble, from_kubeconfig
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError, Forbidden, NotFound
from numalign.kube.gates import LEASE, WaitingPod
from numalign.kube.lease import LEASE_DURATION_SECONDS

GONE_SECONDS = 300
"""The age of a controller's lease from which gates are lifted without --force."""

WATCHED_SECONDS = float(LEASE_DURATION_SECONDS)
"""How long a lease of that age is watched first: only this machine's clock or the controller's may say so."""

USUAL_NAMESPACE = "numalign-system"

AT_ONCE = 16
"""Pods that are written to at once."""


@dataclass(frozen=True, slots=True)
class UngatedPod:
    """A pod, and why its gate could not be lifted; "" if it was, or would be."""

    pod: WaitingPod
    error: str = ""

    @property
    def name(self) -> str:
        """Return it in readable form."""
        return f"{self.pod.namespace}/{self.pod.name}"

    def row(self, done: str) -> ListedRow:
        """Return it for lists; `done` is the word for a gate that was lifted, or would be."""
        pod, result = self.pod, "failed" if self.error else done
        cells = (pod.namespace, pod.name, result, ",".join(pod.others), self.error)
        return ListedRow(f"pod/{pod.name}", cells)

    def to_json(self) -> dict[str, object]:
        """Return it for programs."""
        identity = {"namespace": self.pod.namespace, "name": self.pod.name, "uid": self.pod.uid}
        return {**identity, "otherGates": [*self.pod.others], "error": self.error or None}


@options.command(
    "kubectl numa ungate -A --dry-run",
    "kubectl numa ungate -n team -l app=trainer",
    "kubectl numa ungate -A --force -o json",
)
@from_kubeconfig
@options.of_pods
@click.option("--dry-run", is_flag=True, help="Print the pods whose gate would be lifted; change nothing.")
@click.option("--force", is_flag=True, help="Lift gates even while a controller is running.")
@options.listing_option
def ungate(
    *, connection: Connection, selection: PodSelection, dry_run: bool, force: bool, output: Output
) -> None:
    """Lift scheduling gates when no controller runs.

    Removes the gate numalign.io/placement from the selected pods without pinning them to nodes. Their
    scheduler then places them as if they had never been gated: nothing is reserved for them, and a kubelet
    may reject them. Other gates of the pods stay.

    If a controller has renewed its lease within the last 5 minutes, nothing is changed unless you use
    --force. As clocks may differ, an older lease is watched for 15 seconds, and must not be renewed.

    Exit code 0: all gates were lifted. 1: at least one could not be lifted. 2: none was tried.
    """

    async def work(now: Callable[[str], None]) -> Sequence[UngatedPod]:
        async with connected(connection) as api:
            if not force and not dry_run:
                await _check(api, now)
            place = None if selection.everywhere else selection.namespace or api.namespace
            pods = await gates.waiting(api, namespace=place, selector=selection.selector)
            return [UngatedPod(pod) for pod in pods] if dry_run else await _lift(api, pods, now)

    with waiting("reading the cluster") as now:
        pods = asyncio.run(work(now))
    done = "would be lifted" if dry_run else "lifted"
    ordered = sorted(pods, key=lambda pod: pod.name)
    listing = Listing(
        columns=("namespace", "name", "result"),
        wide_columns=("other gates", "error"),
        rows=[each.row(done) for each in ordered],
        documents=lambda: [each.to_json() for each in pods],
        text=lambda _paper: _show(ordered, done=done),
    )
    options.print_listing(listing, output)
    raise click.exceptions.Exit(1 if any(pod.error for pod in pods) else 0)


async def _check(api: Api, now: Callable[[str], None]) -> None:
    """Raise `Trouble` while a controller runs."""
    # The usual one, if numalign is no longer installed.
    place = USUAL_NAMESPACE
    try:
        with suppress(NotFound):
            place = await installation.namespace(api) or place
        at = await gates.renewed(api, namespace=place)
        seconds = (datetime.now(UTC) - at).total_seconds() if at else GONE_SECONDS
        if at and seconds >= GONE_SECONDS:
            now(f"watching the lease {place}/{LEASE} for {WATCHED_SECONDS:g} s")
            await asyncio.sleep(WATCHED_SECONDS)
            seconds = GONE_SECONDS if await gates.renewed(api, namespace=place) in (at, None) else 0
    except Forbidden as error:
        raise Trouble(
            f"cannot tell whether a controller is running: {error}; use --force to lift gates anyway"
        ) from error
    if seconds < GONE_SECONDS:
        raise Trouble(
            f"a controller renewed the lease {place}/{LEASE} {max(seconds, 0):.0f} s ago and lifts gates"
            f" itself: stop it and wait {GONE_SECONDS // 60} min, or use --force"
        )


async def _lift(api: Api, pods: Sequence[WaitingPod], now: Callable[[str], None]) -> Sequence[UngatedPod]:
    """Lift all gates, several at once; one that cannot be lifted does not stop the others."""
    turns, done = asyncio.Semaphore(AT_ONCE), 0

    async def lifted(pod: WaitingPod) -> UngatedPod:
        nonlocal done
        error = ""
        async with turns:
            try:
                await gates.lift(api, namespace=pod.namespace, name=pod.name, uid=pod.uid)
            except NotFound:
                # It was deleted meanwhile.
                pass
            except ClusterError as refused:
                error = str(refused)
        done += 1
        now(f"lifting gates: {done:,} of {len(pods):,}")
        return UngatedPod(pod, error)

    return await asyncio.gather(*map(lifted, pods))


def _show(pods: Sequence[UngatedPod], *, done: str) -> None:
    for pod in pods:
        others = f"; still gated by {', '.join(pod.pod.others)}" if pod.pod.others else ""
        if pod.error:
            notify(f"{pod.name}: {pod.error}")
        else:
            click.echo(f"{pod.name}: {done}{others}")
    failed = sum(bool(pod.error) for pod in pods)
    failures = f", {failed:,} failed" if failed else ""
    click.echo(f"{len(pods) - failed:,} of {len(pods):,} gates {done}{failures}" if pods else "no gated pods")
