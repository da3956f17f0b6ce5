"""The paper: pure functions of arrays. Nothing here reads a file, a flag or a config object."""
