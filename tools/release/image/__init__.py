"""Makes the container images as OCI archives, without a daemon, root, or an image registry.

`python -m tools.release.image --out dist` writes one archive for each image. The base is made of Debian
packages, pinned by SHA-256 in deploy/image-lock.json. The layers above it are the Python dependencies
(requirements/*.txt) and the wheel. The same inputs give the same digests. Decision 0026 explains why
the images are made this way.
"""
