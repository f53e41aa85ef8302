"""Operators of other projects: built from their Go modules, and installed with what these modules ship.

The cache outside the tree has a folder for each release: the program, and the files that a cluster needs for
it. API servers call the webhooks of an operator at a port of this machine.
"""

import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from harness import shipped
from harness.api_objects import Store
from harness.api_requests import Json, ask
from harness.controlplane.planes import Plane
from harness.gotools import BrokenError, Workshop
from harness.processes import until


@dataclass(frozen=True, slots=True)
class Operator:
    """A program that Go builds from the `package` of a `module`.

    `files` has the path in the module of each file or folder next to the program, by its name there.
    """

    shop: Workshop
    module: str
    package: str
    files: Mapping[str, str]

    @property
    def release(self) -> str:
        """The version of the module."""
        return self.shop.required(self.module)

    async def find(self) -> list[Path]:
        """Return the folder with the program and the files, built first if necessary.

        Raise `UnavailableError` without Go, and `BrokenError` if the build fails.
        """
        cache = self.shop.cache(self.release)
        if not cache.exists():
            await self._build(cache)
        return [cache]

    async def _build(self, cache: Path) -> None:
        """Build the program and its files into the cache; of two parallel builds, the later is discarded."""
        name = self.shop.name
        go = self.shop.compiler(otherwise=f"no {name} {self.release}: install Go to build it; not at {cache}")
        self.shop.say(f"building {name} {self.release}: minutes, unless its packages were built before")
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as unfinished:
            ready = Path(unfinished) / "ready"
            await self.shop.compile(go, self.package, into=ready / name)
            self._copy(self.source(go), ready)
            _settle(ready, cache)

    def source(self, go: str) -> Path:
        """Return the folder of the module's source. Raise `BrokenError` if Go does not report it."""
        asked = (go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", self.module)
        listed = subprocess.run(  # noqa: S603  a fixed command
            asked,
            cwd=self.shop.folder,
            env=self.shop.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode or not listed.stdout.strip():
            raise BrokenError(f"go does not say where {self.module} is: {listed.stderr.strip()}")
        return Path(listed.stdout.strip())

    def _copy(self, module: Path, folder: Path) -> None:
        # Files and folders in Go's cache are read-only, so their modes are not copied.
        for name, shipped_at in self.files.items():
            source = module / shipped_at
            for file in [source] if source.is_file() else filter(Path.is_file, source.rglob("*")):
                copy = folder / name / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


def _settle(ready: Path, cache: Path) -> None:
    if not cache.exists():
        ready.rename(cache)


async def until_served(store: Store, plane: Plane, definitions: Iterable[Json]) -> None:
    """Return when all kinds of these CustomResourceDefinitions can be listed and discovered.

    Other objects among them are ignored. Operators end if they do not find a kind.
    """
    for definition in definitions:
        if definition["kind"] == "CustomResourceDefinition":
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
