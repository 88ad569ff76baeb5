"""What a run of a game for several seats needs: names, line-ups, leagues, scales."""
