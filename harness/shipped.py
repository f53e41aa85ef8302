"""What we ship for a cluster, read from deploy/ and brought to where no Service leads: this machine."""

from pathlib import Path

import yaml

from harness.api_requests import Json

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
MANIFESTS = DEPLOY / "manifests"
NAMESPACE = "numalign-system"
NAME = "numalign-webhook"
CONTROLLER = "numalign-controller"
SECRET = "numalign-webhook-tls"  # noqa: S105  the name of a secret is none
CONFIGURATION = "zz-numalign"
ACCOUNT, CONTROLLERS = (f"system:serviceaccount:{NAMESPACE}:{name}" for name in (NAME, CONTROLLER))
ACCOUNTS = {NAME: ACCOUNT, CONTROLLER: CONTROLLERS}
"""Who the API server takes each program for."""
GROUPS = f"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}"
LABEL = "numalign.io/class"

_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass")


def documents(file: Path) -> list[Json]:
    """Every object of a file."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def objects() -> list[Json]:
    """All that one installs, in an order in which it can be."""
    folders = (MANIFESTS, MANIFESTS / "guard")
    files = sorted(file for folder in folders for file in folder.glob("*.yaml"))
    files = [file for file in files if file.name != "kustomization.yaml"]
    found = [document for file in files for document in documents(file)]
    return sorted(found, key=lambda document: document["kind"] not in _FIRST)


def arguments(name: str = NAME) -> dict[str, str]:
    """What its Deployment tells a program."""
    [deployment] = [
        document
        for document in objects()
        if (document["kind"], document["metadata"]["name"]) == ("Deployment", name)
    ]
    return arguments_of(deployment)


def arguments_of(deployment: Json) -> dict[str, str]:
    """The same of a Deployment that is at hand: the value of each flag."""
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])


def webhooks() -> list[Json]:
    """The webhook configurations alone."""
    return [document for document in objects() if "webhooks" in document]


def by_address(document: Json, port: int) -> Json:
    """The same webhooks, called at a port of this machine."""
    if "webhooks" not in document:
        return document
    webhooks = [entry | {"clientConfig": _at(entry, port)} for entry in document["webhooks"]]
    return document | {"webhooks": webhooks}


def _at(entry: Json, port: int) -> Json:
    return {"url": f"https://127.0.0.1:{port}{entry['clientConfig']['service']['path']}"}
