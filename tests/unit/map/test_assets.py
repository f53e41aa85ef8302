"""What pages load, and that they may load nothing else."""

import hashlib
from base64 import b64decode

import pytest

from numalign.map.assets import CONTENT_SECURITY_POLICY, STATIC, Asset


def test_nothing_is_allowed_that_is_not_named() -> None:
    directives = dict(each.split(" ", 1) for each in CONTENT_SECURITY_POLICY.split("; "))

    assert directives["default-src"] == directives["base-uri"] == directives["frame-ancestors"] == "'none'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert {directives[each] for each in ("style-src", "script-src", "connect-src", "form-action")} == {
        "'self'"
    }


@pytest.mark.parametrize("name", STATIC)
def test_files_load_nothing_from_elsewhere(name: str) -> None:
    text = STATIC[name].body.decode()

    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_the_version_changes_with_the_bytes() -> None:
    assert Asset(b"a", "text/css").version != Asset(b"b", "text/css").version


def test_the_integrity_is_the_hash_of_the_bytes() -> None:
    digest = Asset(b"a", "text/css").integrity.removeprefix("'sha256-").removesuffix("'")

    assert b64decode(digest) == hashlib.sha256(b"a").digest()
