"""
Clusters to try numalign on, and the demo that shows it on them.

`data` holds nine nodes and 22 pods made up by hand, a conversation for `kubectl numa replay`, and a real GPU
cluster, counted; `openb` makes nodes and pods of those counts; `demo` is what `kubectl numa demo` plays.
"""

from pathlib import Path

DATA = Path(__file__).with_name("data")
"""The bundled files; data/README.md says what each is."""
