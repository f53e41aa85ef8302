"""A chart of another project is rendered by helm, and what helm complains about is told."""

from pathlib import Path

import pytest

from tools.clusters.gotools import BrokenError
from tools.clusters.helm import charts


def helm(folder: Path, script: str) -> Path:
    """A program in the place of helm."""
    program = folder / "helm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_chart_includes_its_definitions(tmp_path: Path) -> None:
    program = helm(tmp_path, 'echo "asked: $*"; echo ---; echo "kind: Role"; echo ---')

    documents = charts.rendered(program, Path("charts/operator"), namespace="system")

    asked = "template operator charts/operator --namespace=system --include-crds"
    assert documents == [{"asked": asked}, {"kind": "Role"}]


def test_error_of_helm_is_passed_on(tmp_path: Path) -> None:
    program = helm(tmp_path, 'echo "Error: no such chart" >&2; exit 1')

    with pytest.raises(BrokenError, match="helm does not render missing: Error: no such chart"):
        charts.rendered(program, Path("missing"), namespace="system")
