"""Whose business a review is, and what of a broken pod is said."""

import pytest

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files.policy import ClusterPolicy, Exemptions
from tests.worlds.notation import table
from tests.worlds.webhook import Raw, cluster, raw, read, review_of, with_spec
from webhook.subject import InvalidPod, SkipReason, subject

SINGLE = "single-numa-node"
GUARANTEED = "cpu=4 mem=1Gi gpu=1"

SILENT = raw(GUARANTEED)
SPEAKING = raw(GUARANTEED, policy=SINGLE)
BROKEN = raw(GUARANTEED)
BROKEN["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "-1"
OUT = {**BROKEN, "metadata": raw(GUARANTEED, policy="none")["metadata"]}


def op(verb: str) -> Raw:
    return {"operation": verb}


OFF = {"admission": "disabled"}
OFF_DEFAULT = {**OFF, "default": SINGLE}
BINDING = {"subResource": "binding"}
DEPLOYMENT = {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}

SKIPPED = [
    # why                                      the pod   the review     labels        what it is
    ("nobody asks anything",                   SILENT,   {},            {},           "silent"),
    ("nobody asks anything of a broken pod",   BROKEN,   {},            {},           "silent"),
    ("nobody asks anything of what is no pod", {"x": 1}, {},            {},           "silent"),
    ("it opts out, and is broken",             OUT,      {},            {},           "silent"),
    ("the namespace is disabled",              SPEAKING, {},            OFF,          "exempt"),
    ("it is disabled, and the pod broken",     BROKEN,   {},            OFF_DEFAULT,  "exempt"),
    ("it is an update",                        SPEAKING, op("UPDATE"),  {},           "operation"),
    ("it is a binding of a pod",               SPEAKING, BINDING,       {},           "operation"),
    # A rule that is too broad must not refuse Deployments for having no containers.
    ("it is of another kind",                  {},       DEPLOYMENT,    {"enforce": SINGLE}, "kind"),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "changes", "labels", "skip"), table(SKIPPED))
def test_review_is_skipped_if(pod: object, changes: Raw, labels: dict[str, str], skip: str) -> None:
    assert subject(
        review_of(pod, **changes), cluster(labels=labels).snapshot, reader=PodReader()
    ) is SkipReason(skip)


# What the cluster's own policy adds.

BY_CI = {"userInfo": {"username": "system:serviceaccount:ci:builder"}}
BY_KATA = with_spec(SPEAKING, runtimeClassName="kata")
BROKEN_BY_KATA = with_spec(BROKEN, runtimeClassName="kata")
EXEMPT = ClusterPolicy(
    exemptions=Exemptions(("system:serviceaccount:ci:*",), frozenset({"batch"}), frozenset({"kata"}))
)
EXEMPTED = [
    # what is exempt                  the pod          the review
    ("its user",                      SPEAKING,        BY_CI),
    ("its namespace",                 SPEAKING,        {"namespace": "batch"}),
    ("its runtime class",             BY_KATA,         {}),
    ("its runtime class, and it is broken", BROKEN_BY_KATA, {}),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "changes"), table(EXEMPTED))
def test_review_is_skipped_if_policy_exempts(pod: Raw, changes: Raw) -> None:
    reviewed = subject(review_of(pod, **changes), cluster().snapshot, reader=PodReader(), policy=EXEMPT)
    assert reviewed is SkipReason.EXEMPT


# Pods that cannot be read.


def annotated(**words: str) -> Raw:
    return raw(GUARANTEED, annotations={f"numalign.io/{key}": word for key, word in words.items()})


TWINS = raw(GUARANTEED, "cpu=1 mem=1Gi", policy=SINGLE)
TWINS["spec"]["containers"][1]["name"] = "c0"


def note(key: str) -> str:
    return f"metadata.annotations[numalign.io/{key}]"


MISTAKES = [
    # what is wrong                   the pod                                    where it is said to be
    ("containers of one name",        TWINS,                                     ["spec.containers[1].name"]),
    ("a key that nobody knows",       annotated(polcy=SINGLE),                   [note("polcy")]),
    ("everything at once",
        with_spec(annotated(policy="x", scope="y"), containers=TWINS["spec"]["containers"], nodeName=3),
        [note("policy"), note("scope"), "spec.containers[1].name", "spec.nodeName"]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "places"), table(MISTAKES))
def test_every_mistake_is_listed_with_its_place(pod: Raw, places: list[str]) -> None:
    with pytest.raises(InvalidPod) as caught:
        read(pod, cluster())
    assert [mistake.where for mistake in caught.value.mistakes] == places
