"""How commands show what they do: options, what is done and left, and the two displays."""
