"""
Published figures of the policies that a replay on nodes reimplements.

Means of the ten seeds for `openb_pod_list_default` at tuning ratio 1.3, in per cent of all GPUs, from
hkust-adsl/kubernetes-scheduler-simulator at 8f3d641, experiments/analysis/expected_results: columns 10 to
130 of analysis_allo_discrete.csv and analysis_frag_discrete.csv.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

ARRIVED = range(10, 131, 10)
"""Where the published curves are read: the GPUs requested so far, in per cent of all GPUs."""


@dataclass(frozen=True, slots=True)
class PublishedCurve:
    """The GPUs that are allocated, and those that are fragments, in per cent of all GPUs, at `ARRIVED`."""

    allocated: Sequence[float]
    fragments: Sequence[float]


PUBLISHED: Mapping[str, PublishedCurve] = MappingProxyType(
    {
        "Random": PublishedCurve(
            (10.01, 20.0, 30.02, 40.01, 49.97, 59.73, 69.21, 78.66, 85.02, 86.3, 86.88, 87.28, 87.47),
            (14.43, 14.67, 14.81, 14.93, 15.1, 15.45, 15.9, 15.92, 14.48, 13.49, 12.97, 12.61, 12.43),
        ),
        "DotProd": PublishedCurve(
            (10.01, 20.0, 30.02, 40.01, 50.01, 60.0, 70.0, 80.02, 89.98, 90.62, 90.7, 90.76, 90.85),
            (14.74, 14.07, 13.48, 12.8, 12.09, 11.43, 10.78, 10.09, 9.43, 9.3, 9.23, 9.16, 9.08),
        ),
        "GpuClustering": PublishedCurve(
            (10.01, 20.0, 30.02, 40.01, 50.01, 60.0, 70.0, 80.02, 89.98, 91.65, 91.73, 91.8, 91.88),
            (14.05, 14.46, 13.85, 13.0, 12.11, 11.19, 10.27, 9.36, 8.44, 8.21, 8.14, 8.08, 8.0),
        ),
        "GpuPacking": PublishedCurve(
            (10.01, 20.0, 30.02, 40.01, 50.01, 60.0, 70.0, 80.02, 89.98, 91.78, 91.85, 91.92, 92.0),
            (14.03, 14.44, 13.81, 12.92, 12.01, 11.12, 10.19, 9.28, 8.37, 8.13, 8.05, 7.99, 7.91),
        ),
        "BestFit": PublishedCurve(
            (10.01, 20.0, 30.02, 40.01, 50.01, 60.0, 70.0, 80.02, 89.99, 92.86, 92.94, 93.0, 93.08),
            (14.25, 13.38, 12.5, 11.68, 10.81, 9.97, 9.13, 8.29, 7.41, 7.05, 6.98, 6.92, 6.85),
        ),
        "FGD": PublishedCurve(
            (10.01, 20.0, 30.02, 40.01, 50.01, 60.0, 70.0, 80.02, 89.98, 95.23, 95.3, 95.35, 95.39),
            (12.85, 11.88, 10.88, 9.91, 8.93, 7.96, 6.95, 5.97, 5.0, 4.73, 4.66, 4.61, 4.57),
        ),
    }
)
