"""The driver: settings, the steps of a build in order, and the decisions between them."""
