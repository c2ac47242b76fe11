"""python -m stator minify|bisect|run|analyze ... and python -m stator ranks <folder>"""

import sys

if sys.argv[1:2] == ["ranks"]:
    from stator._rank_log import report

    if len(sys.argv) != 3:
        sys.exit("usage: python -m stator ranks <folder that config.trace_dir named>")
    text, status = report(sys.argv[2])
    print(text)
    sys.exit(status)

from stator.debug._command import main

sys.exit(main())
