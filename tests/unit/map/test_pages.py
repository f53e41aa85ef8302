"""Pages as text: their contents, and that nothing that tenants write is markup."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from html.parser import HTMLParser
from http import HTTPStatus
from typing import Any

import pytest

from numalign.kube import selectors
from numalign.kube.selectors import LabelSelector
from numalign.map import pages
from numalign.map.pages import CHUNK, Renderer, Viewer, WhatIfForm
from numalign.map.views import (
    Condition,
    Fleet,
    FleetQuery,
    NodeTile,
    NodeView,
    PodView,
)
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import Policy
from numalign.model.resources import Resources, ZoneId
from tests.unit.map import example_views as views
from tests.unit.map.example_views import (
    ANY,
    GPU,
    HOSTILE,
    fleet,
    node_view,
    pod,
    pod_info,
    pod_view,
    tile,
    zone,
)
from tests.worlds.notation import table

RENDERER = Renderer()
VIEWER = Viewer("jane", can_sign_out=True)

ELEMENTS = (
    "a article b bdi body br button caption code dd defs details div dl dt fieldset form g h1 h2 h3 h4 head"
    " header html input label legend li link main meta nav ol option p path pattern pre rect script section"
    " select small span summary svg table tbody td text textarea th thead time title tr ul"
)
ALLOWED = frozenset(ELEMENTS.split())


class Tags(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def fleet_page(shown: Fleet, query: FleetQuery = ANY, viewer: Viewer = VIEWER) -> str:
    return "".join(RENDERER.fleet(shown, query, viewer))


def named(shown: Any, name: str) -> Any:  # noqa: ANN401  any part of a view
    """The same with this name as every text that is not empty."""
    match shown:
        case Enum() | "":
            return shown
        case str():
            return name
        case tuple():
            return tuple(named(each, name) for each in shown)
        case Resources():
            return Resources(dict.fromkeys([name], 3))
        case Mapping():
            return {named(key, name): named(value, name) for key, value in shown.items()}
        case _ if is_dataclass(shown) and not isinstance(shown, type):
            texts = {each.name: named(getattr(shown, each.name), name) for each in fields(shown) if each.init}
            return replace(shown, **texts)
    return shown


ILL = tile("dgx-2", conditions=frozenset({Condition.MISALIGNED, Condition.STALE}))
RACK = LabelSelector((Requirement("rack", Operator.EXISTS),))
QUERY = FleetQuery(selector=RACK, node_class="big", resource=GPU, resource_required=True)
MISPLACED = node_view([replace(pod(), why="no", aligned=False)])
ANSWER = replace(
    views.what_if_result(), templates=(replace(views.what_if_result().templates[0], where="spec.template"),)
)
UNFIT = pod_view(
    pod_info(reason="Evicted", message="no", gates=("gate",)), mistakes=("none",), beside=("web",)
)
PAGES: dict[str, Callable[[str], str]] = {
    "fleet": lambda name: fleet_page(
        named(fleet([ILL], ["burst-1"]), name), named(QUERY, name), Viewer(name)
    ),
    "tiles": lambda name: RENDERER.tiles(named(fleet([ILL]), name), ANY, [name]),
    "node": lambda name: RENDERER.node(named(MISPLACED, name), VIEWER),
    "pod": lambda name: RENDERER.pod(named(UNFIT, name), VIEWER),
    "what-if": lambda name: "".join(
        RENDERER.what_if(
            WhatIfForm(name, name, (name,)), named(ANSWER, name), {name: tile(name)}, Viewer(name)
        )
    ),
    "login": lambda name: RENDERER.login(name, next_path=name),
    "error": lambda name: RENDERER.error(HTTPStatus.BAD_REQUEST, [name, name], Viewer(name)),
}


NAMES = [pytest.param(name, marks=pytest.mark.full if at != 1 else ()) for at, name in enumerate(HOSTILE)]
"""All, and in a sample the one that would end a text as well as an attribute."""


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("name", NAMES)
def test_texts_of_tenants_are_no_markup(page: Callable[[str], str], name: str) -> None:
    plain, hostile = Tags(page("harmless")), Tags(page(name))

    assert [(tag, [*values]) for tag, values in hostile.elements] == [
        (tag, [*values]) for tag, values in plain.elements
    ]
    assert name in hostile.text or any(
        name in (each or "") for _, values in hostile.elements for each in values.values()
    )


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_pages_obey_their_content_security_policy(page: Callable[[str], str]) -> None:
    for tag, attributes in Tags(page("harmless")).elements:
        assert tag in ALLOWED
        assert not [name for name in attributes if name.startswith(("on", "style"))]
        assert tag != "script" or (attributes["src"] or "").startswith("/static/")
        assert all(
            (attributes.get(name) or "/").startswith(("/", "#", "data:image/svg+xml,"))
            for name in ("href", "src", "action")
        )


@pytest.mark.full
def test_five_thousand_nodes_are_two_megabytes_at_most() -> None:
    page = fleet_page(views.many(5000))

    assert len(page.encode()) <= 2 * 2**20
    assert page.count('<li><a href="/nodes/') == 5000


def test_a_large_page_comes_in_chunks() -> None:
    first, *others = RENDERER.fleet(views.many(1000), ANY, VIEWER)

    assert len(first) < CHUNK / 2
    assert "map.css" in first
    assert max(map(len, others)) < 2 * CHUNK


def test_the_form_has_the_query() -> None:
    query = FleetQuery(
        selector=selectors.parse("rack=a"),
        policy=Policy.SINGLE_NUMA_NODE,
        resource=GPU,
        resource_required=True,
        only=frozenset({Condition.STALE}),
    )
    elements = Tags(fleet_page(fleet([tile()]), query)).elements

    assert [values.get("value") for _, values in elements if "checked" in values] == ["stale"]
    assert sum("selected" in values for _, values in elements) == 2
    assert ("input", "rack=a") in [(tag, values.get("value")) for tag, values in elements]


def test_fragments_have_the_named_nodes_and_their_classes() -> None:
    shown = fleet([tile("dgx-1"), tile("dgx-2"), tile("cpu-1", node_class="cpu")], ["burst-1"])
    fragment = RENDERER.tiles(shown, ANY, ["dgx-1", "burst-1", "gone"])
    parts = {values["data-part"] for _, values in Tags(fragment).elements if "data-part" in values}

    assert re.findall('<li><a href="/nodes/([^"]*)', fragment) == ["dgx-1", "burst-1"]
    assert parts == {"figures", "classes", f"head-{tile().node_class}"}


def with_pod(**changes: object) -> NodeView:
    return node_view([replace(pod(), **changes)])  # type: ignore[arg-type]  # fields by name


def without_machine() -> NodeView:
    view = node_view()
    sockets = tuple(
        replace(socket, id=None, zones=tuple(replace(box, caches=(), devices=()) for box in socket.zones))
        for socket in view.sockets
    )
    return replace(view, sockets=sockets, machine_known=False)


UNBOUND = pod_info(node="", pinned="dgx-2", gates=("numalign.io/gate",))
WAITING = pod_view(UNBOUND, node="", on_node=None, zones=())
EMPTY_FORM = WhatIfForm(replicas="x", mistakes=("replicas: x is no number",))
CONTENTS: list[tuple[str, str | Fleet | NodeView | PodView, list[str], list[str]]] = [
    # the page, texts that are on it, and texts that are not
    ("a fleet", fleet([tile(), ILL], ["burst-1"]), [
        "zone 0: 30 of 62, zone 1: 62 of 62 free; misaligned, stale", '<b aria-hidden="true">MS</b>',
        '<a href="/nodes/burst-1">', "Signed in as"], []),
    ("an empty fleet", fleet([]), ["No node matches"], []),
    ("zones without the resource", fleet([tile(zones=(zone(0, 62, 62), zone(1, 0, 0)))] * 61),
        ["<path class=x"], []),
    ("a fleet without sign-in", fleet_page(fleet([tile()]), viewer=Viewer()), [], ["Sign out", "Signed in"]),
    ("a fleet that is not live", fleet_page(fleet([tile()]), viewer=Viewer(live=False)), [], ["data-events"]),
    ("a sign-in", RENDERER.login(), [], ["data-events"]),
    ("an error", RENDERER.error(HTTPStatus.BAD_REQUEST, ["labels: x", "policy: y"], VIEWER),
        ["labels: x", "policy: y", "Bad Request"], ["data-events"]),
    ("a node", node_view(), ["Socket 0", "Zone 1", "L3 cache 3", "CPU 64: reserved for the system",
        "CPU 0: reserved", "CPU 1: pod 1", "rdma/hca", 'href="/pods/team-a/trainer-1"'], []),
    ("a hidden pod", node_view([pod(0, None)]), ["a pod", "1 pod"], ["/pods/"]),
    ("a misaligned pod", with_pod(aligned=False, why="the pod holds cpu in two zones"), ["misaligned"], []),
    ("an unjudged pod", with_pod(aligned=None, why="no agent reported what it holds"), ["not evaluated"], []),
    ("a pod aligned in part", with_pod(extent="devices only"), ["aligned (devices only)"], []),
    ("an unobserved pod", with_pod(observed=None), ["unknown"], []),
    ("a wrong prediction", with_pod(agrees=False), ["not as predicted"], []),
    ("an exclusive pod", with_pod(exclusive=True), ["exclusive zones"], []),
    ("a terminating pod", with_pod(leaving=True), ["terminating"], []),
    ("a pod without CPUs", with_pod(cpus=0), ["none"], []),
    ("zones that no pod can use", replace(node_view(), other_zones=tuple(map(ZoneId, range(2, 34)))),
        ["and 32 zones without CPUs and devices: 2-33"], []),
    ("no topology", replace(node_view(()), sockets=(), shared_devices=()),
        ["The topology of this node is not published"], []),
    ("no machine", without_machine(), ["Cores and CPU IDs are unknown", "1 of 4 free"], ["<h3>Socket"]),
    ("a running pod", pod_view(), ["trainer-0", "/nodes/dgx-1", "8 cpu, 64Gi memory, 1 nvidia.com/gpu",
        "single-numa-node", "set by the pod", "0-7"], []),
    ("a pending pod", WAITING, ["assigned to", "behind numalign.io/gate"], ["What it holds"]),
    ("answers", "".join(RENDERER.what_if(WhatIfForm(), views.what_if_result(), {"dgx-1": tile()}, VIEWER)),
        ["has at most 3 nvidia.com/gpu free in any NUMA zone", "fits: 1, not now: 1", "never: 1", "94",
         "with warnings", "zones 1 of 2", 'class="chosen"'], []),
    ("a question with mistakes", "".join(RENDERER.what_if(EMPTY_FORM, None, {}, VIEWER)),
        ["replicas: x is no number"], ["Results by node"]),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "present", "absent"), table(CONTENTS))
def test_a_page_has_these_texts(
    shown: str | Fleet | NodeView | PodView, present: list[str], absent: list[str]
) -> None:
    match shown:
        case Fleet():
            page = fleet_page(shown)
        case NodeView():
            page = RENDERER.node(shown, VIEWER)
        case PodView():
            page = RENDERER.pod(shown, VIEWER)
        case str():
            page = shown

    assert [text for text in present if text not in page] == []
    assert [text for text in absent if text in page] == []


def test_a_changed_tile_is_drawn_again() -> None:
    renderer = Renderer()

    def drawn(node: NodeTile, query: FleetQuery = ANY) -> str:
        return renderer.tiles(fleet([node]), query, [node.name])

    first = drawn(tile())
    assert drawn(tile()) == first
    assert "zone 0: 5 of 62" in drawn(tile(zones=(zone(0, free=5), zone(1))))
    assert "stale" in drawn(tile(conditions=frozenset({Condition.STALE})))
    assert "zone 0: 1 of 4" in drawn(tile(), FleetQuery(resource=GPU))
    assert drawn(tile()) == first


def test_cached_tiles_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_DRAWN", 10)
    renderer, shown = Renderer(), views.many(100)
    page = "".join(renderer.fleet(shown, ANY, VIEWER))

    assert page == fleet_page(shown)
    assert page.count('<li><a href="/nodes/') == 100
