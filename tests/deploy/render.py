"""Writes the plain manifests, because two descriptions of one installation would drift apart.

`python -m tests.deploy.render` writes deploy/manifests anew: what helm makes of deploy/chart with the values
that stand there, without what only helm needs, and with the namespace that helm would make itself. What the
values leave out, the scorer and a scheduler that asks it, comes into a folder of its own each, and so does
what older clusters do not know.
"""

import asyncio
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.gotools import UnavailableError
from tests.deploy.tools import build

Object = dict[str, Any]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "chart"
MANIFESTS = DEPLOY / "manifests"
NAMESPACE = "numalign-system"
COMMAND = "python -m tests.deploy.render"

PARTS = ("scorer", "scheduler")
"""What is installed only where it is wanted: a value that enables it, and a folder."""

GUARD, SCORER_GUARD = GUARDS = ("guard", "scorer/guard")
"""What is installed everywhere but on clusters that are too old for it, and so in folders of their own."""

EVERY_PART = ",".join(f"{part}.enabled=true" for part in PARTS)
"""For `--set`."""

_KUSTOMIZATION = "kustomization.yaml"
_MADE = f"# Made from deploy/chart by `{COMMAND}`.\n"
_ONLY_HELM = re.compile(
    r"^(# Source: .*| +(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*)\n", re.MULTILINE
)

_NAMESPACE_TEXT = f"""\
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    # What runs here needs no privilege, and nothing that does may be put here.
    pod-security.kubernetes.io/enforce: restricted
"""

_KUSTOMIZATION_TEXT = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
{resources}
"""

_IMAGES_TEXT = """\
images:
  # newName is where {where}.
  - name: {image}
    newName: {image}
    newTag: "{version}"
"""

# Of all programs but one, the image is the same.
_OURS = "you pushed what deploy/Dockerfile makes"
_WHERE = {"scheduler": "you keep a copy, and newTag a version that fits your cluster"}


class HelmError(Exception):
    """Helm refused; the text is what it said."""


async def run(program: Path, *arguments: str | Path) -> str:
    """What helm prints."""
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complaint = await process.communicate()
    if process.returncode:
        raise HelmError(complaint.decode())
    return said.decode()


async def template(program: Path, *arguments: str | Path) -> str:
    """What the chart comes to, with further arguments of `helm template`."""
    return await run(program, "template", "numalign", CHART, f"--namespace={NAMESPACE}", *arguments)


async def manifests(program: Path) -> dict[str, str]:
    """The plain manifests: name of the file below its folder, and its text."""
    with tempfile.TemporaryDirectory() as folder:
        await template(program, f"--output-dir={folder}", f"--set={EVERY_PART}")
        files = {"namespace.yaml": _NAMESPACE_TEXT, **_rendered(Path(folder))}
    return {name: _MADE + text for name, text in (files | _kustomizations(files)).items()}


def _rendered(folder: Path) -> dict[str, str]:
    [templates] = folder.glob("*/templates")
    return {
        str(file.relative_to(templates)): _plain(file.read_text())
        for file in sorted(templates.rglob("*.yaml"))
    }


def _kustomizations(files: Mapping[str, str]) -> dict[str, str]:
    """Of every folder one, with all that stands there."""
    folders = defaultdict[str, list[str]](list)
    for name in files:
        folder, _, file = name.rpartition("/")
        folders[folder].append(file)
    return {
        str(Path(folder, _KUSTOMIZATION)): _kustomization(listed)
        + _images(files.get(str(Path(folder, "deployment.yaml"))), where=_WHERE.get(folder, _OURS))
        for folder, listed in folders.items()
    }


def _kustomization(files: list[str]) -> str:
    return _KUSTOMIZATION_TEXT.format(resources="\n".join(f"  - {file}" for file in files))


def _images(deployment: str | None, *, where: str) -> str:
    """Where the image of a folder's pods is to be had; nothing for a folder without any."""
    if deployment is None:
        return ""
    name, _, version = image_of(deployment).partition(":")
    return _IMAGES_TEXT.format(where=where, image=name, version=version)


def _plain(text: str) -> str:
    """A rendered template without what helm needs to know its own."""
    return _ONLY_HELM.sub("", text).removeprefix("---\n")


def image_of(deployment: str) -> str:
    """The image that the text of a Deployment names."""
    [container] = yaml.safe_load(deployment)["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml, where it is
    """Takes for a number what Kubernetes does (sigs.k8s.io/yaml), 1e3 among it."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parsed(text: str) -> list[Object]:
    """The objects of a text in YAML, empty documents left out."""
    return [each for each in yaml.load_all(text, Loader=_Loader) if each]


def objects(folder: Path = MANIFESTS) -> list[Object]:
    """All objects of a folder of plain manifests, namespaces first; what `kubectl apply -k` would send."""
    files = sorted(file for file in folder.glob("*.yaml") if file.name != _KUSTOMIZATION)
    found = [each for file in files for each in parsed(file.read_text())]
    return sorted(found, key=lambda each: each["kind"] != "Namespace")


def everything() -> list[Object]:
    """The objects of all folders."""
    folders = (MANIFESTS, *map(MANIFESTS.joinpath, (*GUARDS, *PARTS)))
    return [each for folder in folders for each in objects(folder)]


def identities(found: list[Object]) -> Mapping[tuple[str, str], Object]:
    """Objects by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def written(folder: Path = MANIFESTS) -> dict[str, str]:
    """The texts that are there now, as `manifests` names them."""
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.yaml")}


def write(wanted: Mapping[str, str], folder: Path) -> None:
    """Brings a folder up to date; what the chart no longer makes is deleted."""
    for name in written(folder).keys() - wanted.keys():
        (folder / name).unlink()
    for name, text in wanted.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


async def made_now() -> dict[str, str]:
    """The plain manifests, with helm from wherever it can be had."""
    [program] = await build.find()
    return await manifests(program)


if __name__ == "__main__":
    try:
        write(asyncio.run(made_now()), MANIFESTS)
    except UnavailableError as error:
        sys.exit(str(error))
