"""The programs of other projects that run beside numalign in tests, each built from its Go module.

`python -m tools.clusters.ecosystem` prints a folder for each, with the program and what its module ships for
it. They are in a cache outside the tree. What the cache lacks is built first: minutes for each program, once.
With `--cached`, nothing is built. Progress goes to standard error. Exit code 69 means that some are not
available on this machine, 1 that a build failed.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tools.clusters.gotools import Version, Workshop, run


@dataclass(frozen=True, slots=True)
class Operator:
    """A program that Go builds from a `package` of the shop's module.

    `files` has the path in the module of each file or folder next to the program, by its name there.
    """

    shop: Workshop
    package: str
    files: Mapping[str, str]

    @property
    def release(self) -> str:
        return self.shop.release

    @property
    def cache(self) -> Path:
        """The folder with the program and the files of this release; complete once it has the program."""
        return self.shop.cache(self.release)

    @property
    def program(self) -> Path:
        return self.cache / self.shop.name

    async def find(self) -> list[Path]:
        """Return the folder with the program and the files, built first if necessary.

        Raise `UnavailableError` without Go, and `BrokenError` if the build fails.
        """
        if not self.program.exists():
            self._copy(await self.shop.source(self.shop.compiler(self.program)))
            await self.shop.program(self.package, self.program)
        return [self.cache]

    def _copy(self, module: Path) -> None:
        # Files and folders in Go's cache are read-only, so their modes are not copied.
        for name, source in ((name, module / path) for name, path in self.files.items()):
            for file in [source] if source.is_file() else filter(Path.is_file, source.rglob("*")):
                copy = self.cache / name / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


def _operator(
    name: str, module: str, package: str, files: Mapping[str, str], *, versioned: bool = False
) -> Operator:
    shop = Workshop(name, Path(__file__).resolve().parent / name, module=module)
    if versioned:
        shop = replace(shop, variables=Version(module, f"{module}/pkg/version.GitVersion"))
    return Operator(shop, f"{module}{package}", files)


JOBSET = _operator(
    "jobset",
    "sigs.k8s.io/jobset",
    "",
    {
        "crd.yaml": "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        "role.yaml": "config/components/rbac/role.yaml",
        "webhooks.yaml": "config/components/webhook/manifests.yaml",
    },
    versioned=True,
)
KUEUE = _operator(
    "kueue", "sigs.k8s.io/kueue", "/cmd/kueue", {"charts/kueue": "charts/kueue"}, versioned=True
)
KARPENTER = _operator(
    "karpenter",
    "sigs.k8s.io/karpenter",
    "/kwok",
    # The provider's own definitions are not in its chart.
    {"charts/karpenter": "kwok/charts", "definitions": "kwok/apis/crds"},
)
KUBERAY = _operator(
    "kuberay",
    "github.com/ray-project/kuberay/ray-operator",
    "",
    {
        "definitions": "config/crd/bases",
        "role.yaml": "config/rbac/role.yaml",
        "binding.yaml": "config/rbac/role_binding.yaml",
    },
)
TRAINER = _operator(
    "trainer",
    "github.com/kubeflow/trainer/v2",
    "/cmd/trainer-controller-manager",
    # Its chart depends on others that are not in its module.
    {
        "definitions": "charts/kubeflow-trainer/crds",
        "role.yaml": "manifests/base/rbac/role.yaml",
        "binding.yaml": "manifests/base/rbac/role_binding.yaml",
        "webhooks.yaml": "manifests/base/webhook/manifests.yaml",
    },
)
DESCHEDULER = _operator(
    "descheduler",
    "sigs.k8s.io/descheduler",
    "/cmd/descheduler",
    {"charts/descheduler": "charts/descheduler"},
)
ALL = (JOBSET, KUEUE, KARPENTER, KUBERAY, TRAINER, DESCHEDULER)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.clusters.ecosystem")
    parser.add_argument("--cached", action="store_true", help="build nothing")
    if parser.parse_args().cached and (missing := [each for each in ALL if not each.program.exists()]):
        names = ", ".join(f"{each.shop.name} {each.release}" for each in missing)
        sys.stderr.write(f"not in the cache: {names}\n")
        return os.EX_UNAVAILABLE
    return next(filter(None, (run(each.shop, each.find()) for each in ALL)), 0)


if __name__ == "__main__":
    sys.exit(main())
