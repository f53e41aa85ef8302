"""The chart for `helm install`, and the manifests for `kubectl apply -f`."""

import asyncio
import re
import shutil
from pathlib import Path

import yaml

from tools.clusters.helm import build
from tools.release.order import Order, run

_FIRST = ("Namespace", "CustomResourceDefinition", "ResourceQuota", "PriorityClass", "ServiceAccount")
"""Kinds that other objects depend on, in the order in which they are created."""


def helm() -> Path:
    on_path = shutil.which("helm")
    return Path(on_path) if on_path else asyncio.run(build.find())[0]


def make_chart(order: Order) -> None:
    run(helm(), "package", order.tree / "deploy" / "chart", "--destination", order.into)


def make_manifests(order: Order) -> None:
    """Write one file for each kustomization of deploy/manifests."""
    root = order.tree / "deploy" / "manifests"
    for file in sorted(root.rglob("kustomization.yaml")):
        texts = [(file.parent / name).read_text() for name in yaml.safe_load(file.read_text())["resources"]]
        parts = [part for text in texts for part in re.split(r"^---\s*\n", text, flags=re.MULTILINE)]
        name = "-".join(("numalign", *file.parent.relative_to(root).parts))
        objects = sorted(filter(yaml.safe_load, parts), key=_rank)
        (order.into / f"{name}.yaml").write_text("---\n".join(objects))


def _rank(document: str) -> int:
    kind = yaml.safe_load(document)["kind"]
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
