"""Makes the artefacts of a release: wheel, plugin archives, manifests, chart, images, SBOMs, and signatures.

`python -m release` makes all of them, from a commit and not from the working tree. The wheel does not
contain this package.
"""
