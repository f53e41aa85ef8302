"""Finds or builds programs that are written in Go, from the modules in folders beside this file.

`python -m tools.clusters.builds NAME [--version v1.37.2 | --all]` prints their paths. NAME is `controlplane`
(etcd, kube-apiserver, kube-scheduler and kube-controller-manager), `kubelets` (a kubelet and its companion,
which replaces what surrounds it on a node), `oracle` (the kubelet's own managers), `kube-scheduler` (alone,
of a newer version) or `helm`. The first three have a go.<minor>.mod for each version of Kubernetes. Builds
take minutes, once. Exit code 69 means that a program is not available on this machine, 1 that a build failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tools.clusters.gotools import (
    KUBERNETES,
    BrokenError,
    UnavailableError,
    Version,
    Workshop,
    output_of,
    run,
)

HERE = Path(__file__).resolve().parent
USUAL = "v1.37.2"
RECORDED = "v1.34.4"
"""The version of the managers that made the recordings."""

CONTROL_PLANE, KUBELETS, ORACLE = "controlplane", "kubelets", "oracle"
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
    "kube-scheduler": f"{KUBERNETES}/cmd/kube-scheduler",
    "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
}
NEEDED = ("etcd", "kube-apiserver")
"""What a folder of Kubernetes' own test tools always has."""

OVERLAYS = HERE / ORACLE / "overlay"
"""Options that no kubelet has yet: a folder of patches for each, which apply to the version `OVERLAID`."""
OVERLAID = "v1.38.0-beta.0"
_PATCHED = Path("pkg/kubelet/cm/topologymanager")

# A harmless trial of what the start of a kubelet does.
_TRIAL = ("unshare", "--mount", "--propagation=private", "mount", "--bind", "/proc/version", "/proc/meminfo")

# Otherwise the API server reports v0.0.0-master, and clients warn of version skew.
_VERSION = Version(KUBERNETES, "k8s.io/component-base/version.gitVersion")
# Its go.mod replaces a module by the version before it, because the Go proxy lacks the required version.
KUBE_SCHEDULER = Workshop("kube-scheduler", HERE / "kubescheduler", variables=_VERSION)
_HELM, _ACTIONLINT, _PROMETHEUS, _KREW = (
    "helm.sh/helm/v3",
    "github.com/rhysd/actionlint",
    "github.com/prometheus/prometheus",
    "sigs.k8s.io/krew",
)


def versions(name: str) -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes that can be built in a folder.

    The oracle has more: v1.38.0-beta.0+numa-allocation-strategy is patched with that folder of `OVERLAYS`.
    """
    files = sorted((HERE / name).glob("go.*.mod"))
    shops = [Workshop(name, HERE / name, file.name, variables=_VERSION) for file in files]
    known = {shop.release: shop for shop in shops}
    overlays = sorted(folder.name for folder in OVERLAYS.iterdir()) if name == ORACLE else ()
    return known | {f"{OVERLAID}+{overlay}": known[OVERLAID] for overlay in overlays}


def _of_version(name: str, version: str) -> Workshop:
    if version not in (known := versions(name)):
        raise UnavailableError(f"no {name} of Kubernetes {version} here, only {', '.join(known)}")
    return known[version]


async def control_plane(version: str | None = None) -> Path:
    """Return the folder with the programs of a control plane.

    Without a version, it can be the folder that KUBEBUILDER_ASSETS names, which may lack some of them.
    """
    if version is None and (assets := os.environ.get("KUBEBUILDER_ASSETS")):
        if missing := [name for name in NEEDED if not Path(assets, name).is_file()]:  # noqa: ASYNC240  once
            raise BrokenError(f"{assets} lacks {' and '.join(missing)}")
        return Path(assets)
    shop = _of_version(CONTROL_PLANE, wanted := version or USUAL)
    remedy = f"or set KUBEBUILDER_ASSETS to a folder with {' and '.join(NEEDED)} (as setup-envtest prints)"
    for name, package in PROGRAMS.items():
        await shop.program(package, shop.cache(wanted, name), remedy=remedy)
    return shop.cache(wanted)


async def kubelet(version: str = USUAL) -> tuple[Path, Path]:
    """Return a kubelet and its companion. Raise `UnavailableError` if this machine cannot run them."""
    shop = _of_version(KUBELETS, version)
    if not shutil.which("unshare"):
        raise UnavailableError("no kubelet can run here: no unshare on PATH (want util-linux)")
    tried = subprocess.run(_TRIAL, capture_output=True, check=False)  # noqa: ASYNC221, S603  the constant above
    if tried.returncode:
        why = tried.stderr.decode(errors="replace").strip()
        raise UnavailableError(f"no kubelet can run here: want user 0 and CAP_SYS_ADMIN: {why}")
    sources = sorted(shop.folder.glob("*.go"))
    return (
        await shop.program(f"{KUBERNETES}/cmd/kubelet", shop.place(version, "kubelet", ())),
        await shop.program(".", shop.place(version, "companion", sources)),
    )


async def managers(version: str = RECORDED) -> Path:
    """Return the program with the kubelet's own managers, because a model cannot show its own errors."""
    shop, overlay = _of_version(ORACLE, version), version.partition("+")[2]
    patches = sorted((OVERLAYS / overlay).iterdir()) if overlay else []
    program = shop.place(version, "kubelet-oracle", [*sorted(shop.folder.glob("*.go")), *patches])
    # The files that call the managers of a version: v1_34 for go.1.34.mod.
    tag = "v" + shop.module_file.removeprefix("go.").removesuffix(".mod").replace(".", "_")
    with tempfile.TemporaryDirectory() as folder:
        if overlay and not program.exists():
            shop = await _patched(shop, OVERLAYS / overlay, shop.compiler(program, "and git"), Path(folder))
        return await shop.program(".", program, flags=("-tags", tag))


