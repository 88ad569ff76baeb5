"""Who is how strong in a game: matches between models, checkpoints and scripts, ratings, exploitability."""
