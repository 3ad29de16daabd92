"""Wrappers around a store that are stores themselves: each adds one rule and passes conformance."""
