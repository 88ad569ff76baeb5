"""How a run ends when something dies, hangs or is full: exit codes, signals, beats, the watchdog (docs/faults.md)."""
