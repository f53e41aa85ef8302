"""
DOOR 3: a person comes in.

What the rules say of pods and nodes, in a terminal or as JSON, from a snapshot or a live cluster. In order:

    manifests, questions -> clusters, explanation -> bars, lines -> nodemap, pages -> checking
    events -> replaying
    -> options -> commands -> cli

`demo` shows everything on a bundled cluster; `openb` and `data` are what it runs on.
"""
