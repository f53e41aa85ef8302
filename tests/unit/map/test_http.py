"""The map over HTTP: who sees what, sign-in, other sites, bad calls and streams."""

import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from numalign.kube.errors import Unreachable
from numalign.map import access
from numalign.map.access import LocalAccess
from numalign.map.answers import SECURITY_HEADERS
from numalign.map.links import SCRIPT, STATIC
from tests.unit.map import serving
from tests.unit.map.serving import ANN, BOB, CID, EVE, SECRET, TEAM, Answer, Browser, MapSite, pod
from tests.worlds.http_sites import MIB, until
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
def site() -> MapSite:
    return MapSite()


@pytest.fixture
async def browser(site: MapSite) -> AsyncIterator[Browser]:
    async with site.serving() as made:
        yield made


async def every_route(browser: Browser, token: str) -> dict[str, Answer]:
    """Return the answers of all routes."""
    answers = {path: await browser.get(path, token) for path in (*EVERY_PATH, "/static/map.css", "/nowhere")}
    for namespace in (TEAM, SECRET, "nowhere"):
        form = {"manifest": MANIFEST % namespace, "replicas": "3"}
        answers[f"what-if {namespace}"] = await browser.post("/what-if", token, data=form)
        answers[f"api {namespace}"] = await browser.post("/api/what-if", token, data=MANIFEST % namespace)
    return answers


OF_THE_SECRET = serving.OF_THE_SECRET
OF_THE_TEAM = (TEAM, "shown-pod", "shown-owner", "shown-uid")


@pytest.mark.parametrize(("token", "hidden"), [(BOB, OF_THE_SECRET), (CID, OF_THE_SECRET + OF_THE_TEAM)])
async def test_no_route_has_a_hidden_name(
    site: MapSite, browser: Browser, token: str, hidden: tuple[str, ...]
) -> None:
    answers = await every_route(browser, token)
    async with browser.stream(token) as stream:
        site.informer.put(pod(SECRET, "hidden", on="b"))
        events = await stream.until("event: nodes")

    texts = {path: each.text + str(each.headers) for path, each in answers.items()} | {"events": events}
    # An answer may repeat the question.
    assert [(path, word) for path in texts for word in hidden if word in texts[path] and word not in path
            and not (word == SECRET and SECRET in path)] == []  # fmt: skip
    assert ("shown-pod" in texts["/nodes/a"]) is (token == BOB)
    # What everybody may see is not hidden.
    assert '"misaligned":2' in texts["/api/nodes/a"].replace(" ", "")


async def test_ann_sees_every_route(browser: Browser) -> None:
    answers = await every_route(browser, ANN)

    assert {answers[path].status for path in EVERY_PATH} == {200}
    assert all(name in answers["/nodes/a"].text for name in ("shown-pod", "hidden-pod"))
    answer = answers[f"api {TEAM}"].json()
    assert (answer["name"], answer["replicas"]) == ("asked", 1)


async def test_namespace_rules_are_shown_to_those_who_see_it(browser: Browser) -> None:
    manifest = (MANIFEST % SECRET).replace("single-numa-node", "none")
    texts = [(await browser.post("/api/what-if", token, data=manifest)).text for token in (ANN, BOB)]

    assert ["restricted" in text for text in texts] == [True, False]


async def test_a_hidden_pod_is_like_a_missing_one(browser: Browser) -> None:
    answers = [await browser.get(f"/api/pods/{SECRET}/{name}", BOB) for name in ("hidden-pod", "no-pod")]

    assert {(answer.status, answer.text.replace("hidden-pod", "no-pod")) for answer in answers} == {
        (404, f'{{"error": "There is no pod {SECRET}/no-pod, or you may not list pods there."}}')
    }


async def test_a_node_that_cannot_be_shown_is_not_found(browser: Browser) -> None:
    for name, error in (("bare", "Node bare publishes no topology."), ("gone", "There is no node gone.")):
        answer = await browser.get(f"/api/nodes/{name}", ANN)
        assert (answer.status, answer.json()["error"]) == (404, error)


@pytest.mark.parametrize("path", [*EVERY_PATH, "/events"])
@pytest.mark.parametrize(
    ("token", "status"), [(None, 401), ("made-up", 401), (EVE, 403)], ids=["no token", "a stranger", "eve"]
)
async def test_without_the_right_nothing_is_shown(
    browser: Browser, path: str, token: str | None, status: int
) -> None:
    answer = await browser.get(path, token)

    assert answer.status == status
    assert not any(word in answer.text for word in ("node-0", "shown-pod", "hidden-pod") if word not in path)
    assert ('name="token"' in answer.text) is not path.startswith(("/api/", "/events"))


