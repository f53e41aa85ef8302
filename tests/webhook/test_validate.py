"""Yes, no and what is said, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.admission import shortfalls
from numalign.kube.decode.pod_reader import PodReader
from numalign.model.errors import Mistake
from numalign.model.intent import Match
from tests.notation import node, table
from tests.webhook.conftest import POLICY, Raw, asked, decided, moment, raw, read, with_spec
from webhook.review import Allowed, Denied, StatusReason
from webhook.snapshot_holder import Moment
from webhook.subject import InvalidPod, ReviewedPod, subject
from webhook.validate import LONGEST_SHOWN, LONGEST_WARNING, refuse_broken, validate

SINGLE = "single-numa-node"
VOLCANO = "volcano.sh/numa-topology-policy"

TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
FULL = node("cpu=8/8/1 mem=8Gi gpu=2", "cpu=8/8/1 mem=8Gi gpu=2", policy=SINGLE)
LOOSE = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy="none")

ROOM, NO_ROOM, BARE = moment([TWO]), moment([FULL]), moment([])

ONE_GPU, FOUR_GPUS = "cpu=2 mem=1Gi gpu=1", "cpu=2 mem=1Gi gpu=4"
FITS = raw(ONE_GPU, policy=SINGLE)
NEVER = raw(FOUR_GPUS, policy=SINGLE)
SILENT = raw(ONE_GPU)
SHARED = raw("cpu=1..2 mem=1Gi")


def verdict(made: Raw, now: Moment, *, match: str = "satisfies", may_fit: bool = False) -> Allowed | Denied:
    return validate(read(made, now, match=Match(match)).request, decided(now, may_fit=may_fit))


def under(*, unknown: int = 0, **labels: str) -> Moment:
    """A node of two GPUs a zone, and these labels on the namespace."""
    return moment([TWO], unknown=unknown, labels=labels)


# Admitted, and what is said.

IN_VAIN = "numalign: single-numa-node has nothing to align: the pod is Burstable, without devices"
UNCHECKED = "numalign: no node topology is known, so the pod was not checked"
WAITS = "numalign: no node has room for single-numa-node now; the pod will wait"
HOPES = "numalign: no node of known topology could take it; 3 nodes without topology may"
WANTS_ANY = "numalign: this namespace wants restricted, the pod asks for nothing"
WANTS_MORE = "numalign: this namespace wants restricted, the pod asks for best-effort"

VAIN = raw("cpu=1..2 mem=1Gi", policy=SINGLE)
BEST_EFFORT = raw(ONE_GPU, policy="best-effort")
OPTED_OUT = raw(ONE_GPU, policy="none")

WANTED, AUDITED_LEVEL = under(warn="restricted"), under(audit="restricted")

ADMITTED = [
    # what it shows                      the pod      the cluster                            what is said
    ("a pod that fits",                  FITS,        ROOM,                                  []),
    ("a pod that must wait",             FITS,        NO_ROOM,                               [WAITS]),
    ("a pod that asks nothing",          SILENT,      under(enforce="none"),                 []),
    ("a pod that opts out of a default", OPTED_OUT,   under(default=SINGLE),                 []),
    ("an intent that is vacuous",        VAIN,        ROOM,                                  [IN_VAIN]),
    ("an empty cluster",                 FITS,        BARE,                                  [UNCHECKED]),
    ("as much as is enforced",           FITS,        under(enforce=SINGLE),                 []),
    ("more than is enforced",            FITS,        under(enforce="restricted"),           []),
    ("no level for what nobody aligns",  SHARED,      under(enforce=SINGLE),                 []),
    ("enough by the default",            SILENT,      under(enforce=SINGLE, default=SINGLE), []),
    ("silence where one is wanted",      SILENT,      WANTED,                                [WANTS_ANY]),
    ("less than is wanted",              BEST_EFFORT, WANTED,                                [WANTS_MORE]),
    ("less than is audited",             BEST_EFFORT, AUDITED_LEVEL,                         []),
    ("warned twice",
        BEST_EFFORT, moment([FULL], labels={"warn": "restricted"}),
        [WANTS_MORE, "numalign: no node has room for best-effort now; the pod will wait"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "said"), table(ADMITTED))
def test_a_pod_is_admitted(made: Raw, now: Moment, said: list[str]) -> None:
    answer = verdict(made, now)

    assert isinstance(answer, Allowed)
    assert answer.warnings == tuple(said)


# Not answered.

VAST = node(*["cpu=8 mem=8Gi gpu=2"] * 18, policy=SINGLE)
"""More zones than anybody answers for."""

NOT_ASKED = "not asked: what becomes of 1 container there takes too long to work out"
ONE_SILENT, TWO_SILENT = f"numalign: 1 node was {NOT_ASKED}", f"numalign: 2 nodes were {NOT_ASKED}"
TOO_LARGE = raw("cpu=500 mem=1Gi", policy=SINGLE)

SILENT_NODES = [
    # what it shows                         the pod    the cluster                what is said
    ("no node has answered",                FITS,      moment([VAST]),            [ONE_SILENT]),
    ("two have not, one says no",           NEVER,     moment([VAST, VAST, TWO]), [TWO_SILENT]),
    ("those that have have no room",        FITS,      moment([VAST, FULL]),      [ONE_SILENT]),
    ("one that is refused as a whole has",  TOO_LARGE, moment([VAST]),            None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "said"), table(SILENT_NODES))
def test_a_pod_is_not_refused_for_nodes_that_were_not_asked(
    made: Raw, now: Moment, said: list[str] | None
) -> None:
    answer = verdict(made, now)

    assert (list(answer.warnings) if isinstance(answer, Allowed) else None) == said


def test_of_its_own_node_a_pod_is_told_that_it_was_not_asked() -> None:
    pinned = with_spec(FITS, nodeName="node")
    answer = verdict(pinned, moment([VAST]))

    assert isinstance(answer, Allowed)
    [said] = answer.warnings
    assert said.startswith("numalign: its node node was not asked: it has too many zones for an answer")


# Refused.

NEVER_FITS = (
    'numalign: 0/{} nodes can align container "c0" as single-numa-node:'
    " 1 has at most 2 nvidia.com/gpu in one zone{}. Ask for at most 2 nvidia.com/gpu."
)


def enforced(level: str, asked: str, choices: str) -> str:
    return (
        f'numalign: namespace "team" enforces {level}: the pod asks for {asked}.'
        f" Set annotation {POLICY} to {choices}."
    )


OUT_OF_BOTH = under(enforce="restricted", default=SINGLE)
BY_VOLCANO = raw(FOUR_GPUS, annotations={VOLCANO: SINGLE})
RESTRICTED_UP = "restricted or single-numa-node"

DENIED = [
    # what it shows          the pod         the cluster            the text
    ("it fits no node",      NEVER,          ROOM,                  NEVER_FITS.format(1, "")),
    ("in Volcano's words",   BY_VOLCANO,     ROOM,                  NEVER_FITS.format(1, "")),
    ("by the default alone", raw(FOUR_GPUS), under(default=SINGLE), NEVER_FITS.format(1, "")),
    ("unknown nodes do not save it",     NEVER,       under(unknown=3),
        NEVER_FITS.format(4, ", 3 publish no NUMA topology")),
    ("it says nothing",                  SILENT,      under(enforce=SINGLE),
        enforced(SINGLE, "nothing", SINGLE)),
    ("it says less",                     BEST_EFFORT, under(enforce="restricted"),
        enforced("restricted", "best-effort", RESTRICTED_UP)),
    ("it opts out of what is enforced",  OPTED_OUT,   OUT_OF_BOTH,
        enforced("restricted", "none", RESTRICTED_UP)),
    ("even where nothing is known",      SILENT,      moment([], labels={"enforce": "restricted"}),
        enforced("restricted", "nothing", RESTRICTED_UP)),
    ("a level, before that it never fits", raw(FOUR_GPUS, policy="best-effort"), under(enforce=SINGLE),
        enforced(SINGLE, "best-effort", SINGLE)),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "text"), table(DENIED))
def test_a_pod_is_refused(made: Raw, now: Moment, text: str) -> None:
    assert verdict(made, now) == Denied(
        reason=StatusReason.FORBIDDEN, message=text, audit={"verdict": "denied"}
    )


def test_a_policy_is_advised_only_if_the_namespace_would_take_it() -> None:
    lax, strict = moment([TWO, LOOSE]), moment([TWO, LOOSE], labels={"enforce": "restricted"})

    answers = verdict(NEVER, lax), verdict(NEVER, strict)

    assert all(isinstance(answer, Denied) for answer in answers)
    assert ['use policy "best-effort"' in repr(answer) for answer in answers] == [True, False]


# Nodes without topology.

UNKNOWN = [
    # what it shows                the cluster            may fit said, or None for a refusal
    ("they do not save a pod",     under(unknown=3),      False, None),
    ("they do where they may fit", under(unknown=3),      True,  [HOPES]),
    ("there must be one",          under(unknown=0),      True,  None),
    ("alone they make no fleet",   moment([], unknown=3), False, [UNCHECKED]),
]  # fmt: skip


@pytest.mark.parametrize(("now", "may_fit", "said"), table(UNKNOWN))
def test_nodes_without_topology(now: Moment, said: list[str] | None, *, may_fit: bool) -> None:
    answer = verdict(NEVER, now, may_fit=may_fit)

    assert (list(answer.warnings) if isinstance(answer, Allowed) else None) == said


# The pod's policy and the node's.

MATCHES = [
    # the pod       how it must match admitted
    (SINGLE,        "equal",     True),
    (SINGLE,        "satisfies", True),
    ("restricted",  "equal",     False),
    ("restricted",  "satisfies", True),
    ("best-effort", "equal",     True),
    ("best-effort", "satisfies", True),
    ("none",        "equal",     True),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "match", "admitted"), MATCHES)
def test_a_policy_that_must_be_the_nodes_own(policy: str, match: str, *, admitted: bool) -> None:
    answer = verdict(raw(ONE_GPU, policy=policy), ROOM, match=match)

    assert isinstance(answer, Allowed) is admitted


# Pods that somebody has placed.

OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}


# The nodes of the notation are called "node"; the sentences are cut where clients would cut them.
NOT_NOW = "numalign: its node node cannot take it now: it has at most 1 cpu free in one zone"
NOT_EVER = "numalign: its node node cannot take it ever: it has at most 2 nvidia.com/gpu in one zone"


BY_DAEMON = "numalign: a DaemonSet owns it, but no node could ever take it"


def on_node(made: Raw, name: str = "node") -> Raw:
    return with_spec(made, nodeName=name)


def of_daemon(made: Raw) -> Raw:
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [OWNER]}}


PLACED = [
    # what it shows                   the pod                  the cluster                  what is said
    ("it fits there",                 on_node(FITS),           ROOM,                        []),
    ("it does not fit there now",     on_node(FITS),           NO_ROOM,                     [NOT_NOW]),
    ("it never fits there",           on_node(NEVER),          ROOM,                        [NOT_EVER]),
    ("its node is not known",         on_node(NEVER, "other"), ROOM,                        []),
    ("a DaemonSet says no node",      of_daemon(NEVER),        ROOM,                        [BY_DAEMON]),
    ("it asks less than is wanted",   on_node(SILENT),         WANTED,                      [WANTS_ANY]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "said"), table(PLACED))
def test_a_placed_pod_is_not_refused_for_its_node(made: Raw, now: Moment, said: list[str]) -> None:
    answer = verdict(made, now)

    assert isinstance(answer, Allowed)
    assert answer.warnings == tuple(said)


NODE_ZERO = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}


def crowded(made: Raw) -> Raw:
    """With so many terms, each of which names the same node, that they are not read."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_ZERO] * 513}}
    return with_spec(made, affinity={"nodeAffinity": required})


