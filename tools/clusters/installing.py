"""Operators of other projects next to a control plane: installed with what their modules ship, and run.

    async with kueue(children, plane, helm):  # the plane knows USERS, and an `admin`
        ...  # create ClusterQueues and LocalQueues, and Jobs with the label of a queue

API servers call the webhooks of an operator at a port of this machine. All functions raise `UnavailableError`
and `BrokenError` like `tools.clusters.ecosystem.Operator.find`.
"""

import json
import re
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane.planes import Plane, Users
from tools.clusters.ecosystem import DESCHEDULER, JOBSET, KARPENTER, KUBERAY, KUEUE, TRAINER, Operator
from tools.clusters.gotools import BrokenError
from tools.clusters.processes import Child, Children, answers, free_port, run, until

ACCOUNTS = {
    "jobset": ("jobset-system", "jobset-controller-manager"),
    "kueue": ("kueue-system", "kueue-controller-manager"),
    "karpenter": ("karpenter", "karpenter"),
    "kuberay": ("ray-system", "kuberay-operator"),
    "trainer": ("kubeflow-system", "kubeflow-trainer-controller-manager"),
    "descheduler": ("descheduler", "descheduler"),
}
"""The namespace and the service account of each operator."""

USERS: Users = {
    f"system:serviceaccount:{home}:{name}": f"system:serviceaccounts,system:serviceaccounts:{home}"
    for home, name in ACCOUNTS.values()
}
"""Users that the plane must know, besides an `admin`."""

NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "invented"}
"""What a NodePool refers to."""

_DEFINITION = "CustomResourceDefinition"

# The process is the Deployment; nothing calls Services or counts pods, and only the API server serves an API.
_NOT_HERE = {"Deployment", "CronJob", "Service", "APIService", "PodDisruptionBudget"}

# Kueue reads, without cert-manager's Secret, the certificate for metrics from a fixed path.
_MOUNTING = """
mount -t tmpfs -o size=1m none /etc && mkdir -p /etc/kueue/metrics || exit
ln -s "$1" /etc/kueue/metrics/certs || exit
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The surroundings of a program: its own folder, and one with the files of a TLS secret.

    It serves its webhooks and probes at ports of this machine.
    """

    program: str
    folder: Path
    kubeconfig: Path
    certificates: Path
    webhooks: int
    probes: int

    def manager(self, kind: Json, settings: Json) -> str:
        """Write the configuration of a controller manager, and return the flag that names it."""
        content = {
            **kind,
            **settings,
            "leaderElection": {"leaderElect": False},
            "webhook": {**settings.get("webhook", {}), "host": "127.0.0.1", "port": self.webhooks},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.probes}"},
        }
        file = self.folder / "config.yaml"
        file.write_text(json.dumps(content))
        return f"--config={file}"

    def running(self, children: Children, *command: str) -> AbstractAsyncContextManager[Child]:
        """Run the operator during the block, which begins when its probe says that it is ready."""
        ready = partial(answers, f"http://127.0.0.1:{self.probes}/readyz")
        return children.run(*command, name=self.folder.name, ready=ready)


