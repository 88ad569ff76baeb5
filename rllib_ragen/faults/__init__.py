"""Ends of runs when something dies, hangs or is full: exit codes, signals, heartbeats, the watchdog
(docs/faults.md).
"""
