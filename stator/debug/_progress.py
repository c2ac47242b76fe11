"""The minifier's progress: a bar with calls left, tries and time where there is a terminal and rich, lines
otherwise."""

import sys
import time


class Progress:
    def __init__(self):
        self.bar = None
        self.start = time.monotonic()
        self.last = None

    def __enter__(self):
        if not sys.stderr.isatty():
            return self
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        except ImportError:
            return self
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[left]} calls left, {task.fields[tries]} tries"),
            TimeElapsedColumn(),
        )
        # No thread: the process is forked for each candidate, and a fork takes a thread's locks with it.
        self.bar = Progress(*columns, console=Console(file=sys.stderr), auto_refresh=False, transient=True)
        self.bar.start()
        return self

    def __exit__(self, *_):
        if self.bar is not None:
            self.bar.stop()

    def begin(self, calls):
        self.total = calls
        if self.bar is not None:
            self.task = self.bar.add_task("the failure itself", total=max(calls, 1), left=calls, tries=0)
            self.bar.refresh()

    def update(self, case, tries, text):
        left = case.specimen.call_count()
        if self.bar is not None:
            self.bar.update(self.task, completed=self.total - left, description=text, left=left, tries=tries)
            self.bar.refresh()
        elif (text, left) != self.last:
            print(f"[{time.monotonic() - self.start:6.1f} s] {left} calls left, {tries} tries: {text}", file=sys.stderr)
        self.last = (text, left)
