"""Bringing in what other tools remember, one memory for each note or conversation, each with where it came from."""
