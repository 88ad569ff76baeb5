"""`python -m rllib_ragen.new_env NAME`: a package with an environment of the user's to start from."""
