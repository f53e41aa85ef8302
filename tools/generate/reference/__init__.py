"""Write the generated pages of docs/reference: `python -m tools.generate.reference`."""
