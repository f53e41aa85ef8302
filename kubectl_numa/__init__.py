"""Door 3, a person comes in: what the rules say of pods and nodes, in a terminal."""
