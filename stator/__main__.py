"""python -m stator: see stator/commands."""

import sys

from stator.commands import main

sys.exit(main())
