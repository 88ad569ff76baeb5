"""RAGEN's agent training (StarPO) as a first-class citizen of Ray RLlib."""

__version__ = "0.1.0"
