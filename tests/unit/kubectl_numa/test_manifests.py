"""Every pod of every file, and every mistake with its place."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_numa import manifests
from kubectl_numa.manifests import Manifest, Namespace
from numalign.kube.decode.templates import TemplatePath
from numalign.model.errors import Mistake
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import SERVICE, deployment, manifest, unknown_kind, volcano_job
from tests.worlds.notation import table
from tests.worlds.objects import Json, listed
from tests.worlds.web_files import sends, serving


def template(cpu: str) -> Json:
    return {"spec": manifest("x", cpu)["spec"]}


def read(cli: Cli, *documents: object, **options: Any) -> list[Manifest]:  # noqa: ANN401  any value
    return manifests.read(str(cli.write("p.yaml", *documents)), **options)


def test_a_folder_is_searched_recursively(cli: Cli) -> None:
    for name in ("b.yml", "a.yaml", "deep/er/c.json", "notes.txt"):
        cli.write(f"dir/{name}", "{}")
    paths, missing = manifests.files([str(cli.folder / "dir"), str(cli.folder / "dir" / "a.yaml")])

    assert ([Path(path).name for path in paths], missing) == (["a.yaml", "b.yml", "c.json"], [])


def test_missing_files_are_mistakes_and_others_are_read(cli: Cli) -> None:
    (cli.folder / "empty").mkdir()
    present = str(cli.write("present.yaml", "{}"))
    paths, missing = manifests.files([str(cli.folder / "nowhere"), present, str(cli.folder / "empty")])

    assert paths == [present]
    assert [mistake.message for mistake in missing] == [
        "no such file or folder",
        "contains no .json, .yaml, .yml files",
    ]
    unnamed = Mistake("--filename", "is empty: specify a file, a folder or a URL")
    assert manifests.files([""]) == ([], [unnamed])


def test_every_template_of_every_document_is_a_pod(cli: Cli) -> None:
    job = volcano_job(template("1"), template("2"), generateName="train-", name=None)
    pods = listed(manifest("b", "1"), SERVICE)
    result = read(cli, manifest("a", "1"), deployment("sort", "night"), pods, job)
    facts = [(each.document, each.kind, *each.pod_name) for each in result if each.pod]

    assert facts == [
        (1, "Pod", "default", "a"),
        (2, "Deployment", "night", "sort"),
        (3, "Pod", "default", "b"),
        *[(4, "Job", "night", "train-")] * 2,
    ]
    assert [each.where for each in result[-2:]] == [
        f"{cli.folder}/p.yaml, document 4, spec.tasks[{at}].template" for at in (0, 1)
    ]


def test_standard_input_is_read() -> None:
    [pod] = manifests.read("-", stdin=io.BytesIO(json.dumps(manifest("a", "1")).encode()))

    assert pod.where == "standard input, document 1"


NAMESPACES = [
    # that of the manifest, that of the command, and the result
    ("no namespace", None, Namespace(), "default"),
    ("the manifest's before the context's", "team-b", Namespace("team-a"), "team-b"),
    ("of the option", None, Namespace("team-a", asked=True), "team-a"),
    ("the same twice", "team-a", Namespace("team-a", asked=True), "team-a"),
]  # fmt: skip


@pytest.mark.parametrize(("own", "of_command", "namespace"), table(NAMESPACES))
def test_a_pod_has_a_namespace(cli: Cli, own: str | None, of_command: Namespace, namespace: str) -> None:
    [pod] = read(cli, manifest("a", "1", namespace=own), namespace=of_command)

    assert (pod.pod and pod.pod.namespace, pod.mistakes) == (namespace, ())


POD = "{{apiVersion: v1, kind: Pod, metadata: {{name: {}}}, spec: {}}}".format
WRONG: list[tuple[str, list[object], list[str]]] = [
    # the documents, and the beginnings of the mistakes
    ("not YAML", ["a: ["], [": is not YAML"]),
    ("empty", [""], [": is empty"]),
    ("no object", ["- 1"], [": "]),
    ("no kind", ["apiVersion: v1"], [".kind: is missing"]),
    ("two documents", [POD("a", "{containers: []}"), POD("b", 7)],
        [", document 1 (Pod a): spec.containers: is empty", ", document 2 (Pod b): spec: must be an object"]),
    ("two templates", [volcano_job({"spec": {}}, {"spec": 7})],
        [", document 1 (Job train): spec.tasks[0].template.spec.containers: is missing",
         ", document 1 (Job train): spec.tasks[1].template.spec: must be an object, not a number"]),
    ("two namespaces", [manifest("a", "1", namespace="team-b")],
        [', document 1 (Pod a): metadata.namespace: "team-b" differs from -n team-a: remove one of them']),
]  # fmt: skip


@pytest.mark.parametrize(("documents", "messages"), table(WRONG))
def test_every_mistake_has_its_place(cli: Cli, documents: list[object], messages: list[str]) -> None:
    namespace = Namespace("team-a", asked=True) if "differs" in messages[0] else Namespace()
    found = read(cli, *documents, namespace=namespace)
    mistakes = [str(mistake) for each in found for mistake in each.located_mistakes()]

    for mistake, message in zip(mistakes, messages, strict=True):
        assert mistake.startswith(f"{cli.folder}/p.yaml{message}")


def test_a_template_of_an_unknown_kind_is_guessed(cli: Cli) -> None:
    [guess] = read(cli, unknown_kind(template("2")))
    containers = [{"name": "a", "image": "b", "resources": 1}]
    [wrong] = read(cli, unknown_kind({"spec": {"containers": containers}}))
    extra = {("x.io", "Thing"): (TemplatePath.read("spec.template"),)}
    [known] = read(cli, unknown_kind(template("2")), extra=extra)

    assert (guess.place.where, guess.place.guessed) == ("spec.template", True)
    assert guess.warnings == ("Thing.x.io is an unknown kind: found a pod template at spec.template",)
    assert (wrong.pod, wrong.mistakes) == (None, ())
    reason = "spec.template.spec.containers[0].resources: must be an object, not a number"
    assert wrong.warnings[1:] == (f"not read as a pod: {reason}",)
    assert (known.place.where, known.place.guessed, known.warnings) == ("spec.template", False, ())


def test_a_misplaced_annotation_is_a_warning_once(cli: Cli) -> None:
    annotations = {"numalign.io/policy": "restricted"}
    [web] = read(cli, deployment("web", "default", **annotations))
    job = read(cli, volcano_job(template("1"), template("2"), annotations=annotations))

    place = "put it on spec.template.metadata.annotations"
    assert web.warnings == (
        f"metadata.annotations[numalign.io/policy] has no effect on a Deployment: {place}",
    )
    assert [len(each.warnings) for each in job] == [1, 0]


def test_objects_without_pods_are_counted_by_kind(cli: Cli) -> None:
    config = {**SERVICE, "kind": "ConfigMap"}
    result = read(cli, manifest("a", "1"), config, SERVICE, config)

    assert list(manifests.notes(result)) == ["3 objects without pods: 2 ConfigMap, 1 Service"]


def test_manifests_are_read_from_a_url() -> None:
    with serving(sends(yaml.safe_dump(manifest("a", "1")).encode())) as url:
        paths, missing = manifests.files([f"{url}/pod.yaml"])
        [pod] = [entry for path in paths for entry in manifests.read(path)]

    assert (pod.file, pod.pod and pod.pod.name, missing) == (f"{url}/pod.yaml", "a", [])


def test_an_unreadable_url_is_a_mistake() -> None:
    for body, code, message in (
        (b"", 404, ": the server answered 404 Not Found"),
        (b"just a sentence", 200, ""),
    ):
        with serving(sends(body, code)) as url:
            [pod] = manifests.read(f"{url}/pod.yaml")
        assert [str(mistake).startswith(f"{url}/pod.yaml{message}") for mistake in pod.mistakes] == [True]
