"""Losses, one small file each: per-token terms and the weights of the sum. Torch only."""
