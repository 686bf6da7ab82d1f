"""The work of the public functions of `compiler`, imported when they are called."""
