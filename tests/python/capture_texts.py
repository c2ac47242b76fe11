"""python -m tests.python.capture_texts <folder> <regular expression>: runs programs of the corpus, with what each
captures written to a folder of its own below (config.trace_dir). Two processes with different hash seeds have to write
the same."""

import re
import sys
from pathlib import Path

import stator
from tests.python.differential import compare, prepare_process
from tests.python.frontends import frontend
from tests.python.programs import load_all


def main() -> None:
    folder, pattern = Path(sys.argv[1]), sys.argv[2]
    prepare_process()
    for program in load_all():
        if re.search(pattern, program.name):
            stator.config.trace_dir = str(folder / program.name)
            compare(program, frontend("stator"))


if __name__ == "__main__":
    main()
