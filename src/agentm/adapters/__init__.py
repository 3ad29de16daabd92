"""Doors that other frameworks already have, with agentm behind them; each needs its extra."""
