"""`kubectl numa versions`: what kubelets of each version do differently."""

from operator import attrgetter

from kubectl_numa import options
from kubectl_numa.kubelet_versions import ROWS
from kubectl_numa.lines import TextWriter
from kubectl_numa.listings import ListedRow, Listing, Output


@options.command(
    "kubectl numa versions",
    "kubectl numa versions -o wide",
    "kubectl numa versions -o json | jq -c '.[0].case[]' | kubectl numa replay",
)
@options.listing_option
def versions(*, output: Output) -> None:
    """List what kubelets of each version do differently.

    Each change comes with its pull request and a smallest case that shows it: what the version before does,
    and what its first version does. In JSON and YAML, the case is the input of `kubectl numa replay`. A
    version that is not released yet is marked as a pre-release. The command reads no cluster.
    """
    cells = attrgetter("since", "change", "effect", "url", "before", "after", "what")
    listing = Listing(
        columns=("since", "change", "effect", "upstream"),
        wide_columns=("before", "after", "what"),
        rows=(ListedRow(f"change/{row.change}", cells(row)) for row in ROWS),
        documents=lambda: [row.to_json() for row in ROWS],
        text=_draw,
    )
    options.print_listing(listing, output)


def _draw(writer: TextWriter) -> None:
    for row in ROWS:
        writer.write(
            f"{row.since}  {row.change}  ({row.effect})",
            f"  {row.what}",
            f"  before: {row.before}",
            f"  after:  {row.after}",
            f"  {row.url}",
            "",
        )
