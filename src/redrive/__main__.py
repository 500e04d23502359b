"""`python -m redrive`, for where the `redrive` script is not on the path."""

import sys

from redrive.cli import main

sys.exit(main())
