"""The private names of Ray, RLlib, Optuna and torch that this package uses, one file per library.

Nothing else in the package says them. tests/faults/test_private_names.py holds each to what it must do, so that an
upgrade that takes one away fails there, and a run says which one.
"""