@asynccontextmanager
async def jobsets(children: Children, plane: Plane) -> AsyncIterator[Child]:
    """Run the JobSet controller, with all its webhooks; real controllers create the pods of its Jobs."""
    [programs] = await JOBSET.find()
    [role] = shipped.documents(programs / "role.yaml")
    hooks = shipped.documents(programs / "webhooks.yaml")
    # Its kustomization adds this selector to the two webhooks for pods.
    selector = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
    for entry in (entry for document in hooks for entry in document["webhooks"]):
        if entry["name"].endswith("pod.kb.io"):
            entry["objectSelector"] = selector
    group, (home, account) = "rbac.authorization.k8s.io", ACCOUNTS["jobset"]
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "jobset"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
    }
    place = await install(plane, JOBSET, [*shipped.documents(programs / "crd.yaml"), *hooks, role, binding])
    config = place.manager(
        {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration"},
        {"internalCertManagement": {"enable": False}, "webhook": {"certDir": str(place.certificates)}},
    )
    async with place.running(
        children, place.program, config, f"--kubeconfig={place.kubeconfig}"
    ) as controller:
        yield controller


@asynccontextmanager
async def kueue(children: Children, plane: Plane, helm: Path) -> AsyncIterator[Child]:
    """Run Kueue, with the definitions, roles and webhooks of its chart; mount namespaces must be allowed.

    It holds pods and suspends jobs until they have quota, and changes their templates when it admits them.
    """
    await KUEUE.find()
    documents = rendered(helm, KUEUE)
    place = await install(plane, KUEUE, documents)
    [configured] = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    config = place.manager(
        yaml.safe_load(configured["controller_manager_config.yaml"]),
        {"internalCertManagement": {"enable": False}, "webhook": {"certDir": str(place.certificates)}},
    )
    async with place.running(
        children,
        *("unshare", "--mount", "--propagation=private", "sh", "-c", _MOUNTING, "mounting"),
        *(str(place.certificates), place.program, config, f"--kubeconfig={place.kubeconfig}"),
        "--feature-gates=VisibilityOnDemand=false",
    ) as controller:
        yield controller


@asynccontextmanager
async def trainer(children: Children, plane: Plane) -> AsyncIterator[Child]:
    """Run Kubeflow's Trainer beside `jobsets`, without its runtimes; it creates JobSets for TrainJobs."""
    [programs] = await TRAINER.find()
    documents = shipped.documents_below(programs)
    for document in documents:
        if "webhooks" in document:
            # Its kustomization has other names; these are those of JobSet, too.
            document["metadata"]["name"] = f"trainer-{document['metadata']['name']}"
    place = await install(plane, TRAINER, documents)
    config = place.manager(
        {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration"},
        {"certManagement": {"enable": False}},
    )
    # It reads its certificate from a fixed place in the folder for temporary files.
    serving = place.folder / "k8s-webhook-server"
    serving.mkdir(exist_ok=True)
    (serving / "serving-certs").symlink_to(place.certificates)
    environment = ("env", f"KUBECONFIG={place.kubeconfig}", f"TMPDIR={place.folder}")
    async with place.running(children, *environment, place.program, config) as controller:
        yield controller


@asynccontextmanager
async def kuberay(children: Children, plane: Plane) -> AsyncIterator[Child]:
    """Run the operator of KubeRay without its webhooks, which are off by default."""
    [programs] = await KUBERAY.find()
    place = await install(plane, KUBERAY, shipped.documents_below(programs))
    async with place.running(
        children,
        *(place.program, f"--kubeconfig={place.kubeconfig}", "--metrics-addr=0"),
        *(f"--health-probe-bind-address=127.0.0.1:{place.probes}", "--enable-leader-election=false"),
    ) as operator:
        yield operator


@asynccontextmanager
async def karpenter(
    children: Children, plane: Plane, helm: Path, instances: Mapping[str, Mapping[str, str]]
) -> AsyncIterator[Child]:
    """Run Karpenter with its kwok provider, which creates Node objects for pods that are pending.

    No kubelet runs behind them: tests make them ready, and run their pods. `instances` are the
    resources of each type of instance, by name; the first is the cheapest.
    """
    [programs] = await KARPENTER.find()
    definitions = shipped.documents_below(programs / "definitions")
    node_class = {
        "apiVersion": f"{NODE_CLASS['group']}/v1alpha1",
        "kind": NODE_CLASS["kind"],
        "metadata": {"name": NODE_CLASS["name"]},
    }
    place = await install(plane, KARPENTER, [*definitions, *rendered(helm, KARPENTER), node_class])
    offered = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "z1"}
    required = [{"key": key, "operator": "In", "values": [value]} for key, value in offered.items()]
    described: list[Json] = [
        {
            "name": name,
            "offerings": [{"Price": float(price), "Available": True, "Requirements": required}],
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"ephemeral-storage": "100Gi", "pods": "110", **resources},
        }
        for price, (name, resources) in enumerate(instances.items(), start=1)
    ]
    types = place.folder / "instances.json"
    types.write_text(json.dumps(described))
    async with place.running(
        children,
        *("env", f"KUBECONFIG={place.kubeconfig}", f"SYSTEM_NAMESPACE={ACCOUNTS['karpenter'][0]}"),
        *(place.program, f"--instance-types-file-path={types}", f"--health-probe-port={place.probes}"),
        *(f"--metrics-port={free_port()}", "--disable-leader-election=true"),
    ) as controller:
        yield controller


