"""Where links lead, whatever a node or a pod is called."""

import pytest

from numalign.map.links import FileLinks, ServedLinks
from tests.unit.map.example_views import HOSTILE

SERVED = ServedLinks()


def test_a_server_has_a_page_for_each_thing() -> None:
    assert SERVED.fleet() == "/"
    assert (
        SERVED.fleet([("labels", "rack=a,!spot"), ("only", "stale")])
        == "/?labels=rack%3Da%2C%21spot&only=stale"
    )
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


def test_a_file_has_the_nodes_that_it_was_given() -> None:
    links = FileLinks(frozenset({"dgx-1"}))

    assert links.node("dgx-1") == "#node-dgx-1"
    assert links.node("dgx-2") == ""
    assert links.fleet() == "#fleet"
    assert links.pod("team-a", "trainer-0") == links.page("what-if") == links.fleet([("only", "stale")]) == ""
