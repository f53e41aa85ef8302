"""The map without a server: one file that loads nothing, and a drawing."""

import re
from functools import cache
from xml.etree import ElementTree as ET

import pytest

from numalign.map.links import Asset
from numalign.map.standalone import FILE_POLICY, WIDTH, export, fleet_svg
from numalign.map.views import Condition
from tests.unit.map.example_views import ANY, HOSTILE, fleet, many, node_view, tile
from tests.unit.map.test_pages import NAMES, Tags

SVG = "{http://www.w3.org/2000/svg}"


def exported(*names: str) -> str:
    """A file of these nodes, with the boxes of the first."""
    return "".join(export(fleet([tile(name) for name in names]), ANY, [node_view(name=names[0])]))


def test_a_file_has_the_fleet_and_its_nodes() -> None:
    page = exported("dgx-1", "dgx-2")

    assert re.findall(r'<section class="view" id="([^"]*)"', page) == ["fleet", "node-dgx-1"]
    assert '<a href="#node-dgx-1"><span>dgx-1' in page
    assert "<a><span>dgx-2" in page
    assert "<form" not in page


def test_a_file_loads_nothing_and_has_unique_ids() -> None:
    views = [node_view(name="dgx-1"), node_view(name="dgx-2")]
    attributes = [values for _, values in Tags("".join(export(fleet([tile()]), ANY, views))).elements]
    named = ("href", "src", "action")
    addresses = [each[name] or "" for each in attributes for name in named if name in each]
    ids = [each["id"] for each in attributes if "id" in each]

    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert len(ids) == len(set(ids))


def test_a_file_allows_its_own_style_and_script() -> None:
    page = exported("dgx-1")
    inlined = re.findall(r"<(style|script)>(.*?)</\1>", page, re.DOTALL)

    assert [tag for tag, _ in inlined] == ["style", "script"]
    assert all(Asset(text.encode(), "").integrity in FILE_POLICY for _, text in inlined)
    assert "unsafe" not in FILE_POLICY
    assert page.index("Content-Security-Policy") < page.index("<style>")


@cache
def harmless() -> Tags:
    return Tags(exported("harmless"))


@pytest.mark.parametrize("name", NAMES)
def test_names_in_a_file_are_no_markup(name: str) -> None:
    plain, hostile = harmless(), Tags(exported(name))

    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert name in hostile.text


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
def test_names_in_a_drawing_are_no_markup(name: str) -> None:
    ill = tile(name, node_class=name, conditions=frozenset({Condition.STALE}))
    drawn = ET.fromstring("".join(fleet_svg(fleet([ill], [name]), ANY)))  # noqa: S314  our own drawing

    tags = {"svg", "title", "style", "rect", "text", "g", "path"}
    assert {each.tag.removeprefix(SVG) for each in drawn.iter()} == tags
    assert not [key for each in drawn.iter() for key in each.attrib if key.startswith("on") or "href" in key]
