"""What the programs share."""

PROGRAMS = []


def program(fn):
    PROGRAMS.append(fn)
    return fn


class Thing:
    """The watched input."""

    def __init__(self, value=3):
        self.value = value
        self.items = [1, 2, 3]

    def method(self, a, b=2, *rest, c=4, **more):
        return self.value, a, b, rest, c, sorted(more.items())

    @property
    def double(self):
        return self.value * 2

    @classmethod
    def make(cls, v):
        return cls(v).value

    @staticmethod
    def static(v):
        return v + 1

    def __getitem__(self, key):
        return key, self.value

    def __add__(self, other):
        return self.value + other

    def __radd__(self, other):
        return other - self.value

    def __eq__(self, other):
        return isinstance(other, Thing) and self.value == other.value

    def __hash__(self):
        return 7

    def __bool__(self):
        return self.value > 0

    def __len__(self):
        return self.value

    def __contains__(self, item):
        return item == self.value

    def __iter__(self):
        return iter(self.items)

    def __call__(self, *args, **kwargs):
        return args, kwargs


class Loud:
    """Says when it dies."""

    log = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        Loud.log.append(self.name)


class Manager:
    def __init__(self, log, name="m", swallow=False, fail_enter=False, fail_exit=False):
        self.log, self.name, self.swallow, self.fail_enter, self.fail_exit = log, name, swallow, fail_enter, fail_exit

    def __enter__(self):
        self.log.append(("enter", self.name))
        if self.fail_enter:
            raise RuntimeError("enter " + self.name)
        return self.name

    def __exit__(self, kind, value, tb):
        self.log.append(("exit", self.name, kind and kind.__name__, value and value.args, tb is not None))
        if self.fail_exit:
            raise RuntimeError("exit " + self.name)
        return self.swallow
