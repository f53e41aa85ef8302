"""The aspects of a pod that numalign does not evaluate are named, and nothing else is."""

from typing import Any

import pytest

from controller.gates.judging import NODE_INDEPENDENT, unjudged
from numalign.kube.decode.scheduling import PREFERRED, REQUIRED
from tests.worlds.notation import table

PODS = ("affinity to other pods",)
BOTH = ("volumes", "resource claims")
SPREAD, PORTS = ("topology spread",), ("host ports",)
CLAIMS, GROUP = ("resource claims",), ("a group of pods",)
TERM = [{"topologyKey": "zone"}]
Spec = dict[str, Any]


def spread(when: str) -> Spec:
    return {"topologySpreadConstraints": [{"whenUnsatisfiable": when}]}


def affinity(kind: str, required: object, *, key: str = REQUIRED) -> Spec:
    return {"affinity": {kind: {key: required}}}


def volumes(*kinds: str) -> Spec:
    return {"volumes": [{"name": kind, kind: {}} for kind in kinds]}


def port(key: str, **more: object) -> Spec:
    return {"containers": [{"ports": [{key: 80}]}], **more}


ODD: Spec = {"volumes": 3, "affinity": [], "containers": ["x"], "topologySpreadConstraints": {}}

SPECS: list[tuple[str, Spec, tuple[str, ...]]] = [
    # what it has                       its spec                                            in words
    ("nothing",                         {},                                                 ()),
    ("a spread that may be ignored",    spread("ScheduleAnyway"),                           ()),
    ("a spread",                        spread("DoNotSchedule"),                            SPREAD),
    ("affinity to pods",                affinity("podAffinity", TERM),                      PODS),
    ("anti-affinity to pods",           affinity("podAntiAffinity", TERM),                  PODS),
    ("affinity that is only preferred", affinity("podAffinity", TERM, key=PREFERRED),       ()),
    ("no terms",                        affinity("podAffinity", []),                        ()),
    ("affinity to nodes",               affinity("nodeAffinity", {"nodeSelectorTerms": 1}), ()),
    ("volumes of any node",             volumes(*sorted(NODE_INDEPENDENT)),                 ()),
    ("a claim of a volume",             volumes("persistentVolumeClaim"),                   ("volumes",)),
    ("a volume of its own",             volumes("ephemeral"),                               ("volumes",)),
    ("a volume of a newer API",         volumes("emptyDir", "moon"),                        ("volumes",)),
    ("a port of the node",              port("hostPort"),                                   PORTS),
    ("a port of its own",               port("containerPort"),                              ()),
    ("all ports of the node",           port("containerPort", hostNetwork=True),            PORTS),
    ("claims of resources",             {"resourceClaims": [{"name": "gpu"}]},              CLAIMS),
    ("a group",                         {"workloadRef": {"name": "gang"}},                  GROUP),
    ("two of them",                     {**volumes("csi"), "resourceClaims": [{}]},         BOTH),
    ("members of other types",          ODD,                                                ()),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "words"), table(SPECS))
def test_unevaluated_aspects_of_a_pod_with(spec: Spec, words: tuple[str, ...]) -> None:
    assert unjudged({"spec": spec} if spec else {}) == words
