"""The search for failures: random models, broken models, damaged files and extreme data."""