def test_a_pod_with_more_terms_than_are_read_is_not_placed_and_its_owner_is_warned() -> None:
    answer = verdict(crowded(FITS), ROOM)

    assert isinstance(answer, Allowed)
    assert answer.warnings == (
        "numalign: the pod is left as it is: its node affinity has more than 512 terms",
    )
    assert isinstance(verdict(crowded(NEVER), ROOM), Denied)


@pytest.mark.parametrize("made", [on_node(SILENT), of_daemon(SILENT)], ids=["on a node", "of a DaemonSet"])
def test_a_namespace_enforces_its_policy_on_placed_pods_too(made: Raw) -> None:
    assert isinstance(verdict(made, under(enforce="restricted")), Denied)


def test_an_intent_about_nothing_that_the_pod_asks_for_is_told_and_does_not_count() -> None:
    written = {"numalign.io/policy": SINGLE, "numalign.io/resources": "nvidia.com/gpus"}
    made = raw(ONE_GPU, annotations=written)

    admitted = verdict(made, ROOM)
    assert isinstance(admitted, Allowed)
    assert admitted.warnings == (
        "numalign: numalign.io/resources names nothing that a kubelet could align for this pod",
    )
    assert isinstance(verdict(made, under(enforce="restricted")), Denied)


# Length.

