"""The environment: tasks, answers, compiler, emulator, verdicts. Usable alone; never imports jax."""
