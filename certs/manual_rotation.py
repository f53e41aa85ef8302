"""
A rotation by hand: started now, and followed until the old authority is no longer trusted.

Following it includes doing what is due, as the controller does, so that the rotation ends even if no
controller runs.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from certs import bundle, certificate, rotation, secret
from certs.rotation import RotationPlan
from certs.rotator import RotationState, Rotator, retry_conflicts
from certs.secret import BadSecret, PairState, SecretRef
from numalign.kube.client import Api
from numalign.model.errors import BadInput, Mistake
from numalign.runtime.clock import Clock, Sleep

STAGED = "staged: the new certificate will be served when all callers trust its CA as well"
PROMOTED = "promoted: the new certificate is served; callers still trust the old CA as well"
DROPPED = "dropped: callers no longer trust the old CA"

_NO_PAIR = "contains no certificate yet: a running controller creates one"
_FOREIGN = (
    "is not managed by numalign (label app.kubernetes.io/managed-by): rotate it with the tool that created"
    " it, such as cert-manager's `cmctl renew`"
)
_EARLY = "is not valid before {}: check the clocks. If they are right, delete the Secret to create a new pair"


class NotRotatable(BadInput):
    """Raised for a Secret that does not exist, is not managed by numalign, or is not valid yet."""


async def begin(api: Api, ref: SecretRef, *, settle: float, now: Clock) -> RotationPlan:
    """
    Stage a pair like the one that is served, unless a rotation is in progress; return the plan to follow.

    Raise `NotRotatable`, `BadSecret`, and `ClusterError`.
    """
    return await retry_conflicts(lambda: _begin(api, ref, settle=settle, now=now))


async def follow(rotator: Rotator, *, every: float, report: Callable[[str], None], sleep: Sleep) -> None:
    """Do what is due and report each step, until only one authority is left; raise `ClusterError`."""
    last = ""
    while last != DROPPED:
        phase = _phase(await rotator.reconcile(), now=rotator.now())
        if phase != last:
            report(phase)
            last = phase
        if phase != DROPPED:
            await sleep(every)


async def _begin(api: Api, ref: SecretRef, *, settle: float, now: Clock) -> RotationPlan:
    shared = await secret.read(api, ref)
    if shared.mistakes:
        raise BadSecret(shared.mistakes)
    if shared.state is None or not shared.ours:
        raise NotRotatable([Mistake(str(ref), _FOREIGN if shared.state else _NO_PAIR)])
    served = certificate.first(shared.state.current.cert_pem)
    since, until = served.not_valid_before_utc, served.not_valid_after_utc
    if now() < since:
        raise NotRotatable([Mistake(str(ref), _EARLY.format(since.isoformat()))])
    plan = RotationPlan(certificate.names(served), max(1, (until - since) // timedelta(days=1)), settle)
    if not shared.state.next and not rotation.is_retiring(shared.state, now=now()):
        await secret.write(api, shared, rotation.staged(shared.state, plan=plan, now=now()))
    return plan


def _phase(observation: RotationState, *, now: datetime) -> str:
    """Return the last completed step, and what the next one is waiting for."""
    state = observation.secret.state
    if state is None:
        raise BadSecret(observation.secret.mistakes or [Mistake(str(observation.secret.ref), _NO_PAIR)])
    problems = bundle.problems(observation.configurations, state.bundle)
    waits = [f"\n  waiting: {kind}: {problem}" for kind, problem in problems.items()]
    return "".join((_step(state, now=now), *waits))


def _step(state: PairState, *, now: datetime) -> str:
    if state.next:
        return STAGED
    return PROMOTED if rotation.is_retiring(state, now=now) else DROPPED