policies = st.sampled_from(["none", "best-effort", "restricted", SINGLE])
levels = st.dictionaries(st.sampled_from(["enforce", "warn", "audit", "default"]), policies)
words = st.text(st.sampled_from("abc-"), min_size=1, max_size=63).map(lambda word: f"a{word}z")


@given(policies, levels, st.sampled_from([ONE_GPU, FOUR_GPUS, "cpu=1..2 mem=1Gi"]), words, st.booleans())
def test_no_warning_is_longer_than_clients_show(
    policy: str, labels: dict[str, str], container: str, name: str, placed: object
) -> None:
    made = raw(container, policy=policy)
    made["spec"]["containers"][0]["name"] = name
    answer = verdict(on_node(made) if placed else made, moment([FULL], labels=labels))

    assert all(len(said) <= LONGEST_WARNING or said.startswith("numalign: 0/") for said in answer.warnings)
    assert all(len(said) <= LONGEST_SHOWN for said in answer.warnings)


# The audit log.

AUDITED = [
    # the pod, the labels of its namespace, what the audit log keeps
    ("its policy",            FITS,      {},                        "admitted with single-numa-node"),
    ("a default",             SILENT,    {"default": "restricted"}, "admitted with restricted"),
    ("silence",               SILENT,    {"warn": "none"},          "admitted with nothing"),
    ("an opt-out",            OPTED_OUT, {"warn": "none"},          "admitted with none"),
    ("less than is audited",      BEST_EFFORT, {"audit": SINGLE},
        "admitted with best-effort, below single-numa-node"),
    ("silence where one audits",  SILENT,      {"audit": SINGLE},
        "admitted with nothing, below single-numa-node"),
    ("as much as is audited", FITS,      {"audit": SINGLE},         "admitted with single-numa-node"),
    ("a refusal",             NEVER,     {},                        "denied"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "labels", "kept"), table(AUDITED))
