"""
`kubectl numa`: the command-line program.

It prints what the rules say about pods and nodes, from a snapshot or a cluster. The modules in order:

    manifests, questions, lines -> running_cluster -> clusters, explanation
    lines -> nodemap, pages -> checking
    events -> replaying
    -> options -> commands -> cli

A command is imported when it is used, and `running_cluster` when a cluster is read. `demo` has what
`commands.demo` plays.
"""
