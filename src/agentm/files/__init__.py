"""Files under absolute paths, for the tools of an agent, and the scopes that keep them in."""
