"""Finds the graph of a program that fails: runs the program again and again, with fewer and fewer of its graphs
compiled.

The program fails if it ends with another status than with no graph compiled, is killed, or does not end. If its status
is right, the compiled graphs are compared with eager one by one instead.
"""

import bisect
import glob
import itertools
import os
import signal
import subprocess
import sys
import tempfile

_numbers = itertools.count()
_SETTING = "STATOR_BISECT"  # "first:last:file": graphs from first up to last are compiled; how many there are is noted in the file


def is_compiled():
    """Whether the graph is compiled that comes next, in the order of the program."""
    number = next(_numbers)
    setting = os.environ.get(_SETTING)
    if setting is None:
        return True
    first, last, noted = setting.split(":", 2)
    with open(noted, "a") as file:
        file.write(f"{number}\n")
    return int(first) <= number < (int(last) if last else sys.maxsize)


def add_arguments(parser):
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run of the program (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="show what the program prints")
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs="...", help="its arguments")


class Program:
    def __init__(self, script, arguments, timeout, verbose):
        self.command, self.timeout = [sys.executable, script, *arguments], timeout
        self.stream = None if verbose else subprocess.PIPE
        self.runs = 0

    def run(self, first, last, **variables):
        """(how it ends, number of graphs, errors) of a run with the graphs from first up to last compiled."""
        self.runs += 1
        with tempfile.NamedTemporaryFile("r") as noted:
            environment = {**os.environ, _SETTING: f"{first}:{'' if last is None else last}:{noted.name}", **variables}
            process = subprocess.Popen(
                self.command,
                env=environment,
                stdout=self.stream,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            try:
                _, errors = process.communicate(timeout=self.timeout)
                status = process.returncode
                ends = f"is killed by {signal.Signals(-status).name}" if status < 0 else f"ends with status {status}"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                _, errors = process.communicate()
                ends = "does not end"
            return ends, len(noted.readlines()), errors or ""

    def differences(self, first, last):
        """What level 4 says of the graphs from first up to last."""
        after = os.environ.get("STATOR_REPRO_AFTER", "dynamo")
        _, _, errors = self.run(first, last, STATOR_REPRO_AFTER=after, STATOR_REPRO_LEVEL="4")
        return [line for line in errors.splitlines() if "differs from eager" in line]


def find(script, arguments=(), timeout=600.0, verbose=False):
    """(number of the first graph that makes the program fail, or None; the report as text)."""
    program = Program(script, arguments, timeout, verbose)
    right, graphs, errors = program.run(0, 0)
    if graphs == 0:
        return None, f"{script} {right} without having compiled a graph\n{errors[-2000:]}"
    wrong, more, _ = program.run(0, None)
    graphs = max(graphs, more)
    if wrong == right and not program.differences(0, None):
        said = f"{graphs} graphs: the program ends as it should, and every graph agrees with eager"
        return None, f"{said}. {program.runs} runs"

    def fails(count):
        return bool(program.differences(0, count)) if wrong == right else program.run(0, count)[0] == wrong

    number = bisect.bisect_left(range(1, graphs), True, key=fails)
    if wrong == right:
        lines = [f"graph {number} of {graphs} is the first that is wrong.", *program.differences(number, number + 1)]
    else:
        after = os.environ.get("STATOR_REPRO_AFTER", "auto")
        alone, _, _ = program.run(number, number + 1, STATOR_REPRO_AFTER=after, STATOR_REPRO_LEVEL="3")
        more = "" if alone == wrong else " The failure needs other graphs too."
        matters = f"graph {number} of {graphs} is the first that matters"
        lines = [
            f"{matters}: {script} {right} without it and {wrong} with it.",
            f"Compiled alone, the program {alone}.{more}",
        ]
    return number, "\n".join([*lines, *_scripts_named(), f"{program.runs} runs"])


def _scripts_named():
    def last_written(*place):
        return sorted(glob.glob(os.path.join(*place, "*")), key=os.path.getmtime)

    runs = last_written(os.getcwd(), "stator_debug")
    found = last_written(runs[-1], "checkpoints") if runs else []
    return ["Its scripts, the last written last:\n  " + "\n  ".join(found)] if found else []


def main(arguments):
    if not os.path.exists(arguments.script):
        sys.exit(f"stator: there is no file {arguments.script}")
    number, text = find(arguments.script, arguments.arguments, arguments.timeout, arguments.verbose)
    print(text)
    return 0 if number is not None else 3
