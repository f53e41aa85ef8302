"""Prints the path of the kube-scheduler, built first if necessary; exit codes as in `gotools`."""

import sys

from tools.clusters.gotools import run
from tools.clusters.kubescheduler import WORKSHOP, find

sys.exit(run(WORKSHOP, find()))