CREDENTIALS = [
    *({"Cookie": cookie} for cookie in ("numalign-map=", "numalign-map=a b", f"other={ANN}", "=;;=",
        "x" * 8000)),
    *({"Authorization": header} for header in ("Bearer", "Bearer  ", "Basic YTpi", "bearer made-up",
        f"Token {ANN}", "\xff")),
]  # fmt: skip


@pytest.mark.parametrize("headers", CREDENTIALS, ids=lambda headers: str(headers)[:40])
async def test_malformed_credentials_are_refused(browser: Browser, headers: dict[str, str]) -> None:
    page, document = [await browser.call("GET", path, headers=headers) for path in ("/", "/api/fleet")]

    assert (page.status, 'name="token"' in page.text) == (401, True)
    assert (document.status, document.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_an_unready_map_answers_503(site: MapSite, browser: Browser) -> None:
    for failure, waiting in ((Unreachable("gone"), None), (None, "Node: no first list yet")):
        site.api.failure, site.waiting_for = failure, waiting
        page, document = await browser.get("/", ANN), await browser.get("/api/fleet", ANN)

        assert (page.status, document.status, page.headers["Retry-After"]) == (503, 503, "1")
        assert (waiting or "could not check your token") in document.json()["error"]


async def test_a_token_becomes_a_cookie_that_scripts_cannot_read(site: MapSite, browser: Browser) -> None:
    form = {"token": f"  Bearer {BOB}\n", "next": "/nodes/a?x=1"}
    signed_in = await browser.post("/login", data=form)
    cookie = signed_in.headers["Set-Cookie"]
    sent = cookie.partition(";")[0]
    page = await browser.get("/nodes/a", Cookie=sent)
    signed_out = await browser.post("/logout", headers={"Cookie": sent, "Origin": browser.origin})
    behind_tls = {"X-Forwarded-Proto": "https"}
    secure = await browser.post("/login", data={"token": ANN}, headers=behind_tls)

    assert (signed_in.status, signed_in.headers["Location"]) == (303, "/nodes/a?x=1")
    assert cookie == f"numalign-map={BOB}; HttpOnly; Path=/; SameSite=Strict"
    assert (page.status, "shown-pod" in page.text, "hidden-pod" in page.text) == (200, True, False)
    assert 'action="/logout"' in page.text
    assert (signed_out.status, signed_out.headers["Location"]) == (303, "/login")
    assert "Max-Age=0" in signed_out.headers["Set-Cookie"]
    assert [line["user"] for line in site.log.of("map.signed_out")] == ["bob"]
    assert BOB not in site.log.stream.getvalue()
    assert secure.headers["Set-Cookie"] == (
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
async def test_sign_in_leads_to_a_page_of_the_map(browser: Browser, given: str, location: str) -> None:
    answer = await browser.post("/login", data={"token": ANN, "next": given})

    assert (answer.status, answer.headers["Location"]) == (303, location)


TOKENS = [
    ("none", "", 401, "Sign in"),
    ("markup", "<script>alert(1)</script>", 401, "This is not a token"),
    ("unknown", "a.b.c", 401, "it is too old"),
    ("without the right", EVE, 403, "numalign-map-viewer"),
    ("too long for a cookie", "x" * 5000, 401, "5,000 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("token", "status", "part"), table(TOKENS))
async def test_a_bad_token_is_refused_with_a_reason(
    site: MapSite, browser: Browser, token: str, status: int, part: str
) -> None:
    answer = await browser.post("/login", data={"token": token})

    assert (answer.status, part in answer.text, "Set-Cookie" in answer.headers) == (status, True, False)
    assert "<script>alert" not in answer.text
    assert not token.strip() or token not in site.log.stream.getvalue()


CROSS = [
    ("another site", {"Origin": "https://evil.example"}, 403),
    ("another site by the browser", {"Sec-Fetch-Site": "cross-site"}, 403),
    ("another port", {"Sec-Fetch-Site": "same-site"}, 403),
    ("no origin", {"Origin": "null"}, 403),
    ("both, and one is ours", {"Origin": "{own}", "Sec-Fetch-Site": "cross-site"}, 403),
    ("a longer name", {"Origin": "{own}.evil.example"}, 403),
    ("nonsense", {"Origin": "http://["}, 403),
    ("a cookie without an origin", {"Cookie": f"numalign-map={ANN}"}, 403),
    ("our origin", {"Origin": "{own}"}, 303),
    ("our origin by the browser", {"Sec-Fetch-Site": "same-origin", "Origin": "{own}"}, 303),
    ("no header", {}, 303),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "status"), table(CROSS))
async def test_posts_of_other_sites_are_refused(
    browser: Browser, headers: dict[str, str], status: int
) -> None:
    sent = {name: value.format(own=browser.origin) for name, value in headers.items()}
    paths = ("/login",) if status == 303 else ("/login", "/logout", "/what-if", "/api/what-if")
    answers = [await browser.post(path, data={"token": ANN}, headers=sent) for path in paths]

    assert {answer.status for answer in answers} == {status}
    assert {"from another site" in answer.text for answer in answers} == {status == 403}
    assert {"Set-Cookie" in answer.headers for answer in answers} == {status == 303}


@pytest.mark.parametrize("path", ["/", "/api/fleet", "/static/map.js", "/events", "/login", "/nowhere"])
async def test_a_local_map_refuses_other_host_names(site: MapSite, path: str) -> None:
    async with site.serving(LocalAccess()) as browser:
        answer = await browser.get(path, Host="evil.example")

    assert (answer.status, "open it as http://localhost" in answer.text) == (403, True)


async def test_a_local_map_has_no_sign_in(site: MapSite) -> None:
    async with site.serving(LocalAccess()) as browser:
        page, login = await browser.get("/nodes/a"), await browser.get("/login")

    assert ("hidden-pod" in page.text, 'action="/logout"' in page.text) == (True, False)
    assert (login.status, login.headers["Location"]) == (303, "/")


@pytest.mark.parametrize("path", [*EVERY_PATH, "/login", f"/static/{SCRIPT}", "/nowhere", "/api/nowhere"])
async def test_every_answer_has_security_headers(browser: Browser, path: str) -> None:
    page, head = await browser.get(path, ANN), await browser.call("HEAD", path, ANN)
    others = [await browser.get(path), await browser.call("DELETE", path, ANN)]

    for answer in (page, head, *others):
        assert SECURITY_HEADERS.keys() <= {*answer.headers}
        assert answer.headers["Server"] == "numalign"
    assert (head.status, head.text) == (page.status, "")
    assert head.headers["Content-Type"] == page.headers["Content-Type"]


async def test_files_with_their_version_are_cached(browser: Browser) -> None:
    queries = (f"?v={STATIC[SCRIPT].version}", "?v=0", "")
    answers = [await browser.get(f"/static/{SCRIPT}{query}") for query in queries]

    assert ["immutable" in answer.headers["Cache-Control"] for answer in answers] == [True, False, False]
    assert {answer.headers["Content-Type"] for answer in answers} == {"text/javascript; charset=utf-8"}


@pytest.mark.parametrize("path", ["/", "/what-if", "/nodes/a", "/api/fleet"])
@pytest.mark.parametrize("coding", ["gzip", "gzip, deflate, br"])
async def test_answers_are_compressed_on_request(
    site: MapSite, browser: Browser, path: str, coding: str
) -> None:
    packed, plain = [
        await browser.call("GET", path, ANN, headers={"Accept-Encoding": each})
        for each in (coding, "identity")
    ]

    assert ("Content-Encoding" in packed.headers, "Content-Encoding" in plain.headers) == (True, False)
    assert (packed.text[:40], len(packed.text)) == (plain.text[:40], len(plain.text))
    assert site.log.of("request.failed") == []


MANY_TILES = "/tiles?" + "&".join(f"name=n{number}" for number in range(201))
BAD = [
    # the call, the status, and a part of the answer
    ("no such page", "GET", "/nowhere", 404, "does not exist"),
    ("no such page of JSON", "GET", "/api/nowhere", 404, "does not exist"),
    ("a file of Python", "GET", "/static/%2e%2e%2faccess.py", 404, "does not exist"),
    ("another method", "PUT", "/", 405, "does not support this method"),
    ("a page that is a form", "GET", "/logout", 405, "does not support this method"),
    ("an unknown filter", "GET", "/?colour=red", 400, "colour"),
    ("too many tiles", "GET", MANY_TILES, 400, "at most 200"),
    ("a node of no name", "GET", "/nodes/%00", 404, "no node"),
    ("a node of a long name", "GET", f"/nodes/{'x' * 5000}", 404, "no node"),
    ("a node with a slash in it", "GET", "/nodes/..%2f..%2fetc", 404, "no node"),
    ("a pod without a namespace", "GET", "/pods/web", 404, "does not exist"),
    ("a pod of markup", "GET", "/pods/team/%3Cb%3E", 404, "no pod"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "status", "part"), table(BAD))
async def test_a_bad_call_has_a_reason(
    browser: Browser, method: str, path: str, status: int, part: str
) -> None:
    answer = await browser.call(method, path, ANN)

    assert (answer.status, part in answer.text, "<b>" in answer.text) == (status, True, False)


def body(data: bytes, content_type: str) -> dict[str, Any]:
    return {"data": data, "headers": {"Content-Type": content_type}}


def question(manifest: str = MANIFEST % TEAM, replicas: str = "1") -> dict[str, Any]:
    return {"data": {"manifest": manifest, "replicas": replicas}}


FORM = "multipart/form-data"
FILE = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%s\r\n--x--\r\n'
LONG = "a" * 300 * 1024
FORMS: list[tuple[str, dict[str, Any], int, str]] = [
    # the form, the status, and a part of the answer
    ("nothing", {"data": {}}, 400, "manifest"),
    ("no form", body(b"{}", "application/json"), 400, "unsupported content type"),
    ("a form without a boundary", body(b"a", FORM), 400, "cannot be read"),
    ("no YAML", question("a: ["), 400, "is not YAML"),
    ("no replicas", question(replicas="0"), 400, "from 1 to 1,000"),
    ("too long a manifest", question(LONG), 413, "262144"),
    ("too long a file", body((FILE % LONG).encode(), f"{FORM}; boundary=x"), 413, "262144"),
    ("a giant body", {"data": io.BytesIO(b"a" * (MIB + 1))}, 413, f"has more than {MIB} bytes"),
    ("a packed body", {"data": b"a", "headers": {"Content-Encoding": "gzip"}}, 415, "gzip"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "status", "part"), table(FORMS))
async def test_a_bad_form_has_a_reason(
    site: MapSite, browser: Browser, options: dict[str, Any], status: int, part: str
) -> None:
    answer = await browser.post("/what-if", ANN, **options)

    assert (answer.status, part in answer.text) == (status, True), answer.text[:2000]
    assert site.log.of("request.failed") == []


async def test_an_uploaded_file_comes_before_pasted_text(browser: Browser) -> None:
    form = aiohttp.FormData()
    form.add_field("manifest", "a: [")
    form.add_field("file", (MANIFEST % TEAM).encode(), filename="pod.yaml", content_type="application/yaml")
    form.add_field("replicas", "2")
    answer = await browser.post("/what-if", ANN, data=form)

    assert (answer.status, "asked" in answer.text) == (200, True)


@pytest.mark.parametrize("namespace", ["x" * 200_000, "Upper", "a_b", "-a", "a."])
async def test_an_invalid_namespace_is_not_reviewed(site: MapSite, browser: Browser, namespace: str) -> None:
    answer = await browser.post("/api/what-if", CID, data=MANIFEST % namespace)

    assert (answer.status, serving.reviewed_namespaces(site.api)) == (200, [])


def streams(site: MapSite) -> float | None:
    return site.registry.get_sample_value("numalign_map_streams")


async def test_streams_end_with_their_reader_or_the_program(site: MapSite, browser: Browser) -> None:
    async with browser.stream(ANN):
        await until(lambda: streams(site) == 1)
    await until(lambda: streams(site) == 0)
    async with browser.stream(ANN) as stream:
        await until(lambda: streams(site) == 1)
        browser.stop.ask()
        assert await stream.until_end() == ""


async def test_missed_changes_come_first(site: MapSite, browser: Browser) -> None:
    revision = (await browser.get("/api/fleet", ANN)).json()["revision"]
    site.informer.put(pod(TEAM, "another", on="b"))
    async with browser.stream(ANN, f"?since={revision}") as stream:
        assert 'data: ["b"]' in await stream.until("event: nodes")
    for nonsense in ("-1", "x", "9" * 40, "0x10", str(revision + 10**6)):
        async with browser.stream(ANN, "", nonsense) as stream:
            assert "event: all" in await stream.until("event: ")


async def test_a_stream_ends_with_its_token(site: MapSite) -> None:
    async with site.serving() as browser, browser.stream(BOB) as stream:
        del site.api.users[BOB]
        site.clock.seconds += access.REVIEW_SECONDS
        assert (await stream.until_end()).endswith("event: login\ndata:\n\n")


async def test_a_stream_ends_with_sign_out_and_others_go_on(site: MapSite) -> None:
    async with site.serving() as browser, browser.stream(BOB) as of_bob, browser.stream(ANN) as of_ann:
        await browser.post("/logout", BOB)
        await of_bob.until_end()
        site.informer.put(pod(TEAM, "another", on="b"))
        assert 'data: ["b"]' in await of_ann.until("event: nodes")
