"""python -m stator run|minify|analyze|bisect|ranks|cache ..."""

import sys

from stator.debug._command import main

sys.exit(main())
