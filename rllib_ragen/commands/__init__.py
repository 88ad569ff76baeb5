"""Commands of few files: `python -m rllib_ragen.NAME` finds them here (`rllib_ragen/__init__.py`)."""
