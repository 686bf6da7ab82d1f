"""The errors and warnings that users may catch."""

from compiler.errors import *  # noqa: F403
