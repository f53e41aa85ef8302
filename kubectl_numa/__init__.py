"""
DOOR 3: a person comes in.

What the rules say of pods and nodes, in a terminal or as JSON, from a snapshot or a live cluster. In order:

    manifests, questions -> clusters, explanation -> bars, lines -> nodemap, pages -> checking
    events -> replaying
    -> options -> commands -> cli

`examples` holds what `demo` plays.
"""
