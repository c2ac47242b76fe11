"""stator.guards: which facts a compiled function's graphs rely on, and what checking them costs."""

import dataclasses

from stator import _compile, _core, _html


@dataclasses.dataclass
class Entry:
    """One captured part, and what has to hold for it to serve."""

    function: str
    place: str  # file:line
    ops: int
    guards: list  # of text, as they are checked
    symbols: list = dataclasses.field(default_factory=list)  # sizes and numbers that it leaves open
    nanoseconds: list | None = None  # of each guard by itself; None: not measured
    together: float | None = None  # nanoseconds of all guards as a call checks them

    def __str__(self):
        parts = _html.counted(self.ops, "operation"), _html.counted(len(self.guards), "guard")
        head = f"{self.function}, {self.place}: {', '.join(parts)}"
        if self.together is not None:
            head += f", {self.together / 1e3:.2f} us together"
        lines = [head]
        for i, guard in enumerate(self.guards):
            cost = f"{self.nanoseconds[i]:8.1f} ns  " if self.nanoseconds is not None else ""
            lines.append(f"  {cost}{guard}")
        lines += [f"  symbol {symbol}" for symbol in self.symbols]
        return "\n".join(lines)


class Guards:
    """The entries of a compiled function. print() shows them; called with the function's arguments, it calls the
    function and returns the entries that served, with the nanoseconds of each guard."""

    def __init__(self, compiled, entries):
        self._compiled = compiled
        self.entries = entries

    def __call__(self, *args, **kwargs):
        self._compiled(*args, **kwargs)  # captures what is not there yet
        found = []
        _core.measure_guards(found)
        try:
            self._compiled(*args, **kwargs)
        finally:
            _core.measure_guards(None)
        ops = {entry.place: entry.ops for entry in self._of(self._compiled)}
        entries = []
        for (function, file, line, _offset), costs, together in found:
            place = f"{file}:{line}"
            texts, times = [text for text, _ in costs], [time for _, time in costs]
            entries.append(Entry(function, place, ops.get(place, 0), texts, [], times, together))
        return Guards(self._compiled, entries)

    @staticmethod
    def _of(compiled):
        entries = []
        for (function, file, line, _offset), ops, guards, symbols in _core.entries(
            _compile.compiled_call(compiled, "guards")
        ):
            entries.append(Entry(function, f"{file}:{line}", ops, guards.splitlines(), symbols.splitlines()))
        return entries

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)

    def __str__(self):
        return "\n".join(map(str, self.entries)) or "nothing has been captured yet"

    __repr__ = __str__

    def _repr_html_(self):
        from stator import _html

        return _html.guards(self)


def guards(compiled):
    """What was captured for a compiled function or module, and the guards of each part, as text with their sources.

    print(stator.guards(f)) shows them; print(stator.guards(f)(*args)) calls f with these arguments, twice, and shows
    what each guard of the entries that served costs.
    """
    return Guards(compiled, Guards._of(compiled))
