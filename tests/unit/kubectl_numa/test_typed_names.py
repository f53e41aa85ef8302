"""NAME and TYPE/NAME."""

import click
import pytest

from kubectl_numa import typed_names
from kubectl_numa.typed_names import TypedName
from numalign.kube.resource_types import NODE, POD
from tests.worlds.notation import table

READ = [
    # what it shows             the text                             what is meant
    ("a name alone",            "web",                               "pod/web"),
    ("a pod",                   "pod/web",                           "pod/web"),
    ("a short type",            "deploy/web",                        "deployment.apps/web"),
    ("a plural",                "Deployments/web",                   "deployment.apps/web"),
    ("with its group",          "deployments.apps/web",              "deployment.apps/web"),
    ("the job that is meant",   "job/train",                         "job.batch/train"),
    ("another job",             "vcjob/train",                       "job.batch.volcano.sh/train"),
    ("what is not known",       "trainers.example.com/train",        "trainers.example.com/train"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), table(READ))
def test_what_is_named(text: str, meant: str) -> None:
    assert str(TypedName.read(text, default=POD)) == meant


@pytest.mark.parametrize("text", ["", "/web", "pod/", "a/b/c", "/"])
def test_what_is_no_name_is_told(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a name: use NAME or TYPE/NAME, such as pod/web"):
        TypedName.read(text, default=POD)


def test_names_of_one_type_may_be_written_either_way() -> None:
    assert typed_names.names(("a", "node/b", "no/c"), NODE) == ("a", "b", "c")


def test_a_name_of_another_type_is_told() -> None:
    with pytest.raises(click.UsageError, match="pod/a: this command takes only nodes"):
        typed_names.names(("pod/a",), NODE)
