"""
The map: a picture of the cluster's zones in a browser, for whoever would rather look than read.

The same pages are served by the controller and written by `kubectl numa map`. What they show is worked out by
the rules and the ledger that everything else answers from, and drawn on the server.
"""
