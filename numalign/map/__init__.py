"""
The map: a graphical view of the cluster's NUMA zones in a browser.

The same pages are served by the controller and written by `kubectl numa map`. Their content is computed by
the same rules and ledger as every other answer, and rendered on the server.
"""
