"""`kubectl numa version`: which versions run, here and in the cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kubectl_numa import options
from kubectl_numa.lines import counted, notify
from kubectl_numa.listings import Output
from numalign.kube.command_line import Trouble, from_kubeconfig
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError
from numalign.runtime import about

if TYPE_CHECKING:
    from numalign.kube.installed_versions import InstalledProgram, InstalledVersions

_INDENT = 12


@options.command(
    "kubectl numa version",
    "kubectl numa version --client",
    "kubectl numa version -o json | jq '.programs[] | {program, version}'",
)
@click.option("--client", "only_client", is_flag=True, help="Print only the version of this program.")
@from_kubeconfig
@options.document_option
def version(*, only_client: bool, connection: Connection, output: Output) -> None:
    """Print the versions of the programs in the cluster, of Kubernetes, and of this program.

    The version of a program is read from the label or the image of its pods. All programs should have the
    same version; a warning lists those that differ.

    Exit code 0: the versions were printed, even if they differ. 2: the cluster could not be reached.
    """
    client = about.version()
    if only_client:
        _print(client, None, output)
        return
    # Imported here, so that --client does not wait for the API server's client.
    from kubectl_numa.running_cluster import RunningCluster  # noqa: PLC0415  imported only if needed

    try:
        installed = RunningCluster(connection).versions()
    except ClusterError as error:
        _print(client, None, output)
        raise Trouble(str(error)) from error
    _print(client, installed, output)
    for words in skew(client, installed.programs):
        notify(f"warning: {words}")


def _print(client: str, installed: "InstalledVersions | None", output: Output) -> None:
    if output is not Output.TEXT:
        options.print_document(to_json(client, installed), output)
        return
    writer = options.text_writer()
    writer.entry("client ", client, indent=_INDENT)
    if installed is None:
        return
    writer.entry("kubernetes ", installed.kubernetes, indent=_INDENT)
    for each in installed.programs or ():
        ready = f"{each.ready:,} ready" if each.ready < each.pods else "all ready"
        words = f"{each.version or 'unknown'}  {counted(each.pods, 'pod')} in {each.namespace}, {ready}"
        writer.entry(f"{each.program} ", words, indent=_INDENT, style="" if each.version else "yellow")
    if installed.programs == ():
        writer.entry("", "numalign does not run in this cluster", indent=0)


def to_json(client: str, installed: "InstalledVersions | None") -> dict[str, Any]:
    """Return the versions for programs; null for what was not requested or is unknown."""
    return {
        "client": client,
        "kubernetes": installed and installed.kubernetes,
        "programs": installed and installed.programs and [asdict(each) for each in installed.programs],
        "skew": [*skew(client, (installed and installed.programs) or ())],
    }


def skew(client: str, programs: Sequence["InstalledProgram"] | None) -> Iterator[str]:
    """Yield a warning if numalign's programs have different versions."""
    ours = [each for each in programs or () if each.ours]
    listed = ", ".join(dict.fromkeys(f"{each.program} {each.version or 'unknown'}" for each in ours))
    if len({each.version for each in ours if each.version}) > 1:
        yield f"versions differ in the cluster ({listed}): run the same version of all programs"
    elif any(each.version not in {client, None} for each in ours):
        yield f"this program has version {client}, but the cluster runs others ({listed})"
