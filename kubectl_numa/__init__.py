"""
`kubectl numa`, the third entry point: for people.

What the rules say about pods and nodes, as text or JSON, from a snapshot or a live cluster. In order:

    manifests, questions, notices -> running_cluster -> clusters, explanation
    lines -> nodemap, pages -> checking
    events -> replaying
    -> options -> commands -> lazy -> cli

A command is imported when it is chosen, and `running_cluster` when one is asked. `examples` holds what `demo`
plays.
"""
