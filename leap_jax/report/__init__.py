"""Run folders to one self-contained HTML page: `python -m leap_jax.report runs/*`."""
