"""An environment for agents that act by words; world.py has its rules."""
