"""The commands: each reads its options, asks, and shows; what they say is decided elsewhere."""
