"""The images and their layers: the base, the dependencies, numalign."""

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tools.release.image import debian, oci, python, tarballs
from tools.release.image.errors import BuildError

ROOT = Path(__file__).resolve().parents[3]
LOCK = ROOT / "deploy" / "image-lock.json"
USER = "65532:65532"
"""The IDs of user and group; Kubernetes cannot check `runAsNonRoot` for names."""

_WHEEL = re.compile(r"numalign-(?P<version>[^-]+)-py3-none-any\.whl")
_STANDARD_LIBRARY = Path("usr/lib/python3.11")
_ENVIRONMENT = {
    "PATH": f"/{python.HOME}/bin",
    "HOME": "/tmp",  # noqa: S108  the only writable folder
    "LANG": "C.UTF-8",
    "SSL_CERT_FILE": f"/{debian.BUNDLE}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image: its program, which has the same name, its dependencies, and its ports."""

    name: str
    description: str
    requirements: Path
    ports: tuple[int, ...] = ()


RECIPES = (
    Recipe(
        "numalign-webhook",
        "numalign's webhook, scorer and controller",
        ROOT / "requirements" / "image.txt",
        ports=(8443,),
    ),
    Recipe("numalign-agent", "numalign's agent, for every node", ROOT / "requirements" / "agent.txt"),
)


def build(wheel: Path, platforms: Sequence[str], *, epoch: int) -> Mapping[Recipe, Sequence[oci.Image]]:
    """Build every image for platforms such as linux/arm64. Raise `BuildError` if that fails."""
    if unsupported := [each for each in platforms if each not in python.MACHINES]:
        raise BuildError(f"cannot build for {', '.join(unsupported)}: use {' or '.join(python.MACHINES)}")
    with tempfile.TemporaryDirectory() as scratch:
        bases = _unpacked_bases(platforms, Path(scratch))
        compiler = bases[python.own_platform()]
        base_layers = {each: _base_layer(bases[each], compiler, epoch=epoch) for each in platforms}
        # Most of the time is spent in pip, Python and zlib, which run in parallel.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            numalign = pool.submit(_numalign_layer, wheel, compiler, epoch=epoch)
            dependencies = {
                (recipe, each): pool.submit(_dependency_layer, recipe, each, compiler, epoch=epoch)
                for recipe, each in product(RECIPES, platforms)
            }
        return {
            recipe: [
                oci.image(
                    each,
                    (base_layers[each], dependencies[recipe, each].result(), numalign.result()),
                    settings(recipe, version(wheel)),
                    epoch=epoch,
                )
                for each in platforms
            ]
            for recipe in RECIPES
        }


def version(wheel: Path) -> str:
    """Return the version in the name of a wheel. Raise `BuildError` if it is not a wheel of numalign."""
    if not (named := _WHEEL.fullmatch(wheel.name)) or not wheel.is_file():
        raise BuildError(f"{wheel} is not a numalign wheel: pass a file like numalign-0.1.0-py3-none-any.whl")
    return named["version"]


def settings(recipe: Recipe, version: str) -> oci.Json:
    """Return the `config` of an image's configuration: how to run a container."""
    listening: oci.Json = (
        {"ExposedPorts": {f"{port}/tcp": {} for port in recipe.ports}} if recipe.ports else {}
    )
    return listening | {
        "User": USER,
        "Env": [f"{name}={value}" for name, value in _ENVIRONMENT.items()],
        "Entrypoint": [f"/{python.HOME}/bin/{recipe.name}"],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": recipe.name,
            "org.opencontainers.image.description": recipe.description,
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


def _unpacked_bases(platforms: Sequence[str], folder: Path) -> dict[str, Path]:
    """Unpack the bases of these platforms and of this machine, whose Python compiles for all platforms."""
    lock = debian.read_lock(LOCK)
    bases = {each: folder / each for each in {*platforms, python.own_platform()}}
    for platform, base in bases.items():
        base.mkdir(parents=True)
        debian.unpack(lock.packages[platform], base, snapshot=lock.snapshot)
    return bases


def _base_layer(base: Path, compiler: Path, *, epoch: int) -> oci.Layer:
    python.compile_all(compiler, base, [_STANDARD_LIBRARY])
    made_by = "packages of deploy/image-lock.json"
    return oci.layer(tarballs.layer(base, epoch=epoch), made_by=made_by)


def _dependency_layer(recipe: Recipe, platform: str, compiler: Path, *, epoch: int) -> oci.Layer:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        python.install_requirements(recipe.requirements, python.MACHINES[platform], root)
        python.compile_all(compiler, root, [python.PACKAGES])
        made_by = f"wheels of requirements/{recipe.requirements.name}"
        return oci.layer(tarballs.layer(root, epoch=epoch), made_by=made_by)


def _numalign_layer(wheel: Path, compiler: Path, *, epoch: int) -> oci.Layer:
    """Make the layer of numalign, the same for all platforms: it contains only Python."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        python.make_environment(wheel, root)
        python.compile_all(compiler, root, [python.PACKAGES])
        return oci.layer(tarballs.layer(root, epoch=epoch), made_by=wheel.name)
