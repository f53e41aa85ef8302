"""The workshop: what developers use and users do not install."""
