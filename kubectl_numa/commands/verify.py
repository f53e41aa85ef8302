"""`kubectl numa verify`: check that the admission webhook reviews pods."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

import click

from kubectl_numa import options
from kubectl_numa.admission_probe import ProbedPod, ProbeOutcome, probe
from kubectl_numa.lines import waiting
from kubectl_numa.listings import Output
from numalign.kube import name_completion
from numalign.kube.client import connected
from numalign.kube.command_line import from_kubeconfig
from numalign.kube.connection import Connection
from numalign.model.intent import POLICY

UNEXPECTED = 1
"""The exit code if a pod has another outcome than in a working installation."""

_REMEDIES = {
    ProbeOutcome.ADMITTED: "the API server does not send these pods to the webhook, or the webhook does not"
    " respond: check that its pods are ready, and that the namespace is not excluded",
    ProbeOutcome.DENIED: "the namespace or the cluster policy requires more than this pod requests: use"
    " another namespace with -n",
    ProbeOutcome.FAILED: "the pod could not be created for another reason:",
}


@options.command("kubectl numa verify", "kubectl numa verify -n team --timeout 60s")
@from_kubeconfig
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=name_completion.namespaces,
    help="Namespace of the two pods. Defaults to the namespace of the kubeconfig's context.",
)
@options.timeout_option
@options.document_option
def verify(*, connection: Connection, namespace: str | None, timeout: float, output: Output) -> None:
    """Check that the admission webhook reviews pods.

    Creates two pods as a dry run: one with a policy that does not exist, which numalign must deny, and one
    with the policy best-effort, which must be admitted. Nothing is stored. You need permission to create pods
    in the namespace, which must not be excluded from admission.

    Exit code 0: both pods have the expected outcome. 1: at least one does not. 2: the cluster could not be
    reached.
    """

    async def probed() -> tuple[str, Sequence[ProbedPod]]:
        async with connected(connection) as api:
            place = namespace or api.namespace
            return place, await probe(api, namespace=place, patience=timeout)

    with waiting("creating two pods as a dry run"):
        place, pods = asyncio.run(probed())
    passed = all(pod.passed for pod in pods)
    if output is not Output.TEXT:
        options.print_document({"namespace": place, "pods": [asdict(pod) for pod in pods]}, output)
        raise click.exceptions.Exit(0 if passed else UNEXPECTED)
    writer, indent = options.text_writer(), 8
    for pod in pods:
        by = f" by {pod.detail}" if pod.outcome is ProbeOutcome.DENIED else ""
        what = f"a pod with {POLICY}: {pod.policy} is {pod.outcome}{by}"
        if pod.passed:
            writer.entry("  ok  ", what, indent=indent, label_style="green")
            continue
        writer.entry("  FAIL", f"{what}, not {pod.expected}", indent=indent, label_style="red")
        writer.entry("", _REMEDIES[pod.outcome], indent=indent)
        if pod.outcome is ProbeOutcome.FAILED:
            writer.entry("", pod.detail, indent=indent)
    reviews = "reviews" if passed else "does not review"
    writer.entry("", f"numalign {reviews} the pods of namespace {place}", indent=0, style="bold")
    raise click.exceptions.Exit(0 if passed else UNEXPECTED)
