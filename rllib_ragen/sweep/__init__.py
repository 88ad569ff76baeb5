"""Sweeps: Ray Tune runs the trials, an Optuna study on disk chooses and records them."""
