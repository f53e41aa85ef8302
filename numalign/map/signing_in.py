"""Sign-in with a pasted token, sign-out, and protection against forms of other sites."""

from urllib.parse import urlsplit

from aiohttp import web

from numalign.map import answers, forms
from numalign.map.access import AccessRefused, MapAccess, SignInRequired
from numalign.map.events import Streams
from numalign.map.pages import Renderer
from numalign.runtime import calls
from numalign.runtime.logs import MANY_LINES, Log, QuietLog

LOGIN, LOGOUT = "/login", "/logout"

LONGEST_COOKIE = 3800
"""The limit in characters of a token in a cookie: browsers store 4,096 bytes, with name and attributes."""

COOKIE, SECURE_COOKIE = "numalign-map", "__Host-numalign-map"


class SigningIn:
    """Keeps the token of an admitted visitor in a cookie of the browser."""

    def __init__(self, access: MapAccess, renderer: Renderer, streams: Streams, *, log: Log) -> None:
        self._access = access
        self._renderer = renderer
        self._streams = streams
        self._log = QuietLog(log, lines=MANY_LINES)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes for signing in and out."""
        return [
            web.get(LOGIN, self._sign_in),
            web.post(LOGIN, self._sign_in),
            web.post(LOGOUT, self._sign_out),
        ]

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return answers.page(self._renderer.login()) if self._access.signs_in else answers.redirect("/")
        form = await forms.fields(calls.body(request), request.headers.get("Content-Type", ""))
        # A token copied from a terminal or a header may have spaces around it, or the prefix.
        token = forms.text(form, "token").strip().removeprefix("Bearer ")
        next_path = path_here(forms.text(form, "next"))
        try:
            if len(token) > LONGEST_COOKIE:
                raise SignInRequired(
                    f"This token has {len(token):,} characters, and browsers store at most"
                    f" {LONGEST_COOKIE:,}: use the token of a ServiceAccount."
                )
            await self._access.visitor(token)
        except AccessRefused as refusal:
            text = self._renderer.login(str(refusal), next_path=next_path)
            return answers.page(text, refusal.status)
        response, secure = answers.redirect(next_path), _is_secure(request)
        # The browser sends the cookie to this server only and hides it from scripts.
        response.set_cookie(
            _cookie(request), token, path="/", httponly=True, samesite="Strict", secure=secure
        )
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        try:
            visitor = await self._access.visitor(shown_token(request))
        except AccessRefused:
            # The visitor is not signed in.
            pass
        else:
            self._streams.end(visitor.key)
            self._log.info("map.signed_out", user=visitor.name)
        response, secure = answers.redirect(LOGIN), _is_secure(request)
        response.del_cookie(_cookie(request), path="/", httponly=True, samesite="Strict", secure=secure)
        return response


def _is_secure(request: web.Request) -> bool:
    """Return whether the browser uses TLS, with this server or with a proxy in front of it."""
    return request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"


def _cookie(request: web.Request) -> str:
    return SECURE_COOKIE if _is_secure(request) else COOKIE


def shown_token(request: web.Request) -> str | None:
    """Return the token of a request: that of its header, or else that of its cookie."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.cookies.get(_cookie(request))


def has_cookie(request: web.Request) -> bool:
    """Return whether a browser is signed in by a cookie, and not by a header that a proxy sets."""
    return "Authorization" not in request.headers and _cookie(request) in request.cookies


def path_here(text: str) -> str:
    """Return a path of this server to redirect to; that of the fleet if the text leads elsewhere."""
    leads_away = not text.startswith("/") or text[1:2] in ("/", "\\") or not text.isprintable()
    return "/" if leads_away or not text.isascii() or text.startswith((LOGIN, LOGOUT)) else text


def check_origin(request: web.Request) -> None:
    """Raise `AccessRefused` for a request that a page of another site has a browser send.

    Every browser sends the origin, as `Sec-Fetch-Site` or as the `Origin` of a form. A client that sends
    neither is not a browser, so it must not have a cookie.
    """
    if request.method in ("GET", "HEAD"):
        return
    headers, host = request.headers, request.headers.get("Host", "")
    verdicts = list[bool]()
    if (site := headers.get("Sec-Fetch-Site")) is not None:
        verdicts.append(site in ("same-origin", "none"))
    if (origin := headers.get("Origin")) is not None:
        try:
            verdicts.append(bool(host) and urlsplit(origin).netloc == host)
        except ValueError:
            verdicts.append(False)
    if not all(verdicts) or (not verdicts and request.cookies):
        raise AccessRefused("This form was sent from another site: open the map itself and try again.")
