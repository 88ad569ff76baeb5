"""Runs as one HTML page: `python -m rllib_ragen.report results/RUN`. Needs no network, and neither does the page."""
