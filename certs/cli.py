"""
`numalign-certs`: inspect certificates, and issue and rotate them by hand.

    inspect    what is served, until when, and which callers trust it
    issue      files, for installations that do not use numalign's Secret
    rotate     a new pair now, without a failed call
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import click
import orjson
from rich.console import Console

from certs import authority, bundle, inspection, rotation, secret
from certs.inspection import Report
from certs.rotator import Rotator, begin, follow
from certs.secret import CA, CERT, KEY, NEXT_CERT, NEXT_KEY, BadSecret, SecretRef
from numalign.kube.client import Api, connected
from numalign.kube.command_line import CommandGroup, Trouble, from_kubeconfig, joined
from numalign.kube.connection import Connection
from numalign.model.errors import Mistake
from numalign.runtime import about, tls
from numalign.runtime.clock import utc_now

PROGRAM = "numalign-certs"
CONFIGURATION = "zz-numalign"
FILES = (CERT, KEY, CA)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to connect to a cluster, and a namespace; None is the kubeconfig's own."""

    connection: Connection
    namespace: str | None

    def run(self, work: Callable[[Api, str], Awaitable[R]]) -> R:
        """Return the result of work that needs the API server and the namespace; raise `ClusterError`."""

        async def connect_and_work() -> R:
            async with connected(self.connection) as api:
                return await work(api, self.namespace or api.namespace)

        return asyncio.run(connect_and_work())


from_cluster = joined(
    "cluster",
    ClusterAccess,
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Namespace of the Secret. Defaults to the namespace of the kubeconfig's context.",
    ),
    from_kubeconfig,
)
"""Adds --namespace and kubectl's flags of a connection, joined into one argument `cluster`."""


@click.group(
    cls=CommandGroup,
    name=PROGRAM,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  numalign-certs inspect --secret numalign-webhook-tls -n numalign-system
  numalign-certs rotate --secret numalign-webhook-tls -n numalign-system
  numalign-certs issue --name localhost --name 127.0.0.1 --days 30 --out tls/
""",
)
@click.version_option(about.version(), prog_name=PROGRAM)
def program() -> None:
    """Inspect, issue and rotate the certificates of numalign."""


@program.command()
@click.option(
    "--name", "names", multiple=True, required=True, help="DNS name or IP address; may be repeated."
)
@click.option("--days", type=int, default=rotation.DAYS, show_default=True, help="Validity in days.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write to."
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def issue(names: Sequence[str], days: int, out: Path, *, overwrite: bool) -> None:
    """Issue a serving certificate: write tls.crt, tls.key, and ca.crt for callers to trust.

    The key of the CA is discarded, so it can never sign another certificate.
    """
    existing = [name for name in FILES if (out / name).exists()]
    if existing and not overwrite:
        raise Trouble(f"{out} already contains {', '.join(existing)}: use another folder, or --overwrite")
    pair = authority.issue(names=names, days=days, now=utc_now())
    files = authority.write(pair, out)
    for path, use in ((files.cert, "--tls-cert"), (files.key, "--tls-key"), (files.ca, "CA for callers")):
        click.echo(f"{path}  ({use})")


@program.command()
@click.option("--secret", "name", metavar="NAME", required=True, help="Secret with the certificate.")
@click.option("--configuration", metavar="NAME", default=CONFIGURATION, show_default=True,
              help="Webhook configurations whose CA bundle is updated.")  # fmt: skip
@click.option("--settle", metavar="SECONDS", type=click.FloatRange(min=0), default=rotation.SETTLE_SECONDS,
              show_default=True, help="How long to wait after each step, for all to follow.")  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Start the rotation, and leave the rest to the controller.")
@from_cluster
def rotate(name: str, configuration: str, settle: float, *, no_wait: bool, cluster: ClusterAccess) -> None:
    """Rotate the certificate now, without a failed call.

    A rotation that is in progress is continued. You can interrupt the command at any time: the controller
    finishes the rotation.
    """

    async def work(api: Api, namespace: str) -> None:
        ref = SecretRef(namespace, name)
        plan = await begin(api, ref, settle=settle, now=utc_now)
        if no_wait:
            click.echo("staged: the controller does the rest")
            return
        rotator = Rotator(api, ref=ref, configuration=configuration, plan=plan)
        console = Console(stderr=True)
        what = f"waiting {settle:g} seconds after each step, until all replicas use it"
        with console.status(what) if console.is_terminal else nullcontext():
            every = min(2.0, settle / 10)
            await follow(rotator, every=every, report=click.echo, sleep=asyncio.sleep)

    cluster.run(work)


@program.command()
@click.argument("path", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--secret", "name", metavar="NAME", help="Inspect this Secret instead of PATH.")
@click.option("--configuration", metavar="NAME",
              help="Also check whether the callers of these configurations trust it.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="Output format: text to read, json for programs.")  # fmt: skip
@from_cluster
def inspect(
    path: Path | None, name: str | None, configuration: str | None, output: str, *, cluster: ClusterAccess
) -> None:
    """Show the certificates in a folder, a PEM file or a Secret: names, authority and validity.

    Exit code 1 if the certificate must not be served: it expired, the key belongs to another certificate, or
    callers do not trust it.
    """
    if (path is None) == (name is None):
        raise click.UsageError("specify either PATH or --secret NAME")
    if path:
        report = _of_path(path)
    else:
        shared = cluster.run(lambda api, namespace: secret.read(api, SecretRef(namespace, name or "")))
        if shared.raw is None:
            raise Trouble(f"{shared.ref} does not exist")
        if shared.state is None:
            report = Report(mistakes=shared.mistakes or (Mistake(str(shared.ref), "is empty"),))
        else:
            report = Report(inspection.of_state(shared.state, ours=shared.ours))
    if configuration:
        report = report.with_trust(cluster.run(lambda api, _: bundle.read(api, configuration)))
    now = utc_now()
    if output == "json":
        click.echo(orjson.dumps(report.to_json(now=now), option=orjson.OPT_INDENT_2))
    else:
        _print_text(report, now)
    sys.exit(1 if report.wrong(now=now) else 0)


def _of_path(path: Path) -> Report:
    if not path.is_dir():
        chain = tls.chain(path.read_bytes())
        if isinstance(chain, str):
            raise Trouble(f"{path} {chain}")
        return Report(inspection.of_chain(chain))
    names = [name for name in (*FILES, NEXT_CERT, NEXT_KEY) if (path / name).exists()]
    if not names:
        raise Trouble(f"{path} contains none of {', '.join(FILES)}")
    files = {name: (path / name).read_bytes() for name in names}
    try:
        return Report(inspection.of_state(secret.of_files(files), ours=False))
    except BadSecret as error:
        chain = tls.chain(files.get(CERT, b""))
        return Report(() if isinstance(chain, str) else inspection.of_chain(chain), mistakes=error.mistakes)


def _print_text(report: Report, now: datetime) -> None:
    for number, entry in enumerate(report.certificates):
        click.echo("\n" if number else "", nl=False)
        for name, value in entry.lines(now=now):
            click.echo(f"{click.style(f'{name:<12}', dim=True)} {value}")
    for kind, problem in (report.trust or {}).items():
        click.echo(f"{kind}: {problem or 'trusts the certificate'}")
    for mistake in report.wrong(now=now):
        click.echo(f"{click.style('error', fg='red', bold=True)}: {mistake}", err=True)
