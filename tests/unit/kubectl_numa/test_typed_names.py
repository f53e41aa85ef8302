"""NAME and TYPE/NAME."""

import click
import pytest

from kubectl_numa import typed_names
from kubectl_numa.typed_names import TypedName
from numalign.kube.resource_types import NODE, POD
from tests.worlds.notation import table

READ = [
    # what it shows             the text                             its name
    ("a name alone",            "web",                               "pod/web"),
    ("a pod",                   "pod/web",                           "pod/web"),
    ("a short type",            "deploy/web",                        "deployment.apps/web"),
    ("a plural",                "Deployments/web",                   "deployment.apps/web"),
    ("with its group",          "deployments.apps/web",              "deployment.apps/web"),
    ("the built-in job",        "job/train",                         "job.batch/train"),
    ("another job",             "vcjob/train",                       "job.batch.volcano.sh/train"),
    ("an unknown type",         "trainers.example.com/train",        "trainers.example.com/train"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name"), table(READ))
def test_a_typed_name_is_read(text: str, name: str) -> None:
    assert str(TypedName.read(text, default=POD)) == name


def test_other_texts_are_errors() -> None:
    for text in ("", "/web", "pod/", "a/b/c", "/"):
        with pytest.raises(click.UsageError, match="is not a name: use NAME or TYPE/NAME, such as pod/web"):
            TypedName.read(text, default=POD)


def test_names_have_one_type() -> None:
    assert typed_names.names(("a", "node/b", "no/c"), NODE) == ("a", "b", "c")
