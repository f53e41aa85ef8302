"""The plain manifests: one file for each kustomization of deploy/manifests, for `kubectl apply -f`."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.release.commit import Commit

_FIRST = ("Namespace", "CustomResourceDefinition", "ResourceQuota", "PriorityClass", "ServiceAccount")
"""Kinds that other objects depend on, in the order in which they are created."""


def make(commit: Commit, into: Path) -> list[Path]:
    """Write all manifests into a folder, and return their paths."""
    folder = commit.tree / "deploy" / "manifests"
    return [_write(file, folder, into) for file in sorted(folder.rglob("kustomization.yaml"))]


def _write(kustomization: Path, root: Path, into: Path) -> Path:
    parts = kustomization.parent.relative_to(root).parts
    bundle = into / f"{'-'.join(('numalign', *parts))}.yaml"
    bundle.write_text("---\n".join(sorted(_documents(kustomization), key=_rank)))
    return bundle


def _documents(kustomization: Path) -> Iterator[str]:
    """Yield the text of every object that a kustomization lists."""
    for name in yaml.safe_load(kustomization.read_text())["resources"]:
        text = (kustomization.parent / name).read_text()
        for document in re.split(r"^---\s*\n", text, flags=re.MULTILINE):
            if yaml.safe_load(document):
                yield document


def _rank(document: str) -> int:
    kind = yaml.safe_load(document)["kind"]
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
