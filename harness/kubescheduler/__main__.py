"""Prints the path of the kube-scheduler, built first if necessary; exit codes as in `harness.gotools`."""

import sys

from harness.gotools import run
from harness.kubescheduler import WORKSHOP, find

sys.exit(run(WORKSHOP, find()))
