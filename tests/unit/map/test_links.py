"""What pages load and where they lead, and that it is nowhere else."""

import hashlib
from base64 import b64decode

import pytest

from numalign.map.answers import CONTENT_SECURITY_POLICY
from numalign.map.links import SCRIPT, STATIC, STYLE, Asset, Links
from tests.unit.map.example_views import HOSTILE


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


SERVED = Links()


def test_each_page_has_an_address() -> None:
    filters = [("labels", "rack=a,!spot"), ("only", "stale")]

    assert SERVED.fleet() == "/"
    assert SERVED.fleet(filters) == "/?labels=rack%3Da%2C%21spot&only=stale"
    assert SERVED.node("dgx-1") == "/nodes/dgx-1"
    assert SERVED.pod("team-a", "trainer-0") == "/pods/team-a/trainer-0"
    assert SERVED.page("what-if") == "/what-if"
    assert SERVED.static("map.css").startswith("/static/map.css?v=")


@pytest.mark.parametrize("name", [*HOSTILE, "a/b", "..", "a?b#c", "\ud800"])
def test_no_name_leads_elsewhere(name: str) -> None:
    for address in (SERVED.node(name), SERVED.pod("team-a", name)):
        path = address.rpartition("/")[2]
        assert address.startswith(("/nodes/", "/pods/team-a/"))
        assert not set(path) & set('/?#<>"& ')


def test_links_of_a_file_lead_to_its_nodes() -> None:
    links = Links(frozenset({"dgx-1"}))

    assert (links.node("dgx-1"), links.node("dgx-2"), links.fleet()) == ("#node-dgx-1", "", "#fleet")
    assert links.pod("team-a", "trainer-0") == links.page("what-if") == links.fleet([("only", "stale")]) == ""
