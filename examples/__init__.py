"""
Example clusters, and the demo that shows numalign on them.

`data` holds nine nodes and 22 pods written by hand, events of one node for `kubectl numa replay`, and counts
of a real GPU cluster; `openb` creates nodes and pods from those counts; `demo` is `kubectl numa demo`.
"""

from pathlib import Path

DATA = Path(__file__).with_name("data")
"""The bundled files; data/README.md describes each of them."""
