"""What only the project itself needs, not its users; run it from the root of the repository."""
