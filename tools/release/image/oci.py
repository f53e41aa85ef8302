"""Images by the OCI image specification 1.1: https://github.com/opencontainers/image-spec."""

import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tools.release.image.tarballs import archive

Json = dict[str, Any]

_OCI = "application/vnd.oci.image"
INDEX = f"{_OCI}.index.v1+json"
MANIFEST = f"{_OCI}.manifest.v1+json"
CONFIG = f"{_OCI}.config.v1+json"
LAYER = f"{_OCI}.layer.v1.tar+gzip"

_GZIP_LEVEL = 6
"""The level of compression, of 1 to 9; a higher one takes three times as long to save 1% of the size."""

_REFERENCE = "org.opencontainers.image.ref.name"
_CONTAINERD = "io.containerd.image.name"
"""The annotation with the name that containerd gives to an imported image."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Content that is addressed by its digest."""

    media_type: str
    content: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """The digest, with the prefix sha256:."""
        return digest(self.content)

    def descriptor(self, **more: object) -> Json:
        """Return its descriptor for another document, with these additional fields."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content), **more}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer; `diff_id` and `size` are the digest and the bytes of the uncompressed tar archive."""

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
        """The bytes of all layers as a registry sends them."""
        return sum(len(layer.blob.content) for layer in self.layers)

    @property
    def size(self) -> int:
        """The bytes of all layers without compression."""
        return sum(layer.size for layer in self.layers)


def digest(content: bytes) -> str:
    """Return the SHA-256 digest of a content, with the prefix sha256:."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layer(tar: bytes, *, made_by: str) -> Layer:
    """Make a layer from a tar archive. Its compressed bytes also depend on the version of zlib."""
    written = io.BytesIO()
    with gzip.GzipFile("", "wb", _GZIP_LEVEL, written, mtime=0) as compressed:
        compressed.write(tar)
    return Layer(Blob(LAYER, written.getvalue()), made_by, digest(tar), len(tar))


def image(platform: str, layers: Sequence[Layer], settings: Mapping[str, object], *, epoch: int) -> Image:
    """Make an image from layers, the lowest first; `settings` are the `config` of its configuration."""
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
    """Make the index of one image for several platforms."""
    manifests = [image.manifest.descriptor(platform=_platform(image.platform)) for image in images]
    return Blob(INDEX, _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))


def layout(name: str, tag: str, images: Sequence[Image], *, epoch: int) -> bytes:
    """Return one image for several platforms as the tar archive of an OCI image layout."""
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
