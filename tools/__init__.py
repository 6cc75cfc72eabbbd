"""What the project itself needs and no user: run from the root of the repository."""
