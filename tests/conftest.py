"""What all tests share."""

import os

# The matrices of tests are tiny, and each worker of pytest-xdist has a core: torch's threads, here and in programs
# that tests start, would only wait for each other. It must be said before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
