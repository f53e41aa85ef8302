"""What the charts of other projects render to."""

import subprocess
from pathlib import Path

from tools.clusters import shipped
from tools.clusters.api_requests import Json
from tools.clusters.gotools import BrokenError


def rendered(helm: Path, chart: Path, *, namespace: str) -> list[Json]:
    """Return all objects of a chart, definitions included, for a release with the name of the chart's folder.

    Raise `BrokenError` with helm's complaint if it refuses.
    """
    asked = (str(helm), "template", chart.name, str(chart), f"--namespace={namespace}", "--include-crds")
    said = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603  a chart, and no shell
    if said.returncode:
        raise BrokenError(f"helm does not render {chart}: {said.stderr.strip()}")
    return shipped.loaded(said.stdout)
