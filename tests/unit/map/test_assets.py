"""What pages load, and that they may load nothing else."""

import hashlib
from base64 import b64decode

import pytest

from numalign.map.assets import CONTENT_SECURITY_POLICY, SCRIPT, STATIC, STYLE, Asset


def test_policy_forbids_everything_else() -> None:
    directives = dict(each.split(" ", 1) for each in CONTENT_SECURITY_POLICY.split("; "))

    assert directives["default-src"] == directives["base-uri"] == directives["frame-ancestors"] == "'none'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    for each in ("style-src", "script-src", "connect-src", "form-action"):
        assert directives[each] == "'self'"


@pytest.mark.parametrize("name", STATIC)
def test_files_load_nothing(name: str) -> None:
    text = STATIC[name].body.decode()

    assert not [word for word in ("http://", "https://", "@import", "url(") if word in text]


def test_inlined_files_cannot_end_their_element() -> None:
    assert not [name for name in (STYLE, SCRIPT) if b"</" in STATIC[name].body]
    assert b"<!--" not in STATIC[SCRIPT].body


def test_version_and_integrity_depend_on_the_bytes() -> None:
    a, b = (Asset(body, "text/css") for body in (b"a", b"b"))
    digest = a.integrity.removeprefix("'sha256-").removesuffix("'")

    assert a.version != b.version
    assert b64decode(digest) == hashlib.sha256(b"a").digest()
