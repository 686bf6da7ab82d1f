"""Pages of the documentation that are generated: a module each, run to write its page."""
