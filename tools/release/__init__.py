"""Makes the files of a release: wheel, source distribution, plugin, chart, manifests, SBOMs and checksums.

The images are built from deploy/Dockerfile, and .github/workflows/release.yml signs the files.
"""
