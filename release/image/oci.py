"""Images in the terms of the OCI image specification, https://github.com/opencontainers/image-spec (1.1)."""

import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from release.image.tarballs import archive

Json = dict[str, Any]

_OCI = "application/vnd.oci.image"
INDEX = f"{_OCI}.index.v1+json"
MANIFEST = f"{_OCI}.manifest.v1+json"
CONFIG = f"{_OCI}.config.v1+json"
LAYER = f"{_OCI}.layer.v1.tar+gzip"

_GZIP_LEVEL = 6
"""Of 1 to 9; more would take three times as long, for a hundredth of the size."""

_REFERENCE = "org.opencontainers.image.ref.name"
_CONTAINERD = "io.containerd.image.name"
"""Under which name containerd keeps an image that it imports."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Content that is named by its digest."""

    media_type: str
    content: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """As sha256:..."""
        return digest(self.content)

    def descriptor(self, **more: object) -> Json:
        """What another document says of it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content), **more}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, and what its tar archive is without compression: digest, and size in bytes."""

    blob: Blob
    made_by: str
    diff_id: str
    size: int


@dataclass(frozen=True, slots=True)
class Image:
    """An image for one platform."""

    platform: str
    manifest: Blob
    config: Blob
    layers: Sequence[Layer]

    @property
    def compressed(self) -> int:
        """Bytes that a registry sends."""
        return sum(len(layer.blob.content) for layer in self.layers)

    @property
    def size(self) -> int:
        """Bytes of its layers where they are unpacked."""
        return sum(layer.size for layer in self.layers)


def digest(content: bytes) -> str:
    """As sha256:..."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layer(tar: bytes, *, made_by: str) -> Layer:
    """A tar archive as a layer. Compressed bytes depend on zlib besides."""
    written = io.BytesIO()
    with gzip.GzipFile("", "wb", _GZIP_LEVEL, written, mtime=0) as compressed:
        compressed.write(tar)
    return Layer(Blob(LAYER, written.getvalue()), made_by, digest(tar), len(tar))


def image(platform: str, layers: Sequence[Layer], settings: Mapping[str, object], *, epoch: int) -> Image:
    """An image of these layers, the lowest first; `settings` are the `config` of its configuration."""
    config = Blob(CONFIG, _json(_configuration(platform, layers, settings, _time(epoch))))
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(),
        "layers": [layer.blob.descriptor() for layer in layers],
        "annotations": settings["Labels"],
    }
    return Image(platform, Blob(MANIFEST, _json(manifest)), config, layers)


def index(images: Sequence[Image]) -> Blob:
    """The index of one image for several platforms."""
    manifests = [image.manifest.descriptor(platform=_platform(image.platform)) for image in images]
    return Blob(INDEX, _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))


def layout(name: str, tag: str, images: Sequence[Image], *, epoch: int) -> bytes:
    """One image for several platforms as the tar archive of an OCI image layout."""
    top = index(images)
    names = {_REFERENCE: tag, _CONTAINERD: f"docker.io/library/{name}:{tag}"}
    entry = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [top.descriptor(annotations=names)]}
    blobs = {blob.digest: blob.content for blob in (top, *_blobs(images))}
    files = [("oci-layout", _json({"imageLayoutVersion": "1.0.0"})), ("index.json", _json(entry))]
    files += [(f"blobs/{digest.replace(':', '/')}", blobs[digest]) for digest in sorted(blobs)]
    return archive(files, epoch=epoch)


def _blobs(images: Sequence[Image]) -> Iterator[Blob]:
    for each in images:
        yield from (each.manifest, each.config, *(layer.blob for layer in each.layers))


def _configuration(
    platform: str, layers: Sequence[Layer], settings: Mapping[str, object], created: str
) -> Json:
    return {
        "created": created,
        **_platform(platform),
        "config": dict(settings),
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": created, "created_by": layer.made_by} for layer in layers],
    }


def _platform(platform: str) -> Json:
    system, _, architecture = platform.partition("/")
    return {"os": system, "architecture": architecture}


def _time(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
