"""What a release is made of: wheel, plugin archives, manifests, bills of materials, checksums and signatures.

Nothing here is installed. `python -m release` makes them all, from a commit and not from the working tree.
"""
