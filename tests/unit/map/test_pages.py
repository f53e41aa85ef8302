"""Pages as text: what stands in them, and that nothing of what tenants write is markup."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from http import HTTPStatus

import pytest

from numalign.kube import selectors
from numalign.kube.selectors import LabelSelector
from numalign.map import pages
from numalign.map.pages import CHUNK, Renderer, Viewer, WhatIfForm
from numalign.map.views import Condition, FleetQuery, HeldInZones, NodeTile, PodIntent, WebhookAnswer
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import Policy
from numalign.model.resources import Resources, ZoneId
from tests.unit.map.example_views import (
    ANY,
    GPU,
    HOSTILE,
    fleet,
    many,
    node_view,
    pod,
    pod_view,
    tile,
    what_if_result,
    zone,
)

RENDERER = Renderer()
VIEWER = Viewer("jane", can_sign_out=True)

ALLOWED = frozenset(
    [
        "a",
        "article",
        "b",
        "bdi",
        "body",
        "br",
        "button",
        "caption",
        "code",
        "dd",
        "defs",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "form",
        "g",
        "h1",
        "h2",
        "h3",
        "h4",
        "head",
        "header",
        "html",
        "input",
        "label",
        "legend",
        "li",
        "link",
        "main",
        "meta",
        "nav",
        "ol",
        "option",
        "p",
        "path",
        "pattern",
        "pre",
        "rect",
        "script",
        "section",
        "select",
        "small",
        "span",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "textarea",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
    ]
)


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


def fleet_page(name: str) -> str:
    shown = fleet([tile(name, node_class=name, conditions=frozenset({Condition.STALE}))], [f"{name}?"])
    query = FleetQuery(
        selector=LabelSelector((Requirement(name, Operator.EXISTS),)),
        node_class=name,
        resource=name,
        resource_required=True,
    )
    return "".join(RENDERER.fleet(replace(shown, resources=(name,)), query, Viewer(name)))


def tiles_page(name: str) -> str:
    return RENDERER.tiles(fleet([tile(name, node_class=name)], [f"{name}?"]), ANY, [name, f"{name}?"])


def node_page(name: str) -> str:
    held = (HeldInZones((name,), Resources({name: 3})),)
    resident = replace(pod(0, name, name), owner=name, why=name, predicted=held, observed=held, aligned=False)
    return RENDERER.node(replace(node_view([resident], name), labels={name: name}, taints=(name,)), VIEWER)


def pod_page(name: str) -> str:
    view = pod_view(name)
    containers = tuple(
        replace(each, name=name, loose=(name,), requests=Resources({name: 1})) for each in view.containers
    )
    intent = PodIntent(Policy.RESTRICTED, None, None, (name,), exclusive=True)
    texts = dict.fromkeys(("namespace", "owner", "uid", "scheduler", "reason", "message", "node"), name)
    lists = dict.fromkeys(("gates", "mistakes", "beside"), (name,))
    changes: dict[str, object] = {**texts, **lists, "containers": containers, "intent": intent}
    return RENDERER.pod(replace(view, **changes), VIEWER)  # type: ignore[arg-type]  # fields by name


def what_if_page(name: str) -> str:
    result = what_if_result()
    nodes = tuple(
        replace(each, name=name, node_class=name, reason=name, doubts=(name,))
        for each in result.templates[0].nodes
    )
    template = replace(
        result.templates[0],
        where=name,
        nodes=nodes,
        unknown=(name,),
        admission=WebhookAnswer(name, (name,), None),
        reasons=tuple((count, answer, name) for count, answer, _ in result.templates[0].reasons),
    )
    placed = (replace(result.placed[0], node=name, zones=(name,)),)
    shown = replace(result, kind=name, namespace=name, name=name, templates=(template,), placed=placed)
    return "".join(RENDERER.what_if(WhatIfForm(name, name, (name,)), shown, {name: tile(name)}, Viewer(name)))


def login_page(name: str) -> str:
    return RENDERER.login(name, next_path=name)


def error_page(name: str) -> str:
    return RENDERER.error(HTTPStatus.BAD_REQUEST, [name, name], Viewer(name))


PAGES: list[Callable[[str], str]] = [
    fleet_page, tiles_page, node_page, pod_page, what_if_page, login_page, error_page,
]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", HOSTILE)
def test_what_tenants_write_is_text(page: Callable[[str], str], name: str) -> None:
    plain, hostile = Tags(page("harmless")), Tags(page(name))

    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert [attributes.keys() for _, attributes in hostile.elements] == [
        each.keys() for _, each in plain.elements
    ]
    assert name in hostile.text or any(
        name in (each or "") for _, values in hostile.elements for each in values.values()
    )


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_anything_that_its_policy_forbids(page: Callable[[str], str]) -> None:
    for tag, attributes in Tags(page("harmless")).elements:
        assert tag in ALLOWED
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "script" or (attributes["src"] or "").startswith("/static/")
        assert all(
            (attributes.get(name) or "/").startswith(("/", "#", "data:image/svg+xml,"))
            for name in ("href", "src", "action")
        )


@pytest.mark.full
def test_five_thousand_nodes_are_two_megabytes_at_most() -> None:
    page = "".join(RENDERER.fleet(many(5000), ANY, VIEWER))

    assert len(page.encode()) <= 2 * 2**20
    assert page.count('<li><a href="/nodes/') == 5000


def test_a_large_page_comes_in_chunks_and_its_head_first() -> None:
    first, *others = RENDERER.fleet(many(1000), ANY, VIEWER)

    assert len(first) < CHUNK / 2
    assert "map.css" in first
    assert max(map(len, others)) < 2 * CHUNK


def test_a_tile_says_what_is_free_and_what_is_wrong() -> None:
    ill = tile("dgx-2", conditions=frozenset({Condition.MISALIGNED, Condition.STALE}))
    page = "".join(RENDERER.fleet(fleet([tile(), ill], ["burst-1"]), ANY, VIEWER))

    assert "zone 0: 30 of 62, zone 1: 62 of 62 free; misaligned, stale" in page
    assert '<b aria-hidden="true">MS</b>' in page
    assert '<a href="/nodes/burst-1">' in page
    assert "Signed in as" in page


def test_the_form_says_what_the_query_asks() -> None:
    query = FleetQuery(
        selector=selectors.parse("rack=a"),
        policy=Policy.SINGLE_NUMA_NODE,
        resource=GPU,
        resource_required=True,
        only=frozenset({Condition.STALE}),
    )
    elements = Tags("".join(RENDERER.fleet(fleet([tile()]), query, VIEWER))).elements
    chosen = [values.get("value") for _, values in elements if "checked" in values]

    assert chosen == ["stale"]
    assert sum("selected" in values for _, values in elements) == 2
    assert ("input", "rack=a") in [(tag, values.get("value")) for tag, values in elements]


def test_fragments_have_the_named_nodes_and_their_classes() -> None:
    shown = fleet([tile("dgx-1"), tile("dgx-2"), tile("cpu-1", node_class="cpu")], ["burst-1"])
    fragment = RENDERER.tiles(shown, ANY, ["dgx-1", "burst-1", "gone"])
    parts = {values["data-part"] for _, values in Tags(fragment).elements if "data-part" in values}

    assert re.findall('<li><a href="/nodes/([^"]*)', fragment) == ["dgx-1", "burst-1"]
    assert parts == {"figures", "classes", f"head-{tile().node_class}"}


def test_a_node_shows_boxes_in_boxes() -> None:
    page = RENDERER.node(node_view(), VIEWER)

    for text in (
        "Socket 0",
        "Zone 1",
        "L3 cache 3",
        "CPU 64: reserved for the system",
        "CPU 0: reserved",
        "CPU 1: pod 1",
        "rdma/hca",
    ):
        assert text in page
    assert page.count("<title>CPU ") == 128
    assert 'href="/pods/team-a/trainer-1"' in page


def test_a_pod_that_may_not_be_seen_has_no_name() -> None:
    hidden = RENDERER.node(node_view([pod(0, None)]), VIEWER)

    assert "a pod" in hidden
    assert "/pods/" not in hidden
    assert "1 pod" in hidden


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"aligned": False, "why": "the pod holds cpu in two zones"}, "misaligned"),
        ({"aligned": None, "why": "no agent reported what it holds"}, "not evaluated"),
        ({"extent": "devices only"}, "aligned (devices only)"),
        ({"observed": None}, "unknown"),
        ({"agrees": False}, "not as predicted"),
        ({"exclusive": True}, "exclusive zones"),
        ({"leaving": True}, "terminating"),
        ({"cpus": 0}, "none"),
    ],
)
def test_a_pod_on_a_node_says_how_it_sits(changes: dict[str, object], text: str) -> None:
    page = RENDERER.node(node_view([replace(pod(), **changes)]), VIEWER)  # type: ignore[arg-type]  # fields by name

    assert text in page


def test_a_node_names_the_zones_that_no_pod_can_use() -> None:
    page = RENDERER.node(replace(node_view(), other_zones=tuple(map(ZoneId, range(2, 34)))), VIEWER)

    assert "and 32 zones without CPUs and devices: 2-33" in page


def test_a_node_without_topology_says_so() -> None:
    page = RENDERER.node(replace(node_view(()), sockets=(), shared_devices=()), VIEWER)

    assert "The topology of this node is not published" in page


def test_a_machine_that_nobody_described_shows_amounts() -> None:
    view = node_view()
    bare = tuple(
        replace(socket, id=None, zones=tuple(replace(box, caches=(), devices=()) for box in socket.zones))
        for socket in view.sockets
    )
    page = RENDERER.node(replace(view, sockets=bare, machine_known=False), VIEWER)

    assert "Socket" not in page.partition("<h2>Zones</h2>")[0]
    assert "Cores and CPU IDs are unknown" in page
    assert "1 of 4 free" in page


def test_a_pod_page_says_where_it_is_and_what_it_asks() -> None:
    page = RENDERER.pod(pod_view(), VIEWER)

    for text in (
        "trainer-0",
        "/nodes/dgx-1",
        "8 cpu, 64Gi memory, 1 nvidia.com/gpu",
        "single-numa-node",
        "set by the pod",
        "0-7",
    ):
        assert text in page


def test_a_pod_that_waits_says_for_what() -> None:
    page = RENDERER.pod(
        pod_view(node="", pinned="dgx-2", on_node=None, zones=(), gates=("numalign.io/gate",)), VIEWER
    )

    assert "assigned to" in page
    assert "behind numalign.io/gate" in page
    assert "What it holds" not in page


def test_what_if_shows_each_answer_and_the_zones() -> None:
    page = "".join(RENDERER.what_if(WhatIfForm(), what_if_result(), {"dgx-1": tile()}, VIEWER))

    for text in (
        "has at most 3 nvidia.com/gpu free in any NUMA zone",
        "fits: 1, not now: 1",
        "never: 1",
        "94",
        "with warnings",
        "zones 1 of 2",
    ):
        assert text in page
    assert page.count('class="chosen"') == 1


def test_what_if_without_an_answer_asks() -> None:
    page = "".join(
        RENDERER.what_if(WhatIfForm(replicas="x", mistakes=("replicas: x is no number",)), None, {}, VIEWER)
    )

    assert "replicas: x is no number" in page
    assert "Results by node" not in page


def test_who_is_not_signed_in_cannot_sign_out() -> None:
    page = "".join(RENDERER.fleet(fleet([tile()]), ANY, Viewer()))

    assert "Sign out" not in page
    assert "Signed in" not in page


def test_pages_that_do_not_change_open_no_stream() -> None:
    still = [RENDERER.login(), RENDERER.error(HTTPStatus.NOT_FOUND, ["no such node"], VIEWER),
             "".join(RENDERER.fleet(fleet([tile()]), ANY, Viewer(live=False)))]  # fmt: skip

    assert not [page for page in still if "data-events" in page]


def test_an_error_says_everything_that_is_wrong() -> None:
    page = RENDERER.error(HTTPStatus.BAD_REQUEST, ["labels: x", "policy: y"], VIEWER)

    assert "labels: x" in page
    assert "policy: y" in page
    assert "Bad Request" in page


def test_an_empty_fleet_says_so() -> None:
    page = "".join(RENDERER.fleet(fleet([]), ANY, VIEWER))

    assert "No node matches" in page


def test_zones_that_lack_the_resource_are_told_apart() -> None:
    shown = fleet([tile(zones=(zone(0, 62, 62), zone(1, 0, 0)))] * 61)

    assert "<path class=x" in "".join(RENDERER.fleet(shown, ANY, VIEWER))


def test_a_tile_is_drawn_anew_when_what_it_shows_changes() -> None:
    renderer = Renderer()

    def drawn(node: NodeTile, query: FleetQuery = ANY) -> str:
        return renderer.tiles(fleet([node]), query, [node.name])

    first = drawn(tile())
    assert drawn(tile()) == first
    assert "zone 0: 5 of 62" in drawn(tile(zones=(zone(0, free=5), zone(1))))
    assert "stale" in drawn(tile(conditions=frozenset({Condition.STALE})))
    assert "zone 0: 1 of 4" in drawn(tile(), FleetQuery(resource=GPU))
    assert drawn(tile()) == first


def test_tiles_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_DRAWN", 10)
    renderer = Renderer()
    shown = many(100)
    page = "".join(renderer.fleet(shown, ANY, VIEWER))

    assert page == "".join(Renderer().fleet(shown, ANY, VIEWER))
    assert page.count('<li><a href="/nodes/') == 100
