"""
The rules: one pod on one node, as frozen values and functions.

Read the modules in the order in which a pod flows through them: errors, quantity, resources, machine,
options, pod, intent, demand, topology, placement, doubt, kubelet, verdict, evaluate, scoring. Each knows only
those before it. Nothing here waits, logs, reads a file or knows the time, so every door can ask the same
question and get the same answer.
"""
