"""One-line migration: each module mirrors the public names of the package it is named after."""