async def deschedule(plane: Plane, helm: Path, profile: Json) -> list[str]:
    """Run one profile of the descheduler once, as a Job of its chart does; return the evicted pods."""
    await DESCHEDULER.find()
    place = await install(plane, DESCHEDULER, rendered(helm, DESCHEDULER))
    policy = place.folder / "policy.yaml"
    kind = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    policy.write_text(json.dumps({**kind, "profiles": [profile]}))
    flags = (f"--policy-config-file={policy}", f"--kubeconfig={place.kubeconfig}", "--secure-port=0", "--v=1")
    code, output = await run(place.program, *flags)
    if code:
        pytest.fail(f"descheduler ended with {code}: {output}")
    return re.findall(r'"Evicted pod" pod="(\S+)"', output)


def rendered(helm: Path, operator: Operator) -> list[Json]:
    """Return all objects of an operator's chart, definitions included; `BrokenError` has helm's complaint."""
    name = operator.shop.name
    chart, home = operator.cache / "charts" / name, ACCOUNTS[name][0]
    command = (str(helm), "template", name, str(chart), f"--namespace={home}", "--include-crds")
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  a chart, and no shell
    if done.returncode:
        raise BrokenError(f"helm does not render {chart}: {done.stderr.strip()}")
    return shipped.loaded(done.stdout)


async def install(plane: Plane, operator: Operator, documents: Iterable[Json]) -> Place:
    """Create what a cluster needs for an operator; definitions are served before the rest is created."""
    name = operator.shop.name
    home, account = ACCOUNTS[name]
    folder, webhooks = plane.folder / name, free_port()
    folder.mkdir(exist_ok=True)
    kubeconfig = plane.kubeconfig(f"system:serviceaccount:{home}:{account}", folder)
    here = [
        _called(_bound(document, home), webhooks, plane.ca)
        for document in documents
        if document["kind"] not in _NOT_HERE
    ]
    definitions = [each for each in here if each["kind"] == _DEFINITION]
    async with plane.client("admin") as api:
        store = Store(api)
        for document in (namespace(home, {}), *definitions):
            await store.apply(document)
        for definition in definitions:
            # Operators end if they do not find a kind.
            served = partial(_served, store, definition["spec"])
            await until(served, what=f"{definition['metadata']['name']} were served", child=plane.child)
        for document in here:
            if document["kind"] != _DEFINITION:
                await store.apply(document)
    return Place(str(operator.program), folder, kubeconfig, plane.ca.parent, webhooks, free_port())


async def _served(store: Store, spec: Json) -> bool:
    """Return whether all versions can be listed and discovered, which do not start at the same time."""
    plural = spec["names"]["plural"]
    for group in (f"/apis/{spec['group']}/{each['name']}" for each in spec["versions"] if each["served"]):
        kinds = (await ask(store.api, "GET", group)).body.get("resources", [])
        listed = await ask(store.api, "GET", f"{group}/{plural}")
        if listed.code != HTTPStatus.OK or plural not in {kind["name"] for kind in kinds}:
            return False
    return True


def _bound(document: Json, home: str) -> Json:
    """Return an object whose subjects, if any, have this namespace by default, as a kustomization adds it."""
    for subject in document.get("subjects", ()):
        if subject["kind"] == "ServiceAccount":
            subject.setdefault("namespace", home)
    return document


def _called(document: Json, port: int, ca: Path) -> Json:
    """Return an object whose webhooks, for admission or conversion, are called at a port of this machine."""
    conversion = document.get("spec", {}).get("conversion", {}).get("webhook")
    for webhook in (*document.get("webhooks", ()), *([conversion] if conversion else ())):
        trusted = {"caBundle": b64encode(ca.read_bytes()).decode()}
        webhook["clientConfig"] = shipped.at(webhook, port) | trusted
    return document
