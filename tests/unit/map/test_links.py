"""Addresses of pages, whatever a node or a pod is called."""

import pytest

from numalign.map.links import FileLinks, ServedLinks
from tests.unit.map.example_views import HOSTILE

SERVED = ServedLinks()


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
    links = FileLinks(frozenset({"dgx-1"}))

    assert (links.node("dgx-1"), links.node("dgx-2"), links.fleet()) == ("#node-dgx-1", "", "#fleet")
    assert links.pod("team-a", "trainer-0") == links.page("what-if") == links.fleet([("only", "stale")]) == ""
