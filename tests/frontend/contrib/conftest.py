"""Each test draws its inputs anew."""

import pytest

from tests.frontend.contrib.checks import restart


@pytest.fixture(autouse=True)
def numbers_from_the_start():
    """The same random numbers for a test, whichever tests ran before."""
    restart()
