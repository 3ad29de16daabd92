"""The local index: derived from the source, rebuildable at any time, never synced."""
