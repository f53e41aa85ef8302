"""Writes the plain manifests, because two descriptions of one installation would drift apart.

`python -m tools.generate manifests` writes deploy/manifests anew: what helm makes of deploy/chart with the
values that stand there, without what only helm needs, and with the namespace that helm would make itself.
What the values leave out (the scorer, a scheduler that asks it, the agent) comes into a folder of its own
each, and so does what older clusters do not know.
"""

import asyncio
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import yaml

from numalign.runtime import settings
from numalign.runtime.settings import ProcessSettings
from tools.clusters import builds

S = TypeVar("S", bound=ProcessSettings)

Object = dict[str, Any]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "chart"
MANIFESTS = DEPLOY / "manifests"
NAMESPACE = "numalign-system"
AGENT_NAMESPACE = "numalign-agent"
TOPOLOGIES = "topology.node.k8s.io/v1alpha2"
KUBERNETES = "v1.34.4"
"""The cluster that is assumed by default; the plain manifests have its scheduler."""
COMMAND = "python -m tools.generate manifests"

PARTS = ("scorer", "scheduler", "agent")
"""What is installed only where it is wanted: a value that enables it, and a folder."""

GUARD, SCORER_GUARD, AGENT_GUARD = GUARDS = ("guard", "scorer/guard", "agent/guard")
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
_OURS = "you pushed what deploy/Dockerfile makes"
_WHERE = {
    "scheduler": "you keep a copy, and newTag a version that fits your cluster",
    "agent": f"{_OURS} with `--target agent`",
}
"""Where the image of a part is; of all other programs it is the same."""


class HelmError(Exception):
    """Helm refused; the text is its output."""


async def run(program: Path | str, *arguments: str | Path, cwd: Path | None = None) -> str:
    """What a program prints; raises `HelmError` with its complaint where it fails."""
    process = await asyncio.create_subprocess_exec(
        program, *arguments, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, complaint = await process.communicate()
    if process.returncode:
        raise HelmError(complaint.decode())
    return output.decode()


async def template(program: Path, *arguments: str | Path) -> str:
    """What the chart comes to on a cluster of `KUBERNETES`, with further arguments of `helm template`."""
    # Of two the last one holds.
    flags = (f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES}")
    return await run(program, "template", "numalign", CHART, *flags, *arguments)


async def manifests(program: Path) -> dict[str, str]:
    """The plain manifests: name of the file below its folder, and its text."""
    with tempfile.TemporaryDirectory() as folder:
        # The definition of topologies is apart: `kubectl delete -k` would take every topology along.
        await template(
            program, f"--output-dir={folder}", f"--set={EVERY_PART}", f"--api-versions={TOPOLOGIES}"
        )
        texts = {"namespace.yaml": _NAMESPACE_TEXT, **_rendered(Path(folder))}
    folders = defaultdict[str, list[str]](list)
    for name in texts:
        folders[name.rpartition("/")[0]].append(name.rpartition("/")[2])
    texts |= {
        str(Path(where, _KUSTOMIZATION)): _kustomization(where, names, texts)
        for where, names in folders.items()
    }
    return {name: _MADE + text for name, text in texts.items()}


def _rendered(folder: Path) -> dict[str, str]:
    [templates] = folder.glob("*/templates")
    return {
        str(file.relative_to(templates)): _ONLY_HELM.sub("", file.read_text()).removeprefix("---\n")
        for file in sorted(templates.rglob("*.yaml"))
        # Only helm runs its tests.
        if file.parent.name != "tests"
    }


def _kustomization(folder: str, names: list[str], texts: Mapping[str, str]) -> str:
    """All of a folder, and where the image of its pods is to be had."""
    listed = "".join(f"  - {name}\n" for name in names)
    text = f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{listed}"
    for kind in {"deployment.yaml", "daemonset.yaml"} & {*names}:
        [container] = yaml.safe_load(texts[str(Path(folder, kind))])["spec"]["template"]["spec"]["containers"]
        image, _, version = container["image"].partition(":")
        where = f"  # newName is where {_WHERE.get(folder, _OURS)}.\n"
        text += f'images:\n{where}  - name: {image}\n    newName: {image}\n    newTag: "{version}"\n'
    return text


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml, where it is
    """Takes for a number what Kubernetes does (sigs.k8s.io/yaml), 1e3 among it."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parsed(text: str) -> list[Object]:
    return [document for document in yaml.load_all(text, Loader=_Loader) if document]


def objects(folder: Path = MANIFESTS) -> list[Object]:
    """All objects of a folder of plain manifests, namespaces first; what `kubectl apply -k` would send."""
    files = sorted(file for file in folder.glob("*.yaml") if file.name != _KUSTOMIZATION)
    documents = [document for file in files for document in parsed(file.read_text())]
    return sorted(documents, key=lambda document: document["kind"] != "Namespace")


def of_test(document: Object) -> bool:
    """Whether helm makes it for the time of `helm test` alone."""
    annotations: Mapping[str, str] = document["metadata"].get("annotations", {})
    return annotations.get("helm.sh/hook") == "test"


class Installation(dict[tuple[str, str], Object]):
    """Objects by kind and name, and the parts of them that tests read."""

    def __init__(self, documents: Iterable[Object]) -> None:
        super().__init__({(each["kind"], each["metadata"]["name"]): each for each in documents})

    @property
    def entries(self) -> list[Object]:
        return [entry for document in self.values() for entry in document.get("webhooks", ())]

    def of_kind(self, *kinds: str) -> dict[str, Object]:
        return {name: document for (kind, name), document in self.items() if kind in kinds}

    @property
    def of_pods(self) -> dict[str, Object]:
        return self.of_kind("Deployment", "DaemonSet")

    def pod(self, name: str) -> Any:  # noqa: ANN401  JSON
        return self.of_pods[name]["spec"]["template"]["spec"]

    def container(self, name: str) -> Any:  # noqa: ANN401  JSON
        """The only container of these pods."""
        [container] = self.pod(name)["containers"]
        return container

    def settings(self, name: str, model: type[S]) -> S:
        return settings.load(model, argv=self.container(name)["args"], environ={}).settings

    def scheduler_configuration(self) -> Any:  # noqa: ANN401  JSON
        return yaml.safe_load(self["ConfigMap", "numalign-scheduler"]["data"]["scheduler.yaml"])


def installed(*folders: str) -> Installation:
    """The objects in folders of the plain manifests; `.` is the first."""
    return Installation(document for folder in folders for document in objects(MANIFESTS / folder))


_RENDERED: dict[str, Installation] = {}


async def made(helm: Path, values: str = "", *arguments: str) -> Installation:
    """What the chart comes to with these values of `--set`; rendered once for all tests, none changes it."""
    key = " ".join((values, *arguments))
    if key not in _RENDERED:
        flags = (("--set-literal" if "expression" in value else "--set", value) for value in values.split())
        _RENDERED[key] = Installation(parsed(await template(helm, *arguments, *chain.from_iterable(flags))))
    return _RENDERED[key]


def everything() -> list[Object]:
    return [document for folder in (".", *GUARDS, *PARTS) for document in objects(MANIFESTS / folder)]


def files() -> dict[Path, str]:
    """Return the plain manifests by their paths, rendered with helm from wherever it is found."""
    program = asyncio.run(builds.helm())
    return {MANIFESTS / name: text for name, text in asyncio.run(manifests(program)).items()}
