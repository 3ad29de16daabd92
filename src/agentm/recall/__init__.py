"""Recall: what is known about something, ranked, within a budget of tokens."""
