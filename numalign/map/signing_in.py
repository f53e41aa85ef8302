"""Sign-in with a pasted token, sign-out, and protection against forms of other sites."""

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web

from numalign.map import access, answers, forms
from numalign.map.access import AccessRefused, MapAccess, SignInRequired
from numalign.map.events import Streams
from numalign.map.pages import Renderer
from numalign.runtime import calls
from numalign.runtime.logs import MANY_LINES, Log, QuietLog

LOGIN, LOGOUT = "/login", "/logout"

_BEARER = "Bearer "
_SAME_SITE = ("same-origin", "none")
_READS = ("GET", "HEAD")


class FromAnotherSite(AccessRefused):
    """Raised for a request that a page of another site had a browser send."""

    status = HTTPStatus.FORBIDDEN


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
            web.get(LOGIN, self._form),
            web.post(LOGIN, self._sign_in),
            web.post(LOGOUT, self._sign_out),
        ]

    async def _form(self, _request: web.Request) -> web.StreamResponse:
        return answers.page(self._renderer.login()) if self._access.signs_in else answers.redirect("/")

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        form = await forms.fields(calls.body(request), request.headers.get("Content-Type", ""))
        # A token copied from a terminal or a header may have spaces around it, or the prefix.
        token = forms.text(form, "token").strip().removeprefix(_BEARER)
        next_path = path_here(forms.text(form, "next"))
        try:
            if len(token) > access.LONGEST_COOKIE:
                raise SignInRequired(
                    f"This token has {len(token):,} characters, and browsers store at most"
                    f" {access.LONGEST_COOKIE:,}: use the token of a ServiceAccount."
                )
            await self._access.visitor(token)
        except AccessRefused as refusal:
            text = self._renderer.login(str(refusal), next_path=next_path)
            return answers.page(text, refusal.status)
        response = answers.redirect(next_path)
        access.keep_token(request, response, token)
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        try:
            visitor = await self._access.visitor(access.shown_token(request))
        except AccessRefused:
            # The visitor is not signed in.
            pass
        else:
            self._streams.end(visitor.key)
            self._log.info("map.signed_out", user=visitor.name)
        response = answers.redirect(LOGIN)
        access.drop_token(request, response)
        return response


def path_here(text: str) -> str:
    """Return a path of this server to redirect to; that of the fleet if the text leads elsewhere."""
    leads_away = not text.startswith("/") or text[1:2] in ("/", "\\") or not text.isprintable()
    return "/" if leads_away or not text.isascii() or text.startswith((LOGIN, LOGOUT)) else text


def check_origin(request: web.Request) -> None:
    """Raise `FromAnotherSite` for a request that a page of another site has a browser send.

    Every browser sends the origin, as `Sec-Fetch-Site` or as the `Origin` of a form. A client that sends
    neither is not a browser, so it must not have a cookie.
    """
    if request.method in _READS:
        return
    headers = request.headers
    checks: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("Sec-Fetch-Site", _SAME_SITE.__contains__),
        ("Origin", lambda origin: _is_own(origin, headers.get("Host", ""))),
    )
    verdicts = [check(headers[name]) for name, check in checks if name in headers]
    if not all(verdicts) or (not verdicts and request.cookies):
        raise FromAnotherSite("This form was sent from another site: open the map itself and try again.")


def _is_own(origin: str, host: str) -> bool:
    try:
        return bool(host) and urlsplit(origin).netloc == host
    except ValueError:
        return False
