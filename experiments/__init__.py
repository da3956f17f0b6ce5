"""One file per experiment: `get_config(variant)`, a few lines over `leap`."""
