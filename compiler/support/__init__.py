"""Small helpers: checked arguments, caches, graphs, native code, users' files, words."""
