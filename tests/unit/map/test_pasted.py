"""What browsers submit: forms, and pasted text with one object that creates pods, or a mistake."""

import asyncio
import contextlib
import gzip
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numalign.map import forms, pasted
from numalign.map.pasted import MOST_BYTES
from numalign.model.errors import BadInput
from tests.worlds import objects
from tests.worlds.notation import table
from tests.worlds.objects import Json
from tests.worlds.scorer import raw

POD = raw("cpu=4 mem=1Gi", namespace="team")
TEMPLATE = {"metadata": {}, "spec": POD["spec"]}
DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "team"},
    "spec": {"replicas": 3, "template": TEMPLATE},
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}


def text(*documents: object) -> bytes:
    return yaml.dump_all(documents, Dumper=yaml.CSafeDumper).encode()


def job_set(count: int) -> Json:
    jobs = [{"template": {"spec": {"template": TEMPLATE}}}] * count
    metadata, spec = {"name": "train"}, {"replicatedJobs": jobs}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


WRITTEN = [
    # the text, and its kind, namespace, name, replicas and templates
    ("YAML", text(POD), ("Pod", "team", "web", 1, [""])),
    ("JSON", json.dumps(POD).encode(), ("Pod", "team", "web", 1, [""])),
    ("gzip", gzip.compress(text(POD)), ("Pod", "team", "web", 1, [""])),
    ("with a Service", text(SERVICE, POD), ("Pod", "team", "web", 1, [""])),
    ("a Deployment", text(DEPLOYMENT), ("Deployment", "team", "web", 3, ["spec.template"])),
    ("several templates", text(job_set(2)), ("JobSet", "default", "train", 1,
        [f"spec.replicatedJobs[{at}].template.spec.template" for at in (0, 1)])),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), table(WRITTEN))
def test_an_object_that_creates_pods_is_read(written: bytes, expected: tuple[object, ...]) -> None:
    read = pasted.read(written)

    assert (read.kind, read.namespace, read.name, read.replicas, [each.where for each in read.templates]) == (
        expected
    )


@pytest.mark.parametrize("replicas", [0, -1, True, "3", None, [3], 2**31])
def test_impossible_replicas_are_one(replicas: object) -> None:
    odd = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": replicas}}

    assert pasted.read(text(odd)).replicas == 1


def test_an_unknown_kind_is_read_with_a_note() -> None:
    read = pasted.read(text({**DEPLOYMENT, "apiVersion": "example.com/v1", "kind": "Thing"}))

    assert (read.kind, bool(read.notes)) == ("Thing", True)


ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)
)
MACHINE = {**SERVICE, "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}
WRONG = [
    ("nothing",              b"",                   "is empty"),
    ("a word",               b"hello",              "must be an object"),
    ("half of JSON",         b'{"kind"',            "is not JSON"),
    ("no template",          text(SERVICE),         "creates no pods: it contains Service"),
    ("pods that are elsewhere", text(MACHINE),
        "the pods of a VirtualMachine.kubevirt.io cannot be read from it"),
    ("two objects",          text(POD, DEPLOYMENT),
        "has 2 objects that create pods, Pod web, Deployment web: paste one of them"),
    ("many objects",         text(*[POD] * 6),
        "has 6 objects that create pods, Pod web, Pod web, Pod web, Pod web, more"),
    ("many templates",       text(job_set(17)),     "has 17 pod templates: at most 16 are allowed"),
    ("no object of an API",  b"a: b",               "kind"),
    ("deep JSON",            b"[" * 100_000,        "is nested deeper than"),
    ("deep YAML",            b"a: " + b"[" * 100_000, "is nested deeper than"),
    ("too many aliases",     ALIASES.encode(),      "through its aliases"),
    ("too long",             b"#" * (MOST_BYTES + 1), f"has more than {MOST_BYTES} bytes"),
    ("too long unpacked",    gzip.compress(b" " * (MOST_BYTES + 1)), f"has more than {MOST_BYTES} bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "message"), table(WRONG))
def test_other_texts_are_mistakes(written: bytes, message: str) -> None:
    [mistake] = objects.mistakes(BadInput, pasted.read, written)

    assert message in mistake


def test_all_mistakes_of_a_pod_are_raised() -> None:
    broken = raw("cpu=4 mem=1Gi")
    broken["spec"]["containers"][0]["resources"]["limits"] |= {"cpu": "four", "memory": "lots"}

    assert len(objects.mistakes(BadInput, pasted.read, text(broken))) == 2


URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"


def part(name: str, content: str, head: str = "") -> str:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n{head}\r\n{content}\r\n'


async def test_both_encodings_have_the_same_fields() -> None:
    parts = part("manifest", "a: b\r\n") + part("replicas", "2") + part("empty", "") + "--x--\r\n"
    urlencoded = await forms.fields(b"manifest=a%3A+b%0D%0A&replicas=2&empty=", URLENCODED)

    assert urlencoded == await forms.fields(parts.encode(), MULTIPART)
    assert urlencoded == {"manifest": b"a: b\r\n", "replicas": b"2", "empty": b""}
    assert await forms.fields(b"a=1&a=2", URLENCODED) == {"a": b"2"}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "--x",
        "--x\r\nnonsense",
        "--y\r\n\r\n--y--",
        "--x\r\n\r\nof no name\r\n--x--",
        part("a", "--y\r\n\r\nz\r\n--y--", "Content-Type: multipart/mixed; boundary=y\r\n") + "--x--",
        "--x\r\n" + "A: b\r\n" * 20_000,
        "".join(part(f"f{number}", "") for number in range(forms.MOST_FIELDS + 1)) + "--x--",
    ],
)
async def test_an_unreadable_form_is_a_mistake(body: str) -> None:
    with pytest.raises(BadInput, match="the form cannot be read"):
        await forms.fields(body.encode(), MULTIPART)


@given(st.binary(max_size=200), st.sampled_from([URLENCODED, MULTIPART, "multipart/form-data", "a/b", ""]))
def test_any_body_is_a_form_or_a_mistake(body: bytes, content_type: str) -> None:
    for data in (body, b"--x\r\n" + body, part("a", "").encode() + body):
        with contextlib.suppress(BadInput):
            assert len(asyncio.run(forms.fields(data, content_type))) <= forms.MOST_FIELDS


def test_invalid_utf_8_is_replaced() -> None:
    assert forms.text({"a": b"x\xff"}, "a") == "x\N{REPLACEMENT CHARACTER}"
    assert forms.text({}, "a") == ""
