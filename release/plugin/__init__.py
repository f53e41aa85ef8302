"""`kubectl numa` as one file per platform, which needs nothing but a Python, and its manifest for krew."""
