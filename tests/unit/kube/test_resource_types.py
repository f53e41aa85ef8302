"""Types of objects by name, and their paths."""

import pytest

from numalign.kube import resource_types
from numalign.kube.decode.templates import TEMPLATES
from numalign.kube.resource_types import NODE, POD, ResourceType
from numalign.model.errors import BadInput
from tests.worlds.notation import table


def test_every_kind_of_workload_has_a_name() -> None:
    types = {(type_.group, type_.kind) for type_ in resource_types.BY_NAME.values()}
    assert types == {("", "Node"), *TEMPLATES}


@pytest.mark.parametrize(("name", "path"), table([
    # what it shows          the name                   where it is
    ("a pod",                "po",                      "/api/v1/namespaces/team/pods"),
    ("a node",               "no",                      "/api/v1/nodes"),
    ("a deployment",         "deploy",                  "/apis/apps/v1/namespaces/team/deployments"),
    ("of another project",   "jobset",                  "/apis/jobset.x-k8s.io/v1/namespaces/team/jobsets"),
    ("of no namespace",      "clustertrainingruntime",
     "/apis/trainer.kubeflow.org/v1/clustertrainingruntimes"),
    ("of an unknown type",    "trainers.example.com",    "/apis/example.com/v1/namespaces/team/trainers"),
]))  # fmt: skip
def test_paths(name: str, path: str) -> None:
    assert resource_types.named(name, where="x").path("v1", "team") == path


@pytest.mark.parametrize(("text", "message"), table([
    # what it shows          the text                   message
    ("misspelt",             "deplyoment",              "did you mean deployment?"),
    ("like nothing",         "xyzzy",                   "write pod, deployment, job, ... or PLURAL.GROUP"),
    ("no group",             "trainers.",               "there is no resource type"),
    ("a path",               "a.b/../c",                "there is no resource type"),
    ("a query",              "a.b?c",                   "there is no resource type"),
    ("too long",             f"a.{'b' * 300}",          "there is no resource type"),
]))  # fmt: skip
def test_unknown_types(text: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        resource_types.named(text, where="here")
    assert message in str(raised.value)
    assert raised.value.mistakes[0].where == "here"


JOB, POLICY = ResourceType("batch", "jobs", "Job"), ResourceType("x.io", "policies")


@pytest.mark.parametrize(("type_", "object_", "expected"), table([
    # what it shows                type      the object               whether it is of the type
    ("its kind",                   POD,      ("", "Pod"),             True),
    ("another kind",               NODE,     ("", "Pod"),             False),
    ("another group",              JOB,      ("other", "Job"),        False),
    ("a kind that is not known",   POLICY,   ("x.io", "Policy"),      True),
    ("another one",                POLICY,   ("x.io", "Police"),      False),
]))  # fmt: skip
def test_an_object_is_of_a_type(type_: ResourceType, object_: tuple[str, str], expected: bool) -> None:  # noqa: FBT001
    assert type_.is_of(*object_) is expected
