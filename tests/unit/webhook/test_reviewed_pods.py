"""Which reviews are skipped, and every mistake of a broken pod."""

from dataclasses import replace

import pytest

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files.policy import ClusterPolicy, Exemptions
from tests.worlds.notation import table
from tests.worlds.webhook import Raw, cluster, raw, read, review_of, with_spec
from webhook.review import InvalidPod, SkipReason, created_pod

SINGLE = "single-numa-node"
GUARANTEED = "cpu=4 mem=1Gi gpu=1"

SILENT = raw(GUARANTEED)
SPEAKING = raw(GUARANTEED, policy=SINGLE)
BROKEN = raw(GUARANTEED)
BROKEN["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "-1"
OUT = {**BROKEN, "metadata": raw(GUARANTEED, policy="none")["metadata"]}


OFF = {"admission": "disabled"}
BINDING = {"subResource": "binding"}
DEPLOYMENT = {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}


KATA = {"runtimeClassName": "kata"}
EXEMPT = ClusterPolicy(exemptions=Exemptions(("ci:*",), frozenset({"batch"}), frozenset({"kata"})))
SKIPPED = [
    # why                                  the pod     the review                      labels   what it is
    ("it requests nothing",                SILENT,     {},                             {},      "silent"),
    ("it requests nothing, and is broken", BROKEN,     {},                             {},      "silent"),
    ("it is no pod",                       {"x": 1},   {},                             {},      "silent"),
    ("it opts out, and is broken",         OUT,        {},                             {},      "silent"),
    ("its namespace is disabled, and it is broken", BROKEN, {}, {**OFF, "default": SINGLE},     "exempt"),
    ("its user is exempt",                 SPEAKING,   {"userInfo": {"username": "ci:x"}}, {},  "exempt"),
    ("its namespace is exempt",            SPEAKING,   {"namespace": "batch"},         {},      "exempt"),
    ("its class is exempt, and it is broken", with_spec(BROKEN, **KATA), {},           {},      "exempt"),
    ("it is an update",                    SPEAKING,   {"operation": "UPDATE"},        {},      "operation"),
    ("it is a binding of a pod",           SPEAKING,   BINDING,                        {},      "operation"),
    # A rule that is too broad must not refuse Deployments for having no containers.
    ("it is of another kind",              {},         DEPLOYMENT,    {"enforce": SINGLE},      "kind"),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "changes", "labels", "skip"), table(SKIPPED))
def test_review_is_skipped_if(pod: object, changes: Raw, labels: dict[str, str], skip: str) -> None:
    policy = replace(cluster(labels=labels).policy, policy=EXEMPT)
    reviewed = created_pod(review_of(pod, **changes), policy, reader=PodReader())
    assert reviewed is SkipReason(skip)


def test_every_mistake_is_listed_with_its_place() -> None:
    made = raw(GUARANTEED, GUARANTEED, annotations={f"numalign.io/{key}": "x" for key in ("policy", "polcy")})
    made["spec"] |= {"nodeName": 3}
    made["spec"]["containers"][1]["name"] = "c0"
    with pytest.raises(InvalidPod) as caught:
        read(made, cluster())

    assert [mistake.where for mistake in caught.value.mistakes] == [
        "metadata.annotations[numalign.io/polcy]",
        "metadata.annotations[numalign.io/policy]",
        "spec.containers[1].name",
        "spec.nodeName",
    ]
