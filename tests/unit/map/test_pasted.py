"""What is pasted: one object that makes pods, in whatever form, and what is told of anything else."""

import gzip
import json

import pytest
import yaml

from numalign.map import pasted
from numalign.map.pasted import MOST_BYTES
from numalign.model.errors import BadInput
from tests.worlds.notation import table
from tests.worlds.scorer import raw

POD = raw("cpu=4 mem=1Gi", namespace="team")
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "team"},
    "spec": {"replicas": 3, "template": {"metadata": {}, "spec": POD["spec"]}},
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}


def text(*objects: object) -> bytes:
    """Documents of YAML."""
    return yaml.safe_dump_all(objects).encode()


def mistakes(written: bytes) -> list[str]:
    """What is told of what cannot be asked about."""
    with pytest.raises(BadInput) as caught:
        pasted.read(written)
    return [*map(str, caught.value.mistakes)]


FORMS = [
    ("YAML",              text(POD)),
    ("JSON",              json.dumps(POD).encode()),
    ("gzip",              gzip.compress(text(POD))),
    ("beside a Service",  text(SERVICE, POD)),
]  # fmt: skip


@pytest.mark.parametrize("written", table(FORMS))
def test_a_pod_is_its_own_template(written: bytes) -> None:
    asked = pasted.read(written)

    assert (asked.kind, asked.namespace, asked.name, asked.replicas) == ("Pod", "team", "web", 1)
    assert [template.where for template in asked.templates] == [""]


def test_a_workload_says_how_many_pods_it_makes() -> None:
    asked = pasted.read(text(DEPLOYMENT))

    assert (asked.kind, asked.name, asked.replicas) == ("Deployment", "web", 3)
    assert [template.where for template in asked.templates] == ["spec.template"]


@pytest.mark.parametrize("replicas", [0, -1, True, "3", None, [3], 2**31])
def test_a_number_that_makes_no_sense_counts_as_one(replicas: object) -> None:
    odd = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": replicas}}  # type: ignore[dict-item]

    assert pasted.read(text(odd)).replicas == 1


def test_every_template_of_a_workload_is_asked_about() -> None:
    jobs = [
        {"name": role, "template": {"spec": {"template": {"metadata": {}, "spec": POD["spec"]}}}}
        for role in ("leader", "worker")
    ]
    workload = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": jobs},
    }

    asked = pasted.read(text(workload))

    assert asked.namespace == "default"
    assert [template.where for template in asked.templates] == [
        f"spec.replicatedJobs[{at}].template.spec.template" for at in (0, 1)
    ]


def test_more_templates_than_anybody_writes_are_refused() -> None:
    jobs = [{"template": {"spec": {"template": {"spec": POD["spec"]}}}}] * 17
    workload = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}}

    assert mistakes(text({**workload, "spec": {"replicatedJobs": jobs}})) == [
        "has 17 pod templates: at most 16 are allowed"
    ]


def test_a_workload_that_nobody_knows_is_read_with_a_note() -> None:
    unknown = {**DEPLOYMENT, "apiVersion": "example.com/v1", "kind": "Thing"}

    asked = pasted.read(text(unknown))

    assert asked.kind == "Thing"
    assert asked.notes


NO_QUESTIONS = [
    ("nothing",              b"",                   "is empty"),
    ("a word",               b"hello",              "must be an object"),
    ("half of JSON",         b'{"kind"',            "is not JSON"),
    ("no template",          text(SERVICE),         "creates no pods: it contains Service"),
    ("pods that are computed", text({**SERVICE, "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}),
        "the pods of a VirtualMachine.kubevirt.io cannot be read from it"),
    ("two questions",        text(POD, DEPLOYMENT),
        "has 2 objects that create pods, Pod web, Deployment web: paste one of them"),
    ("many questions",       text(*[POD] * 6),
        "has 6 objects that create pods, Pod web, Pod web, Pod web, Pod web, more"),
    ("no object of an API",  b"a: b",               "kind"),
    ("deep JSON",            b"[" * 100_000,        "is nested deeper than"),
    ("deep YAML",            b"a: " + b"[" * 100_000, "is nested deeper than"),
    ("too long",             b"#" * (MOST_BYTES + 1), f"has more than {MOST_BYTES} bytes"),
    ("too long unpacked",    gzip.compress(b" " * 2**26), f"has more than {MOST_BYTES} bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "told"), table(NO_QUESTIONS))
def test_what_is_no_question_is_told(written: bytes, told: str) -> None:
    (mistake,) = mistakes(written)

    assert told in mistake


def test_all_mistakes_of_a_pod_are_told_at_once() -> None:
    broken = raw("cpu=4 mem=1Gi")
    limits = broken["spec"]["containers"][0]["resources"]["limits"]
    limits |= {"cpu": "four", "memory": "lots"}

    assert len(mistakes(text(broken))) == 2


def test_aliases_that_stand_for_more_than_any_memory_holds_are_refused() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)]

    (mistake,) = mistakes("\n".join(rows).encode())

    assert "through its aliases" in mistake
