"""The kubectl plugin: an archive for each platform that needs only Python, and the krew manifest."""
