"""An archive is what the OCI image specification calls an image layout."""

import gzip
import io
import json
import tarfile
from typing import Any

from tools.release.image import oci

SETTINGS = {"User": "65532:65532", "Labels": {"org.opencontainers.image.version": "1.2.3"}}
LAYERS = [oci.layer(b"base", made_by="packages"), oci.layer(b"program", made_by="wheel")]
IMAGES = [oci.image(each, LAYERS, SETTINGS, epoch=0) for each in ("linux/amd64", "linux/arm64")]


def unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {each.name: content.read() for each in tar if (content := tar.extractfile(each))}


FILES = unpacked(oci.layout("app", "1.2.3", IMAGES, epoch=0))


def blob(descriptor: dict[str, Any]) -> bytes:
    """What a descriptor means, which has the size and the digest that it says."""
    content = FILES[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert (descriptor["size"], descriptor["digest"]) == (len(content), oci.digest(content))
    return content


def document(descriptor: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(blob(descriptor))
    assert content.get("mediaType", descriptor["mediaType"]) == descriptor["mediaType"]
    return content


def test_an_engine_comes_from_the_index_to_every_layer() -> None:
    assert json.loads(FILES["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [entry] = json.loads(FILES["index.json"])["manifests"]
    platforms = document(entry)["manifests"]
    assert [each["platform"] for each in platforms] == [
        {"os": "linux", "architecture": "amd64"},
        {"os": "linux", "architecture": "arm64"},
    ]
    for each in platforms:
        manifest = document(each)
        config = document(manifest["config"])
        layers = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
        assert layers == [b"base", b"program"]
        assert config["rootfs"]["diff_ids"] == [oci.digest(layer) for layer in layers]
        assert len(config["history"]) == len(layers)
        assert config["config"] == SETTINGS
        assert config["created"] == "1970-01-01T00:00:00Z"


def test_tools_find_the_image_by_its_tag() -> None:
    [entry] = json.loads(FILES["index.json"])["manifests"]
    assert entry["annotations"] == {
        "org.opencontainers.image.ref.name": "1.2.3",
        "io.containerd.image.name": "docker.io/library/app:1.2.3",
    }


def test_a_layer_that_platforms_share_is_there_once() -> None:
    assert len([name for name in FILES if name.startswith("blobs/")]) == len(LAYERS) + 2 * len(IMAGES) + 1


def test_sizes_are_those_of_layers_alone() -> None:
    image = IMAGES[0]
    assert image.size == len(b"base") + len(b"program")
    assert image.compressed == sum(len(layer.blob.content) for layer in LAYERS)
