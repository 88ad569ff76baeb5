"""Raw rewards → filtered groups → advantages per token. Pure functions on arrays: numpy only, no torch, no Ray."""
