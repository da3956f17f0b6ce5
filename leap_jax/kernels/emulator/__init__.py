"""A PTX emulator: text -> IR (ptx) -> lock-step execution (machine) over checked memory (memory, checks)."""
