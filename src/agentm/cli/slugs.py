"""Names for memories."""

from agentm.context.slugs import slug_of as slug_of
