"""Every pod of every file, and every mistake with its place."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_numa import manifests
from kubectl_numa.manifests import Namespace
from numalign.kube.decode.templates import TemplatePath
from numalign.model.errors import Mistake
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table
from tests.worlds.web_files import sends, serving

Write = Callable[..., Path]


def test_a_folder_is_searched_to_the_bottom(write: Write, tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "deep/er/c.json", "notes.txt"):
        write(f"dir/{name}", "{}")
    found, missing = manifests.files([str(tmp_path / "dir"), str(tmp_path / "dir" / "a.yaml")])
    assert [Path(each).name for each in found] == ["a.yaml", "b.yml", "c.json"]
    assert missing == []


def test_what_is_no_file_is_told_and_the_rest_is_found(write: Write, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    there = str(write("there.yaml", "{}"))
    found, missing = manifests.files([str(tmp_path / "nowhere"), there, str(tmp_path / "empty")])
    assert found == [there]
    assert [mistake.message for mistake in missing] == [
        "no such file or folder",
        "contains no .json, .yaml, .yml files",
    ]


def test_every_document_is_read_and_workloads_stand_for_their_pods(write: Write) -> None:
    template = {"metadata": {}, "spec": manifest("x", "2")["spec"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sort", "namespace": "night"},
        "spec": {"template": template},
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    both = {"apiVersion": "v1", "kind": "List", "items": [manifest("b", "1"), service]}
    found = manifests.read(str(write("all.yaml", manifest("a", "1"), job, both)))
    shown = [(each.document, each.kind, each.pod.name, each.pod.namespace) for each in found if each.pod]
    assert shown == [(1, "Pod", "a", "default"), (2, "Job", "sort", "night"), (3, "Pod", "b", "default")]


def volcano(*specs: object) -> dict[str, Any]:
    """A Volcano job with a task for each of these specs of pods."""
    tasks = [{"name": f"t{at}", "template": {"spec": spec}} for at, spec in enumerate(specs)]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "night"},
        "spec": {"tasks": tasks},
    }


def test_a_workload_with_several_templates_stands_for_as_many_pods(write: Write) -> None:
    path = write("job.yaml", volcano(manifest("a", "1")["spec"], manifest("b", "2")["spec"]))
    found = manifests.read(str(path))
    assert [each.where for each in found] == [
        f"{path}, document 1, spec.tasks[0].template",
        f"{path}, document 1, spec.tasks[1].template",
    ]
    assert [each.pod and (each.pod.name, each.pod.namespace) for each in found] == [("train", "night")] * 2


def test_mistakes_in_several_templates_are_told_together(write: Write) -> None:
    path = write("job.yaml", volcano({}, 7))
    found = [str(mistake) for each in manifests.read(str(path)) for mistake in each.located_mistakes()]
    assert found == [
        f"{path}, document 1 (Job train): spec.tasks[0].template.spec.containers: is missing",
        f"{path}, document 1 (Job train): spec.tasks[1].template.spec: must be an object, not a number",
    ]


def test_standard_input_is_a_file_too() -> None:
    found = manifests.read("-", stdin=io.BytesIO(json.dumps(manifest("a", "1")).encode()))
    assert found[0].where == "standard input, document 1"


@pytest.mark.parametrize(
    ("own", "meant", "became"),
    table(
        [
            ("nobody says", None, Namespace(), "default"),
            ("the context says", None, Namespace("team-a"), "team-a"),
            ("the manifest says more than the context", "team-b", Namespace("team-a"), "team-b"),
            ("the option says", None, Namespace("team-a", asked=True), "team-a"),
            ("both say the same", "team-a", Namespace("team-a", asked=True), "team-a"),
        ]
    ),
)
def test_a_namespace_can_be_given(write: Write, own: str | None, meant: Namespace, became: str) -> None:
    found = manifests.read(str(write("p.json", manifest("a", "1", namespace=own))), namespace=meant)
    assert found[0].pod is not None
    assert found[0].pod.namespace == became
    assert found[0].mistakes == ()


def test_a_pod_of_a_prefix_has_its_name(write: Write) -> None:
    job = {**volcano(manifest("a", "1")["spec"]), "metadata": {"generateName": "train-"}}
    (found,) = manifests.read(str(write("job.yaml", job)))
    assert found.pod_name == ("default", "train-")


def test_two_namespaces_contradict_each_other(write: Write) -> None:
    path = write("p.json", manifest("a", "1", namespace="team-b"))
    found = manifests.read(str(path), namespace=Namespace("team-a", asked=True))
    assert [str(mistake) for mistake in found[0].located_mistakes()] == [
        f'{path}, document 1 (Pod a): metadata.namespace: "team-b" differs from -n team-a: remove one of them'
    ]


@pytest.mark.parametrize(
    ("documents", "told"),
    table(
        [
            ("not YAML", ["a: ["], ["bad.yaml: is not YAML"]),
            ("empty", [""], ["bad.yaml: is empty"]),
            ("no object", ["- 1"], ["bad.yaml: "]),
            ("no kind", ["apiVersion: v1"], ["bad.yaml.kind: is missing"]),
            (
                "two mistakes in two documents",
                [
                    "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}",
                    "{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: 7}",
                ],
                [
                    "bad.yaml, document 1 (Pod a): spec.containers: is empty",
                    "bad.yaml, document 2 (Pod b): spec: must be an object",
                ],
            ),
        ]
    ),
)
def test_every_mistake_has_its_place(write: Write, documents: list[str], told: list[str]) -> None:
    path = write("bad.yaml", *documents)
    found = [str(mistake) for each in manifests.read(str(path)) for mistake in each.located_mistakes()]
    assert len(found) == len(told)
    for mistake, start in zip(found, told, strict=True):
        assert mistake.startswith(f"{path.parent}/{start}")


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    (found,) = manifests.read(str(tmp_path / "none.yaml"))
    assert "none.yaml: cannot be read" in str(found.located_mistakes()[0])


def test_a_file_without_a_name_is_a_mistake() -> None:
    mistake = Mistake("--filename", "is empty: specify a file, a folder or a URL")
    assert manifests.files([""]) == ([], [mistake])


def thing(template: object, **metadata: object) -> dict[str, Any]:
    """An object of a kind that nobody knows."""
    spec = {"template": template}
    return {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a", **metadata}, "spec": spec}


def test_a_template_of_an_unknown_kind_is_a_pod_that_is_guessed(write: Write) -> None:
    path = write("thing.yaml", thing({"spec": manifest("x", "2")["spec"]}))
    (found,) = manifests.read(str(path))
    assert (found.template, found.place.guessed) == ("spec.template", True)
    assert found.warnings == ("Thing.x.io is an unknown kind: found a pod template at spec.template",)


def test_a_guess_that_makes_no_sense_is_told_and_is_no_mistake(write: Write) -> None:
    path = write("thing.yaml", thing({"spec": {"containers": [{"name": "a", "image": "b", "resources": 1}]}}))
    (found,) = manifests.read(str(path))
    assert (found.pod, found.mistakes) == (None, ())
    why = "spec.template.spec.containers[0].resources: must be an object, not a number"
    assert found.warnings[1:] == (f"not read as a pod: {why}",)


def test_an_annotation_in_the_wrong_place_is_told(write: Write) -> None:
    template = {"spec": manifest("x", "2")["spec"]}
    job = thing(template, annotations={"numalign.io/policy": "restricted"}) | {
        "apiVersion": "batch/v1",
        "kind": "Job",
    }
    path = write("job.yaml", job)
    (found,) = manifests.read(str(path))
    put = "put it on spec.template.metadata.annotations"
    assert found.warnings == (f"metadata.annotations[numalign.io/policy] has no effect on a Job: {put}",)


def test_warnings_of_an_object_are_those_of_its_first_pod(write: Write) -> None:
    job = volcano(manifest("a", "1")["spec"], manifest("b", "2")["spec"])
    job["metadata"]["annotations"] = {"numalign.io/policy": "restricted"}
    found = manifests.read(str(write("job.yaml", job)))
    assert [len(each.warnings) for each in found] == [1, 0]


def test_objects_without_pods_are_counted_by_kind(write: Write) -> None:
    plain: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": kind, "metadata": {}} for kind in ("ConfigMap", "Service", "ConfigMap")
    ]
    found = manifests.read(str(write("all.yaml", manifest("a", "1"), *plain)))
    assert list(manifests.notes(found)) == ["3 objects without pods: 2 ConfigMap, 1 Service"]
    assert list(manifests.notes(found[:2])) == ["1 object without pods: 1 ConfigMap"]
    assert list(manifests.notes(found[:1])) == []


def test_what_another_object_describes_is_told(write: Write) -> None:
    path = write("train.yaml", thing(None) | {"apiVersion": "trainer.kubeflow.org/v1", "kind": "TrainJob"})
    (found,) = manifests.read(str(path))
    assert (found.counts, found.pod, found.mistakes) == (True, None, ())
    assert found.warnings[0].startswith("the pods of a TrainJob.trainer.kubeflow.org")


def test_kinds_that_the_policy_adds_are_known(write: Write) -> None:
    path = write("thing.yaml", thing({"spec": manifest("x", "2")["spec"]}))
    extra = {("x.io", "Thing"): (TemplatePath.read("spec.template"),)}
    (found,) = manifests.read(str(path), extra=extra)
    assert (found.template, found.place.guessed, found.warnings) == ("spec.template", False, ())


def test_the_pod_that_a_controller_would_make_is_kept(write: Write) -> None:
    job = volcano(manifest("a", "1")["spec"])
    job["spec"]["tasks"][0]["topologyPolicy"] = "restricted"
    (found,) = manifests.read(str(write("job.yaml", job)))
    assert found.pod
    assert found.pod.annotations == {"volcano.sh/numa-topology-policy": "restricted"}


def test_manifests_are_read_from_a_url() -> None:
    with serving(sends(yaml.safe_dump(manifest("a", "1")).encode())) as url:
        paths, missing = manifests.files([f"{url}/pod.yaml"])
        [read] = [entry for path in paths for entry in manifests.read(path)]

    assert missing == []
    assert (read.file, read.pod and read.pod.name) == (f"{url}/pod.yaml", "a")


def test_a_url_that_leads_nowhere_is_a_mistake_of_its_file() -> None:
    with serving(sends(b"", 404)) as url:
        [read] = manifests.read(f"{url}/pod.yaml")

    assert [str(mistake) for mistake in read.mistakes] == [
        f"{url}/pod.yaml: the server answered 404 Not Found"
    ]


def test_what_is_no_manifest_is_told_with_its_url() -> None:
    with serving(sends(b"just a sentence")) as url:
        [read] = manifests.read(url)

    assert read.mistakes[0].where.startswith(url)
