"""`python -m flowloom` is the command `flowloom`."""

import sys

from compiler.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
