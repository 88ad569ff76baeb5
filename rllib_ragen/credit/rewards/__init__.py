"""Rewards beside the environment's: users' functions, the shipped ones, and a model as judge (docs/rewards.md)."""
