"""The objects of deploy/, with webhooks that are called at a port of this machine instead of a Service."""

from collections.abc import Callable
from pathlib import Path

import yaml

from tools.clusters.api_requests import Json

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = DEPLOY / "manifests"
NAMESPACE = "numalign-system"
NAME = "numalign-webhook"
CONTROLLER = "numalign-controller"
SECRET = "numalign-webhook-tls"  # noqa: S105  the name of a secret is not secret
CONFIGURATION = "zz-numalign"
ACCOUNT, CONTROLLERS = (f"system:serviceaccount:{NAMESPACE}:{name}" for name in (NAME, CONTROLLER))
ACCOUNTS = {NAME: ACCOUNT, CONTROLLER: CONTROLLERS}
"""The user name of each program at the API server."""
GROUPS = f"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}"
LABEL = "numalign.io/class"
PATIENT_SECONDS = 20
"""The timeout of webhooks where a slow review is not a lost one. The chart's are 2 and 3 s."""

_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass")


def documents(file: Path) -> list[Json]:
    return loaded(file.read_text())


def loaded(text: str) -> list[Json]:
    """Return all objects in a text; definitions have megabytes, which libyaml reads ten times as fast."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def documents_below(folder: Path) -> list[Json]:
    return [document for file in sorted(folder.rglob("*.yaml")) for document in documents(file)]


def objects() -> list[Json]:
    folders = (MANIFESTS, MANIFESTS / "guard")
    files = sorted(file for folder in folders for file in folder.glob("*.yaml"))
    files = [file for file in files if file.name != "kustomization.yaml"]
    found = [document for file in files for document in documents(file)]
    return sorted(found, key=lambda document: document["kind"] not in _FIRST)


def arguments(name: str) -> dict[str, str]:
    [deployment] = [
        each for each in objects() if (each["kind"], each["metadata"]["name"]) == ("Deployment", name)
    ]
    return arguments_of(deployment)


def arguments_of(deployment: Json) -> dict[str, str]:
    """Return the value of each flag in a Deployment, by name."""
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])


def webhooks() -> list[Json]:
    return [document for document in objects() if "webhooks" in document]


def by_address(document: Json, port: int) -> Json:
    """Return an object with its webhooks, if any, called at a port of this machine."""
    return _changed(document, lambda entry: {"clientConfig": at(entry, port)})


def patient(document: Json) -> Json:
    """Return an object with its webhooks, if any, called with a long timeout, as while programs start."""
    return _changed(document, lambda _: {"timeoutSeconds": PATIENT_SECONDS})


def _changed(document: Json, change: Callable[[Json], Json]) -> Json:
    """Return an object with these fields of each of its webhooks, if any, replaced."""
    if "webhooks" not in document:
        return document
    return document | {"webhooks": [entry | change(entry) for entry in document["webhooks"]]}


def at(entry: Json, port: int) -> Json:
    return {"url": f"https://127.0.0.1:{port}{entry['clientConfig']['service']['path']}"}
