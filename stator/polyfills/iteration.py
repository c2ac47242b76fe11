"""Iterators whose state is easier to say in Python than in C++."""


class _Groups:
    """What groupby gives, and shares with its groups: CPython's fields, with `has_value` for a value and key that are
    there. No generators: while a key is computed or compared, the program may ask for an item."""

    def __init__(self, iterable, key):
        self.iterator = iter(iterable)
        self.function = key
        self.has_value = False
        self.value = self.key = self.last = None
        self.number = 0  # of the group that may go on

    def step(self):
        """Whether there is a next value."""
        try:
            value = next(self.iterator)
        except StopIteration:
            return False
        self.key = value if self.function is None else self.function(value)
        self.value = value
        self.has_value = True
        return True

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        first = self.number == 1
        while not self.has_value or not (first or not (self.last is self.key or self.last == self.key)):
            if not self.step():
                raise StopIteration
        self.last = self.key
        return self.key, _Group(self, self.key, self.number)


class _Group:
    def __init__(self, shared, key, number):
        self.shared = shared
        self.key = key
        self.number = number

    def __iter__(self):
        return self

    def __next__(self):
        shared = self.shared
        if shared.number != self.number or not (shared.has_value or shared.step()):
            raise StopIteration
        if not (self.key is shared.key or self.key == shared.key):
            raise StopIteration
        value = shared.value
        shared.has_value = False
        shared.value = None
        return value


def groupby(iterable, key=None):
    return _Groups(iterable, key)
