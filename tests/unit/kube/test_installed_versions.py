"""Versions of programs are read off images; the rest is shown by `kubectl numa version`."""

import pytest

from numalign.kube.installed_versions import tag
from tests.worlds.notation import table


@pytest.mark.parametrize(("image", "expected"), table([
    # what it shows              the image                            its tag
    ("a tag",                    "numalign:0.1.0",                    "0.1.0"),
    ("a registry with a port",   "registry:5000/numalign",            ""),
    ("both",                     "registry:5000/numalign:0.1.0",      "0.1.0"),
    ("a digest",                 "numalign@sha256:abc",               ""),
    ("a tag and a digest",       "numalign:0.1.0@sha256:abc",         "0.1.0"),
    ("nothing",                  "",                                  ""),
]))  # fmt: skip
def test_the_tag_of_an_image(image: str, expected: str) -> None:
    assert tag(image) == expected
