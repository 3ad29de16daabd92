"""Context nodes: the unit of memory, a directory of plain files that cannot be torn."""
