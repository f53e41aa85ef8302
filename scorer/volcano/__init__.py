"""How the scorer answers Volcano."""
