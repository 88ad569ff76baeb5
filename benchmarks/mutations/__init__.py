"""Changes the code that learning rests on, one place at a time, and counts the changes that the tests see."""
