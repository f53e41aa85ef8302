"""The map without a server: one file that loads nothing, and a drawing."""

import re
from xml.etree import ElementTree as ET

import pytest

from numalign.map.assets import SCRIPT, STATIC, STYLE, Asset
from numalign.map.standalone import FILE_POLICY, WIDTH, export, fleet_svg
from numalign.map.views import Condition
from tests.unit.map.example_views import ANY, HOSTILE, fleet, many, node_view, tile
from tests.unit.map.test_pages import Tags

SVG = "{http://www.w3.org/2000/svg}"


def test_the_file_has_the_fleet_and_its_nodes() -> None:
    page = "".join(export(fleet([tile("dgx-1"), tile("dgx-2")]), ANY, [node_view(name="dgx-1")]))

    assert re.findall(r'<section class="view" id="([^"]*)"', page) == ["fleet", "node-dgx-1"]
    assert '<a href="#node-dgx-1"><span>dgx-1' in page
    assert "<a><span>dgx-2" in page
    assert "<form" not in page


def test_the_file_loads_nothing() -> None:
    page = "".join(export(fleet([tile()]), ANY, [node_view()]))
    addresses = [
        value or ""
        for _, attributes in Tags(page).elements
        for name, value in attributes.items()
        if name in ("href", "src", "action")
    ]

    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)


def test_the_file_allows_its_own_style_and_script_alone() -> None:
    page = "".join(export(fleet([tile()]), ANY, []))
    [style] = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    [script] = re.findall("<script>(.*?)</script>", page, re.DOTALL)

    assert Asset(style.encode(), "").integrity in FILE_POLICY
    assert Asset(script.encode(), "").integrity in FILE_POLICY
    assert "unsafe" not in FILE_POLICY
    assert page.index("Content-Security-Policy") < page.index("<style>")


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_file_shows_is_text(name: str) -> None:
    plain = "".join(export(fleet([tile("harmless")]), ANY, [node_view(name="harmless")]))
    hostile = "".join(export(fleet([tile(name)]), ANY, [node_view(name=name)]))

    assert [tag for tag, _ in Tags(hostile).elements] == [tag for tag, _ in Tags(plain).elements]
    assert name in Tags(hostile).text


def test_no_id_stands_twice() -> None:
    views = [node_view(name="dgx-1"), node_view(name="dgx-2")]
    ids = [
        attributes["id"]
        for _, attributes in Tags("".join(export(fleet([tile()]), ANY, views))).elements
        if "id" in attributes
    ]

    assert len(ids) == len(set(ids))


def test_own_files_cannot_end_their_element() -> None:
    assert b"</" not in STATIC[STYLE].body
    assert b"</" not in STATIC[SCRIPT].body
    assert b"<!--" not in STATIC[SCRIPT].body


@pytest.mark.parametrize("count", [0, 3, 60, 1000])
def test_a_drawing_has_every_node_inside(count: int) -> None:
    drawn = ET.fromstring("".join(fleet_svg(many(count), ANY)))  # noqa: S314  our own drawing
    height = int(drawn.attrib["height"])
    places = [
        tuple(map(int, re.findall(r"-?\d+", group.attrib["transform"])))
        for group in drawn.iter(f"{SVG}g")
        if group.find(f"{SVG}title") is not None
    ]

    assert len(set(places)) == len(places) == count
    assert all(0 <= x < WIDTH and 0 <= y < height for x, y in places)


@pytest.mark.parametrize("name", [*HOSTILE, "a\0b\x1b[0m"])
def test_what_a_drawing_shows_is_text(name: str) -> None:
    ill = tile(name, node_class=name, conditions=frozenset({Condition.STALE}))
    text = "".join(fleet_svg(fleet([ill], [name]), ANY))
    drawn = ET.fromstring(text)  # noqa: S314  our own drawing

    assert {each.tag.removeprefix(SVG) for each in drawn.iter()} == {
        "svg", "title", "style", "rect", "text", "g", "path",
    }  # fmt: skip
    assert not [key for each in drawn.iter() for key in each.attrib if key.startswith("on") or "href" in key]