async def _patched(shop: Workshop, overlay: Path, go: str, folder: Path) -> Workshop:
    """Return the workshop with the kubelet patched: Go's own -overlay replaces no file of a module."""
    kubernetes, module = folder / "kubernetes", folder / shop.module_file
    # Files and folders in Go's cache are read-only.
    shutil.copytree(await shop.source(go), kubernetes, copy_function=shutil.copyfile)
    (kubernetes / _PATCHED).chmod(0o755)
    shutil.copytree(overlay, kubernetes / _PATCHED, dirs_exist_ok=True)
    await output_of("git", "apply", str(overlay / "topologymanager.patch"), folder=kubernetes)
    original = shop.folder / shop.module_file
    module.write_text(f"{original.read_text()}\nreplace {KUBERNETES} => {kubernetes}\n")
    shutil.copy(original.with_suffix(".sum"), folder)
    return replace(shop, module_file=str(module))


async def kube_scheduler() -> Path:
    return await KUBE_SCHEDULER.program(f"{KUBERNETES}/cmd/kube-scheduler")


def _helm_versions(workshop: Workshop) -> Mapping[str, str]:
    """Return the variables of helm's version and its default Kubernetes version, as in helm's Makefile."""
    fields = {"Major": "1", "Minor": workshop.required("k8s.io/client-go").split(".")[1]}
    return {
        f"{_HELM}/internal/version.version": workshop.release,
        **{
            f"{_HELM}/pkg/{part}.k8sVersion{field}": value
            for part in ("chartutil", "lint/rules")
            for field, value in fields.items()
        },
    }


async def helm() -> Path:
    """Return the path of helm: the one that HELM names, or one built."""
    shop = Workshop("helm", HERE / "helm", module=_HELM, variables=_helm_versions)
    return await shop.program(f"{_HELM}/cmd/helm", variable="HELM")


async def actionlint() -> Path:
    """Return the path of actionlint, which checks workflows: the one that ACTIONLINT names, or one built."""
    version = Version(_ACTIONLINT, f"{_ACTIONLINT}.version")
    shop = Workshop("actionlint", HERE / "actionlint", module=_ACTIONLINT, variables=version)
    return await shop.program(f"{_ACTIONLINT}/cmd/actionlint", variable="ACTIONLINT")


async def promtool() -> Path:
    """Return the path of promtool, which evaluates alerts: the one that PROMTOOL names, or one built."""
    version = Version(_PROMETHEUS, "github.com/prometheus/common/version.Version")
    shop = Workshop("promtool", HERE / "promtool", module=_PROMETHEUS, variables=version)
    # Service discovery makes up half of its modules, and no rule needs it (plugins/ of Prometheus).
    flags = ("-tags", "remove_all_sd")
    return await shop.program(f"{_PROMETHEUS}/cmd/promtool", variable="PROMTOOL", flags=flags)


async def krew() -> tuple[Path, Path]:
    """Return the paths of kubectl's plugin manager, and of the check of manifests for its index."""
    # Without a version, krew is a development build, which never looks for a newer version on the network.
    shop = Workshop("krew", HERE / "krew", module=_KREW)
    return await shop.program(f"{_KREW}/cmd/krew"), await shop.program(f"{_KREW}/cmd/validate-krew-manifest")


_FOUND: Mapping[str, Callable[..., Awaitable[Path | tuple[Path, ...]]]] = {
    CONTROL_PLANE: control_plane,
    KUBELETS: kubelet,
    ORACLE: managers,
    "kube-scheduler": kube_scheduler,
    "helm": helm,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.clusters.builds")
    parser.add_argument("name", choices=_FOUND)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", help="of Kubernetes")
    which.add_argument("--all", action="store_true", help="every version")
    options = parser.parse_args()
    if (options.version or options.all) and not versions(options.name):
        parser.error(f"there is one version of {options.name}")
    wanted = [(each,) for each in versions(options.name)] if options.all else [(options.version,)]

    async def paths() -> list[Path]:
        found = [await _FOUND[options.name](*filter(None, version)) for version in wanted]
        return [path for each in found for path in (each if isinstance(each, tuple) else (each,))]

    return run(Workshop(options.name, HERE), paths())


if __name__ == "__main__":
    sys.exit(main())