def test_the_audit_log_keeps(made: Raw, labels: dict[str, str], kept: str) -> None:
    assert verdict(made, moment([TWO], labels=labels)).audit == {"verdict": kept}


def test_the_audit_log_is_the_same_whether_there_is_room_or_not() -> None:
    assert verdict(FITS, ROOM).audit == verdict(FITS, NO_ROOM).audit


# The levels of a namespace.

BELOW = [
    # what it shows                    the pod      the labels                                  below
    ("nothing is asked",               SILENT,      {"default": SINGLE},                        ()),
    ("all are met",                    FITS,        {"enforce": SINGLE, "audit": "restricted"}, ()),
    ("only the tightest is missed",    BEST_EFFORT, {"enforce": "best-effort", "warn": SINGLE}, ("warn",)),
    ("all are missed",                 OPTED_OUT,
        {"audit": SINGLE, "warn": SINGLE, "enforce": SINGLE}, ("enforce", "warn", "audit")),
    ("nothing could be aligned",       SHARED,      {"enforce": SINGLE, "warn": SINGLE},        ()),
]  # fmt: skip


@pytest.mark.parametrize(("made", "labels", "below"), table(BELOW))
def test_a_pod_falls_short_when(made: Raw, labels: dict[str, str], below: tuple[str, ...]) -> None:
    # A policy that the pod itself is silent about must not skip it.
    found = subject(asked(made), moment(labels={"warn": "none", **labels}), reader=PodReader())

    assert isinstance(found, ReviewedPod)
    assert shortfalls(found.request) == below


# Pods that cannot be read.


def test_a_broken_pod_is_invalid_with_every_mistake_at_its_place() -> None:
    mistakes = (Mistake("spec.a", "is missing"), Mistake("spec.b", "is wrong", "x y", 2), Mistake("c", "d"))

    assert refuse_broken(InvalidPod(mistakes)) == Denied(
        reason=StatusReason.INVALID,
        message="numalign: spec.a: is missing (and 2 more)",
        causes=mistakes,
        audit={"verdict": "invalid"},
    )


def test_one_mistake_is_said_alone() -> None:
    assert (
        refuse_broken(InvalidPod([Mistake("spec.a", "is missing")])).message == "numalign: spec.a: is missing"
    )


def test_what_is_read_wrong_is_refused_as_it_was_read() -> None:
    with pytest.raises(InvalidPod) as caught:
        read(raw(ONE_GPU, policy="strictly"), ROOM)

    answer = refuse_broken(caught.value)

    assert answer.message.startswith(f'numalign: metadata.annotations[{POLICY}]: "strictly" is none of')
    assert [cause.where for cause in answer.causes] == [f"metadata.annotations[{POLICY}]"]
