"""The objects of deploy/, with webhooks that are called at a port of this machine instead of a Service.

`python -m tools.clusters.shipped PORT` changes the webhooks of a rendered chart like this.
"""

import sys
from collections.abc import Collection, Sequence
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
PATIENT: Json = {"timeoutSeconds": 20}
"""For webhooks where a slow review is not a lost one. The chart's timeouts are 2 and 3 s."""

_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass")


def documents(file: Path) -> list[Json]:
    return loaded(file.read_text())


def loaded(text: str) -> list[Json]:
    """Return all objects in a text; definitions have megabytes, which libyaml reads ten times as fast."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def documents_below(folder: Path) -> list[Json]:
    return [document for file in sorted(folder.rglob("*.yaml")) for document in documents(file)]


def objects(folders: Sequence[str] = (".", "guard"), *, without: Collection[str] = ()) -> list[Json]:
    """Return the objects in folders of the manifests, but those of some kinds; what others need is first."""
    files = (file for folder in folders for file in sorted((MANIFESTS / folder).glob("*.yaml")))
    found = [each for file in files if file.name != "kustomization.yaml" for each in documents(file)]
    kept = [each for each in found if each["kind"] not in without]
    return sorted(kept, key=lambda document: document["kind"] not in _FIRST)


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


def by_address(document: Json, port: int, **more: object) -> Json:
    """Return an object with its webhooks, if any, called at a port of this machine, and with more fields."""
    if "webhooks" not in document:
        return document
    changed = [{**entry, "clientConfig": at(entry, port), **more} for entry in document["webhooks"]]
    return document | {"webhooks": changed}


def at(entry: Json, port: int) -> Json:
    return {"url": f"https://127.0.0.1:{port}{entry['clientConfig']['service']['path']}"}


def post_renderer(port: int) -> tuple[str, ...]:
    """Return the flags with which helm 3 changes webhooks by this module; helm 4 accepts only plugins there.

    Run helm where `tools` can be imported.
    """
    arguments = ("-m", "tools.clusters.shipped", str(port))
    flags = (f"--post-renderer-args={argument}" for argument in arguments)
    return (f"--post-renderer={sys.executable}", *flags)


if __name__ == "__main__":
    changed = (
        # A call may have to wait while programs start.
        by_address(document, int(sys.argv[1]), **PATIENT)
        for document in loaded(sys.stdin.read())
    )
    yaml.safe_dump_all(changed, sys.stdout)
