"""Operators of other projects next to a control plane: installed with what their modules ship, and run.

    place = await install(plane, programs / "example", ACCOUNT, documents)  # the plane knows ACCOUNT.users
    async with running(children, place, str(place.program), f"--kubeconfig={place.kubeconfig}"):
        ...

API servers call the webhooks of an operator at a port of this machine.
"""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane.planes import Plane, Users
from tools.clusters.processes import Child, Children, answers, free_port, until

_DEFINITION = "CustomResourceDefinition"

# The process is the Deployment; nothing calls Services or counts pods, and only the API server serves an API.
_NOT_HERE = {"Deployment", "CronJob", "Service", "APIService", "PodDisruptionBudget"}


@dataclass(frozen=True, slots=True)
class Account:
    """The service account of an operator."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """Its name at the API server."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def users(self) -> Users:
        """The users that the plane must know, besides an `admin`."""
        return {self.user: f"system:serviceaccounts,system:serviceaccounts:{self.namespace}"}


@dataclass(frozen=True, slots=True)
class Place:
    """What a program is told of its surroundings.

    `folder` is for its files, `certificates` has the files of a TLS secret. It serves its webhooks and probes
    at ports of this machine.
    """

    program: Path
    folder: Path
    kubeconfig: Path
    certificates: Path
    webhooks: int
    probes: int

    def manager(self, settings: Json) -> Path:
        """Write the configuration of a controller manager, and return the path."""
        told = {
            **settings,
            "leaderElection": {"leaderElect": False},
            "webhook": {**settings.get("webhook", {}), "host": "127.0.0.1", "port": self.webhooks},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.probes}"},
        }
        file = self.folder / "config.yaml"
        file.write_text(json.dumps(told))
        return file


@dataclass(frozen=True, slots=True)
class Running:
    """A running operator. `log` is its output."""

    child: Child
    log: Path


async def install(plane: Plane, program: Path, account: Account, documents: Iterable[Json]) -> Place:
    """Create what a cluster needs for an operator; definitions are served before the rest is created."""
    folder = plane.folder / program.name
    folder.mkdir(exist_ok=True)
    place = Place(
        program,
        folder,
        kubeconfig=plane.kubeconfig(account.user, folder),
        certificates=plane.ca.parent,
        webhooks=free_port(),
        probes=free_port(),
    )
    here = [
        called(bound(document, account.namespace), place.webhooks, plane.ca)
        for document in documents
        if document["kind"] not in _NOT_HERE
    ]
    definitions = [each for each in here if each["kind"] == _DEFINITION]
    async with plane.client("admin") as api:
        store = Store(api)
        for document in (namespace(account.namespace, {}), *definitions):
            await store.apply(document)
        await _until_served(store, plane, definitions)
        for document in here:
            if document["kind"] != _DEFINITION:
                await store.apply(document)
    return place


@asynccontextmanager
async def running(children: Children, place: Place, *command: str) -> AsyncIterator[Running]:
    """Run an operator during the block, which begins when its probe says that it is ready."""
    name = place.program.name
    child = await children.start(*command, name=name)
    try:
        ready = partial(answers, f"http://127.0.0.1:{place.probes}/readyz")
        await until(ready, what=f"{name} was ready", child=child)
        yield Running(child, children.logs / name)
    finally:
        await child.end()


async def _until_served(store: Store, plane: Plane, definitions: Iterable[Json]) -> None:
    """Return when all kinds of these CustomResourceDefinitions can be listed and discovered.

    Operators end if they do not find a kind.
    """
    for definition in definitions:
        served = partial(_served, store, definition["spec"])
        await until(served, what=f"{definition['metadata']['name']} were served", child=plane.child)


async def _served(store: Store, spec: Json) -> bool:
    """Return whether all versions can be listed and discovered, which do not start at the same time."""
    plural, served = spec["names"]["plural"], [each["name"] for each in spec["versions"] if each["served"]]
    for group in (f"/apis/{spec['group']}/{version}" for version in served):
        resources = (await ask(store.api, "GET", group)).body.get("resources", [])
        if plural not in {resource["name"] for resource in resources}:
            return False
        if (await ask(store.api, "GET", f"{group}/{plural}")).code != HTTPStatus.OK:
            return False
    return True


def bound(document: Json, namespace: str) -> Json:
    """Return an object whose subjects, if any, have this namespace by default, as a kustomization adds it."""
    if "subjects" not in document:
        return document
    return document | {
        "subjects": [
            {"namespace": namespace, **each} if each["kind"] == "ServiceAccount" else each
            for each in document["subjects"]
        ]
    }


def called(document: Json, port: int, ca: Path) -> Json:
    """Return an object whose webhooks, for admission or conversion, are called at a port of this machine."""
    trusted = {"caBundle": b64encode(ca.read_bytes()).decode()}
    if "webhooks" in document:
        moved = shipped.by_address(document, port)["webhooks"]
        return document | {
            "webhooks": [{**each, "clientConfig": each["clientConfig"] | trusted} for each in moved]
        }
    conversion = document.get("spec", {}).get("conversion", {})
    if "webhook" not in conversion:
        return document
    webhook = conversion["webhook"]
    moved = {**webhook, "clientConfig": shipped.at(webhook, port) | trusted}
    return document | {"spec": document["spec"] | {"conversion": conversion | {"webhook": moved}}}
