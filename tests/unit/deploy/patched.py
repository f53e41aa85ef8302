"""The control plane's own kube-scheduler as kubeadm has it run, with the patch that is shipped for it.

Here the patch is applied as RFC 6902 says, as far as it goes.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tools.generate.manifests import DEPLOY, Object

KUBEADM = DEPLOY / "schedulers" / "kubeadm"
PATCH = KUBEADM / "patches" / "kube-scheduler+json.yaml"
CONFIGURATIONS = ("bind", "rank")
"""Either can be what the patched scheduler reads."""

_PLAIN = Path(__file__).parent / "kubeadm" / "kube-scheduler.yaml"


def static_pod() -> Object:
    """The static pod with the patch."""
    pod: Object = yaml.safe_load(_PLAIN.read_text())
    _add(pod, yaml.safe_load(PATCH.read_text()))
    return pod


def configuration(name: str) -> str:
    """The text of one of `CONFIGURATIONS`."""
    return (KUBEADM / f"{name}.yaml").read_text()


def _add(document: Object, operations: Iterable[Object]) -> None:
    """Every operation appends to a list that is there; anything else is an error."""
    for operation in operations:
        *path, last = operation["path"].lstrip("/").split("/")
        assert (operation["op"], last) == ("add", "-")
        _at(document, path).append(operation["value"])


def _at(document: Any, path: Iterable[str]) -> Any:  # noqa: ANN401 whatever stands there
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document
