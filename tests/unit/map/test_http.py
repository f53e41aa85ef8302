"""The map over HTTP: who is shown what, and what becomes of everything else that anybody can send."""

import asyncio
import io
from typing import Any

import aiohttp
import pytest

from numalign.kube.errors import Unreachable
from numalign.map import access
from numalign.map.access import LocalAccess
from numalign.map.answers import SECURITY_HEADERS
from numalign.map.assets import SCRIPT, STATIC
from tests.unit.map.reviewing import namespaces_asked
from tests.unit.map.serving import (
    ANN,
    BOB,
    CID,
    EVE,
    OF_THE_SECRET,
    SECRET,
    TEAM,
    Browser,
    MapHouse,
    Seen,
    pod,
)
from tests.worlds.houses import MIB, until
from tests.worlds.notation import table

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: asked, namespace: %s, annotations: {numalign.io/policy: single-numa-node}}
spec:
  containers:
  - name: main
    resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}
"""

PAGES = ("/", "/?resource=memory", "/tiles?name=a&name=b", "/nodes/a", "/nodes/b", "/what-if")
OF_PODS = tuple(f"/pods/{place}" for place in (f"{TEAM}/shown-pod", f"{SECRET}/hidden-pod"))
JSON = ("/api/fleet", "/api/nodes/a", *(f"/api{path}" for path in OF_PODS))
EVERY_PATH = (*PAGES, *OF_PODS, *JSON)


@pytest.fixture
def house() -> MapHouse:
    return MapHouse()


# Who is shown what.


@pytest.mark.parametrize("path", EVERY_PATH)
async def test_whoever_may_see_everything_sees_every_page(house: MapHouse, path: str) -> None:
    async with house.serving() as browser:
        seen = await browser.get(path, ANN)

    assert (seen.status, bool(seen.text)) == (200, True)


async def test_names_are_shown_to_those_who_may_list_pods(house: MapHouse) -> None:
    async with house.serving() as browser:
        of_ann, of_bob, of_cid = [await browser.get("/nodes/a", token) for token in (ANN, BOB, CID)]

    shown = [("shown-pod" in seen.text, "hidden-pod" in seen.text) for seen in (of_ann, of_bob, of_cid)]
    assert shown == [(True, True), (True, False), (False, False)]


async def everything(browser: Browser, token: str) -> dict[str, Seen]:
    """The answer of every route there is, to somebody who tries them all."""
    seen = {path: await browser.get(path, token) for path in (*EVERY_PATH, "/static/map.css", "/nowhere")}
    for namespace in (TEAM, SECRET, "nowhere"):
        form = {"manifest": MANIFEST % namespace, "replicas": "3"}
        seen[f"what-if {namespace}"] = await browser.post("/what-if", token, data=form)
        seen[f"api {namespace}"] = await browser.post("/api/what-if", token, data=MANIFEST % namespace)
    return seen


def said_by_the_asker(path: str) -> tuple[str, ...]:
    """What an answer may repeat of the question."""
    return (SECRET,) if SECRET in path else ()


@pytest.mark.parametrize(
    ("token", "others"), [(BOB, ()), (CID, (TEAM, "shown-pod", "shown-owner", "shown-uid"))]
)
async def test_no_answer_of_any_route_holds_a_name_that_somebody_may_not_see(
    house: MapHouse, token: str, others: tuple[str, ...]
) -> None:
    async with house.serving() as browser:
        seen = await everything(browser, token)
        stream = await events_of(browser, house, token)

    texts = {path: each.text + str(each.headers) for path, each in seen.items()} | {"events": stream}
    told = {
        (path, word)
        for path, text in texts.items()
        for word in (*OF_THE_SECRET, *others)
        if word in text and word not in path and word not in said_by_the_asker(path)
    }
    assert told == set()
    # What may be seen by everybody is there all the same, or this would show nothing.
    assert '"misaligned":2' in seen["/api/nodes/a"].text.replace(" ", "")


async def events_of(browser: Browser, house: MapHouse, token: str) -> str:
    """What a stream says of a pod that comes."""
    async with browser.stream(token) as stream:
        house.informer.put(pod(SECRET, "hidden", on="b"))
        return await stream.until("event: nodes")


async def test_a_pod_that_somebody_may_not_see_is_as_one_that_is_not_there(house: MapHouse) -> None:
    async with house.serving() as browser:
        answers = [await browser.get(f"/api/pods/{SECRET}/{name}", BOB) for name in ("hidden-pod", "no-pod")]

    assert {(seen.status, seen.text.replace("hidden-pod", "no-pod")) for seen in answers} == {
        (404, f'{{"error": "There is no pod {SECRET}/no-pod, or you may not list pods there."}}')
    }


async def test_what_a_namespace_asks_is_told_to_those_who_may_list_its_pods(house: MapHouse) -> None:
    manifest = (MANIFEST % SECRET).replace("single-numa-node", "none")
    async with house.serving() as browser:
        texts = [(await browser.post("/api/what-if", token, data=manifest)).text for token in (ANN, BOB)]

    assert ["restricted" in text for text in texts] == [True, False]


async def test_rights_that_come_are_known_after_a_minute(house: MapHouse) -> None:
    async with house.serving() as browser:
        before = await browser.get("/nodes/a", BOB)
        house.api.rights["bob"].add(("pods", SECRET))
        house.clock.seconds += access.REVIEW_SECONDS
        after = await browser.get("/nodes/a", BOB)

    assert ("hidden-pod" in before.text, "hidden-pod" in after.text) == (False, True)


async def test_a_node_without_topology_and_one_that_is_not_there(house: MapHouse) -> None:
    async with house.serving() as browser:
        bare, gone = [await browser.get(f"/api/nodes/{name}", ANN) for name in ("bare", "gone")]

    assert (bare.status, bare.json()["error"]) == (404, "Node bare publishes no topology.")
    assert (gone.status, gone.json()["error"]) == (404, "There is no node gone.")


# Who is let in.


@pytest.mark.parametrize("path", [*EVERY_PATH, "/events"])
@pytest.mark.parametrize(
    ("token", "status"), [(None, 401), ("made-up", 401), (EVE, 403)], ids=["nobody", "a stranger", "eve"]
)
async def test_without_the_right_there_is_nothing_to_see(
    house: MapHouse, path: str, token: str | None, status: int
) -> None:
    async with house.serving() as browser:
        seen = await browser.get(path, token)

    assert seen.status == status
    assert not any(word in seen.text for word in ("node-0", "shown-pod", "hidden-pod") if word not in path)
    if not path.startswith(("/api/", "/events")):
        assert 'name="token"' in seen.text


async def test_while_the_api_server_is_gone_nobody_is_let_in(house: MapHouse) -> None:
    house.api.failure = Unreachable("gone")
    async with house.serving() as browser:
        page, json = await browser.get("/", ANN), await browser.get("/api/fleet", ANN)

    assert (page.status, json.status, page.headers["Retry-After"]) == (503, 503, "1")
    assert "could not check your token" in json.json()["error"]


async def test_before_the_cluster_is_known_there_is_nothing_to_show(house: MapHouse) -> None:
    house.waiting_for = "Node: no first list yet"
    async with house.serving() as browser:
        seen = await browser.get("/api/fleet", ANN)

    assert (seen.status, "Node: no first list yet" in seen.json()["error"]) == (503, True)


async def test_a_pasted_token_becomes_a_cookie_that_no_script_reads_and_no_other_site_has_sent(
    house: MapHouse,
) -> None:
    async with house.serving() as browser:
        form = {"token": f"  Bearer {BOB}\n", "next": "/nodes/a?x=1"}
        signed_in = await browser.post("/login", data=form)
        cookie = signed_in.headers["Set-Cookie"]
        page = await browser.get("/nodes/a", Cookie=cookie.partition(";")[0])
        signed_out = await browser.post(
            "/logout", headers={"Cookie": cookie.partition(";")[0], "Origin": browser.origin}
        )

    assert (signed_in.status, signed_in.headers["Location"]) == (303, "/nodes/a?x=1")
    assert cookie == f"numalign-map={BOB}; HttpOnly; Path=/; SameSite=Strict"
    assert (page.status, "shown-pod" in page.text, "hidden-pod" in page.text) == (200, True, False)
    assert 'action="/logout"' in page.text
    assert (signed_out.status, signed_out.headers["Location"]) == (303, "/login")
    assert "Max-Age=0" in signed_out.headers["Set-Cookie"]
    assert [line["user"] for line in house.told.of("map.signed_out")] == ["bob"]
    assert BOB not in house.told.stream.getvalue()


async def test_behind_tls_the_cookie_is_for_tls_alone(house: MapHouse) -> None:
    async with house.serving() as browser:
        seen = await browser.post("/login", data={"token": ANN}, headers={"X-Forwarded-Proto": "https"})

    assert seen.headers["Set-Cookie"] == (
        f"__Host-numalign-map={ANN}; HttpOnly; Path=/; SameSite=Strict; Secure"
    )


NEXT = [
    ("a page", "/nodes/a?x=1", "/nodes/a?x=1"),
    ("none", "", "/"),
    ("another site", "https://evil.example/", "/"),
    ("another site without a scheme", "//evil.example/", "/"),
    ("the same, as browsers read it", "/\\evil.example", "/"),
    ("a line of its own", "/a\r\nSet-Cookie: b=c", "/"),
    ("a script", "javascript:alert(1)", "/"),
    ("the way out", "/logout", "/"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "location"), table(NEXT))
async def test_signing_in_leads_to_a_page_of_the_map(house: MapHouse, given: str, location: str) -> None:
    async with house.serving() as browser:
        seen = await browser.post("/login", data={"token": ANN, "next": given})

    assert (seen.status, seen.headers["Location"]) == (303, location)


TOKENS = [
    ("none", "", 401, "Sign in"),
    ("spaces", "  ", 401, "Sign in"),
    ("no token at all", "<script>alert(1)</script>", 401, "This is not a token"),
    ("one that nobody knows", "a.b.c", 401, "it is too old"),
    ("one that may not look", EVE, 403, "numalign-map-viewer"),
    ("one that no cookie holds", "x" * 5000, 401, "5,000 characters"),
    ("one that is endless", "x" * 100_000, 401, "100,000 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("token", "status", "said"), table(TOKENS))
async def test_a_token_that_is_not_good_is_told_what_is_wrong_with_it(
    house: MapHouse, token: str, status: int, said: str
) -> None:
    async with house.serving() as browser:
        seen = await browser.post("/login", data={"token": token})

    assert (seen.status, said in seen.text, "Set-Cookie" in seen.headers) == (status, True, False)
    assert "<script>alert" not in seen.text
    assert not token.strip() or token not in house.told.stream.getvalue()


@pytest.mark.parametrize("cookie", ["numalign-map=", "numalign-map=a b", f"other={ANN}", "=;;=", "x" * 8000])
async def test_a_broken_cookie_lets_nobody_in(house: MapHouse, cookie: str) -> None:
    async with house.serving() as browser:
        seen = await browser.get("/", Cookie=cookie)

    assert (seen.status, 'name="token"' in seen.text) == (401, True)


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer  ", "Basic YTpi", "bearer made-up", f"Token {ANN}", "\xff"]
)
async def test_a_broken_header_lets_nobody_in(house: MapHouse, header: str) -> None:
    async with house.serving() as browser:
        seen = await browser.get("/api/fleet", Authorization=header)

    assert (seen.status, seen.headers["WWW-Authenticate"]) == (401, "Bearer")


# What other sites can have a browser do.

CROSS = [
    ("another site", {"Origin": "https://evil.example"}),
    ("another site that the browser tells of", {"Sec-Fetch-Site": "cross-site"}),
    ("another port", {"Sec-Fetch-Site": "same-site"}),
    ("a page of no origin", {"Origin": "null"}),
    ("both, and one is ours", {"Origin": "{own}", "Sec-Fetch-Site": "cross-site"}),
    ("a name that begins like ours", {"Origin": "{own}.evil.example"}),
    ("nothing that makes sense", {"Origin": "http://["}),
    ("a cookie, and not a word where from", {"Cookie": f"numalign-map={ANN}"}),
]  # fmt: skip


@pytest.mark.parametrize("path", ["/login", "/logout", "/what-if", "/api/what-if"])
@pytest.mark.parametrize("headers", [headers for _, headers in CROSS], ids=[name for name, _ in CROSS])
async def test_what_a_page_of_another_site_sends_is_refused(
    house: MapHouse, path: str, headers: dict[str, str]
) -> None:
    async with house.serving() as browser:
        sent = {name: value.format(own=browser.origin) for name, value in headers.items()}
        seen = await browser.post(path, data={"token": ANN}, headers=sent)

    assert (seen.status, "from another site" in seen.text) == (403, True)
    assert "Set-Cookie" not in seen.headers


@pytest.mark.parametrize(
    "headers", [{"Origin": "{own}"}, {"Sec-Fetch-Site": "same-origin", "Origin": "{own}"}, {}]
)
async def test_what_our_own_pages_send_is_taken(house: MapHouse, headers: dict[str, str]) -> None:
    async with house.serving() as browser:
        sent = {name: value.format(own=browser.origin) for name, value in headers.items()}
        seen = await browser.post("/login", data={"token": ANN}, headers=sent)

    assert seen.status == 303


@pytest.mark.parametrize("path", ["/", "/api/fleet", "/static/map.js", "/events", "/login", "/nowhere"])
async def test_a_name_that_leads_here_from_elsewhere_reads_nothing(house: MapHouse, path: str) -> None:
    async with house.serving(LocalAccess()) as browser:
        seen = await browser.get(path, Host="evil.example")

    assert (seen.status, "open it as http://localhost" in seen.text) == (403, True)


async def test_at_ones_own_machine_nobody_signs_in(house: MapHouse) -> None:
    async with house.serving(LocalAccess()) as browser:
        page, login = await browser.get("/nodes/a"), await browser.get("/login")

    assert ("hidden-pod" in page.text, 'action="/logout"' in page.text) == (True, False)
    assert (login.status, login.headers["Location"]) == (303, "/")


@pytest.mark.parametrize("path", [*EVERY_PATH, "/login", "/static/map.js", "/nowhere", "/api/nowhere"])
async def test_every_answer_has_the_headers_that_keep_a_browser_from_harm(house: MapHouse, path: str) -> None:
    async with house.serving() as browser:
        answers = [await browser.get(path, token) for token in (ANN, None)]
        answers.append(await browser.ask("DELETE", path, ANN))

    for seen in answers:
        lacking = {name for name in SECURITY_HEADERS if name not in seen.headers}
        assert (lacking, seen.headers["Server"]) == (set(), "numalign")


async def test_files_are_kept_for_good_where_their_version_is_asked_for(house: MapHouse) -> None:
    async with house.serving() as browser:
        path = f"/static/{SCRIPT}"
        answers = [
            await browser.get(f"{path}{query}") for query in (f"?v={STATIC[SCRIPT].version}", "?v=0", "")
        ]

    assert ["immutable" in seen.headers["Cache-Control"] for seen in answers] == [True, False, False]
    assert {seen.headers["Content-Type"] for seen in answers} == {"text/javascript; charset=utf-8"}


@pytest.mark.parametrize("path", ["/", "/what-if", "/nodes/a", "/api/fleet"])
@pytest.mark.parametrize("coding", ["gzip", "gzip, deflate, br", "identity"])
async def test_answers_are_packed_where_that_is_understood(house: MapHouse, path: str, coding: str) -> None:
    async with house.serving() as browser:
        packed, plain = [
            await browser.ask("GET", path, ANN, headers={"Accept-Encoding": each})
            for each in (coding, "identity")
        ]

    assert ("Content-Encoding" in packed.headers) == ("gzip" in coding)
    assert house.told.of("request.failed") == []
    assert packed.text[:40] == plain.text[:40]
    assert len(packed.text) == len(plain.text)


@pytest.mark.parametrize("path", [*EVERY_PATH, "/login", f"/static/{SCRIPT}"])
async def test_whoever_asks_for_the_head_alone_gets_it(house: MapHouse, path: str) -> None:
    async with house.serving() as browser:
        head, page = await browser.ask("HEAD", path, ANN), await browser.get(path, ANN)

    assert (head.status, head.text) == (page.status, "")
    assert head.headers["Content-Type"] == page.headers["Content-Type"]


# What makes no sense.

MANY_TILES = "/tiles?" + "&".join(f"name=n{number}" for number in range(201))
BAD = [
    # what is wrong, the call, the status, and what is said
    ("no such page", "GET", "/nowhere", 404, "does not exist"),
    ("no such page of JSON", "GET", "/api/nowhere", 404, "does not exist"),
    ("no such file", "GET", "/static/../access.py", 404, "does not exist"),
    ("a file of Python", "GET", "/static/%2e%2e%2faccess.py", 404, "does not exist"),
    ("another method", "PUT", "/", 405, "does not support this method"),
    ("a form that is a page", "POST", "/nodes/a", 405, "does not support this method"),
    ("a page that is a form", "GET", "/logout", 405, "does not support this method"),
    ("a filter that does not exist", "GET", "/?colour=red", 400, "colour"),
    ("a selector that is none", "GET", "/?labels=a%3D%3D%3D", 400, "labels"),
    ("a policy that does not exist", "GET", "/?policy=strict", 400, "policy"),
    ("a condition that does not exist", "GET", "/api/fleet?only=nice", 400, "only"),
    ("a resource of no name", "GET", "/?resource=a%20b", 400, "resource"),
    ("too many tiles", "GET", MANY_TILES, 400, "at most 200"),
    ("a node of no name", "GET", "/nodes/%00", 404, "no node"),
    ("a node of a long name", "GET", f"/nodes/{'x' * 5000}", 404, "no node"),
    ("a node with a slash in it", "GET", "/nodes/..%2f..%2fetc", 404, "no node"),
    ("a pod without a namespace", "GET", "/pods/web", 404, "does not exist"),
    ("a pod of markup", "GET", "/pods/team/%3Cb%3E", 404, "no pod"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "status", "said"), table(BAD))
async def test_a_call_that_makes_no_sense_is_told_what_is_wrong(
    house: MapHouse, method: str, path: str, status: int, said: str
) -> None:
    async with house.serving() as browser:
        seen = await browser.ask(method, path, ANN)

    assert (seen.status, said in seen.text, "<b>" in seen.text) == (status, True, False)


def sent(body: bytes, content_type: str) -> dict[str, Any]:
    """A body of this type."""
    return {"data": body, "headers": {"Content-Type": content_type}}


def asked(manifest: str = MANIFEST % TEAM, replicas: str = "1") -> dict[str, Any]:
    """A question."""
    return {"data": {"manifest": manifest, "replicas": replicas}}


def uploaded(content: str) -> dict[str, Any]:
    """A file."""
    part = f'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{content}\r\n--x--\r\n'
    return sent(part.encode(), f"{FORM}; boundary=x")


FORM = "multipart/form-data"
FORMS: list[tuple[str, dict[str, Any], int, str]] = [
    # what is wrong, what is sent, the status, and what is said
    ("nothing", {"data": {}}, 400, "manifest"),
    ("no form", sent(b"{}", "application/json"), 400, "unsupported content type"),
    ("half a form", sent(b"--x\r\nnonsense", f"{FORM}; boundary=x"), 400, "cannot be read"),
    ("a form without a boundary", sent(b"a", FORM), 400, "cannot be read"),
    ("many fields", {"data": {f"f{number}": "" for number in range(9)}}, 400, "cannot be read"),
    ("no YAML", asked("a: ["), 400, "is not YAML"),
    ("no pod", asked("kind: Service\napiVersion: v1\nmetadata: {name: a}"), 400, "Service"),
    ("no replicas", asked(replicas="0"), 400, "from 1 to 1,000"),
    ("replicas in words", asked(replicas="many"), 400, "from 1 to 1,000"),
    ("endless replicas", asked(replicas="9" * 500), 400, "from 1 to 1,000"),
    ("too long a manifest", asked("a" * 300 * 1024), 413, "262144"),
    ("too long a file", uploaded("a" * 300 * 1024), 413, "262144"),
    ("a giant body", {"data": io.BytesIO(b"a" * (MIB + 1))}, 413, f"has more than {MIB} bytes"),
    ("a packed body", {"data": b"a", "headers": {"Content-Encoding": "gzip"}}, 415, "gzip"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "status", "said"), table(FORMS))
async def test_a_form_that_makes_no_sense_is_told_what_is_wrong(
    house: MapHouse, options: dict[str, Any], status: int, said: str
) -> None:
    async with house.serving() as browser:
        seen = await browser.post("/what-if", ANN, **options)

    assert (seen.status, said in seen.text) == (status, True), seen.text[:2000]
    assert house.told.of("request.failed") == []


async def test_a_file_that_is_uploaded_counts_before_what_is_pasted(house: MapHouse) -> None:
    form = aiohttp.FormData()
    form.add_field("manifest", "a: [")
    form.add_field("file", (MANIFEST % TEAM).encode(), filename="pod.yaml", content_type="application/yaml")
    form.add_field("replicas", "2")
    async with house.serving() as browser:
        seen = await browser.post("/what-if", ANN, data=form)

    assert (seen.status, "asked" in seen.text) == (200, True)


async def test_what_would_become_of_a_pod_is_told_to_programs(house: MapHouse) -> None:
    async with house.serving() as browser:
        seen = await browser.post("/api/what-if?replicas=3", ANN, data=MANIFEST % TEAM)

    answer = seen.json()
    assert (answer["name"], answer["replicas"]) == ("asked", 3)


# What changes.


async def test_streams_end_when_the_program_does(house: MapHouse) -> None:
    async with house.serving() as browser, browser.stream(ANN) as stream:
        await until(lambda: house.registry.get_sample_value("numalign_map_streams") == 1)
        browser.stop.ask()
        assert await stream.rest() == ""


async def test_a_stream_tells_what_changes_within_a_second(house: MapHouse) -> None:
    async with house.serving() as browser, browser.stream(ANN) as stream:
        house.informer.put(pod(TEAM, "another", on="b"))
        async with asyncio.timeout(1):
            text = await stream.until("event: nodes")

    assert 'data: ["b"]' in text


async def test_who_comes_back_is_told_what_was_missed(house: MapHouse) -> None:
    async with house.serving() as browser:
        revision = (await browser.get("/api/fleet", ANN)).json()["revision"]
        house.informer.put(pod(TEAM, "another", on="b"))
        async with browser.stream(ANN, f"?since={revision}") as stream:
            assert 'data: ["b"]' in await stream.until("event: nodes")
        for nonsense in ("-1", "x", "9" * 40, "0x10", str(revision + 10**6)):
            async with browser.stream(ANN, "", nonsense) as stream:
                assert "event: all" in await stream.until("event: ")


async def test_a_stream_ends_when_its_token_does(house: MapHouse) -> None:
    async with house.serving() as browser, browser.stream(BOB) as stream:
        del house.api.users[BOB]
        house.clock.seconds += access.REVIEW_SECONDS
        assert (await stream.rest()).endswith("event: login\ndata:\n\n")


async def test_a_stream_ends_when_whoever_looks_signs_out(house: MapHouse) -> None:
    async with house.serving() as browser, browser.stream(BOB) as of_bob, browser.stream(ANN) as of_ann:
        await browser.post("/logout", BOB)
        await of_bob.rest()
        house.informer.put(pod(TEAM, "another", on="b"))
        assert "event: nodes" in await of_ann.until("event: nodes")


async def test_whoever_is_gone_holds_no_stream(house: MapHouse) -> None:
    def streams() -> float | None:
        return house.registry.get_sample_value("numalign_map_streams")

    async with house.serving() as browser:
        async with browser.stream(ANN):
            await until(lambda: streams() == 1)
        await until(lambda: streams() == 0)


@pytest.mark.parametrize("namespace", ["x" * 200_000, "Upper", "a_b", "-a", "a."])
async def test_nobody_is_asked_about_what_can_be_no_namespace(house: MapHouse, namespace: str) -> None:
    async with house.serving() as browser:
        answer = await browser.post("/api/what-if", CID, data=MANIFEST % namespace)

    assert answer.status == 200
    assert namespaces_asked(house.api) == []
