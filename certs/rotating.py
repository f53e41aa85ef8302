"""
A rotation by hand: begun now, and followed until the old authority is trusted no longer.

Whoever follows it also does what is due, as the controller does, so that it comes to its end even while no
controller runs.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from certs import bundle, certificate, rotation, secret
from certs.rotation import Plan
from certs.secret import Place
from certs.shared import Look, SharedPair
from certs.state import BadSecret, State
from numalign.kube.client import Api, Conflict
from numalign.model.errors import BadInput, Mistake
from numalign.runtime.clock import Clock, Sleep

Say = Callable[[str], None]

STAGED = "staged: the next pair waits until all who call trust its authority, too"
PROMOTED = "promoted: the next pair is served; the authority of the old one goes on being trusted meanwhile"
DROPPED = "dropped: the authority of the old pair is trusted no longer"
ATTEMPTS = 5


class NotRotatable(BadInput):
    """Raised for a Secret that is not there, not ours to change, or not valid yet."""


async def begin(api: Api, place: Place, *, settle: float, now: Clock) -> Plan:
    """Stage a pair like the one that is served, unless a rotation is under way; gives the plan to follow.

    Raises `NotRotatable`, `BadSecret`, and `ClusterError`.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return await _begun(api, place, settle=settle, now=now)
        except Conflict:
            continue
    return await _begun(api, place, settle=settle, now=now)


async def follow(shared: SharedPair, *, every: float, say: Say, sleep: Sleep) -> None:
    """Do what is due and say each step, until only one authority is left; raises `ClusterError`."""
    told = ""
    while True:
        look = await shared.look()
        if (text := _phase(look, now=shared.now())) != told:
            told = text
            say(text)
        if told == DROPPED:
            return
        await sleep(every)


async def _begun(api: Api, place: Place, *, settle: float, now: Clock) -> Plan:
    found = await secret.find(api, place)
    if found.mistakes:
        raise BadSecret(found.mistakes)
    if found.state is None or not found.ours:
        raise NotRotatable([Mistake(str(place), _WHY[found.state is None])])
    shown = certificate.first(found.state.current.cert_pem)
    if now() < shown.not_valid_before_utc:
        raise NotRotatable([Mistake(str(place), _EARLY.format(shown.not_valid_before_utc.isoformat()))])
    plan = _like(found.state, settle=settle)
    if not found.state.next and not rotation.leaving(found.state, now=now()):
        await secret.keep(api, found, rotation.staged(found.state, plan=plan, now=now()))
    return plan


def _like(held: State, *, settle: float) -> Plan:
    """The names and the days of the pair that is served."""
    shown = certificate.first(held.current.cert_pem)
    life = shown.not_valid_after_utc - shown.not_valid_before_utc
    return Plan(certificate.names(shown), max(1, life // timedelta(days=1)), settle)


def _phase(look: Look, *, now: datetime) -> str:
    """What has been done last, and what it is that is not done yet."""
    held = look.found.state
    if held is None:
        raise BadSecret(look.found.mistakes or [Mistake(str(look.found.place), _WHY[True])])
    problems = bundle.problems(look.configurations, held.bundle)
    waits = [f"\n  waiting: {kind}: {problem}" for kind, problem in problems.items()]
    step = STAGED if held.next else PROMOTED if rotation.leaving(held, now=now) else DROPPED
    return "".join((step, *waits))


_EARLY = "is not valid before {}: some clock is wrong. When none is, delete the Secret and it is made anew"
_WHY = {
    True: "holds no pair yet: a running controller makes one",
    False: "is not ours to change (its label app.kubernetes.io/managed-by is not numalign): whoever made it"
    " rotates it, like cert-manager with `cmctl renew`",
}
