"""python -m stator minify|bisect|run|analyze ..."""

import sys

from stator.debug._command import main

sys.exit(main())
