"""`python -m opensafe.cli`: the same as the installed `opensafe`."""

import sys

from . import main

sys.exit(main())
