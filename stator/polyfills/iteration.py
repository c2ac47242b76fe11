"""Iterators whose state is easier to say in Python than in C++."""


def by_index(sequence):
    """What iter() makes of an object that has only __getitem__."""
    index = 0
    while True:
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item
        index += 1


class _Groups:
    """What groupby and its groups share: CPython's fields, with `has_value` for a value and key that are there."""

    def __init__(self, iterable, key):
        self.iterator = iter(iterable)
        self.function = key
        self.has_value = False
        self.value = self.key = None
        self.number = 0  # of the group that may go on

    def step(self):
        """Whether there is a next value."""
        for value in self.iterator:
            break
        else:
            return False
        self.key = value if self.function is None else self.function(value)
        self.value = value
        self.has_value = True
        return True


def _group(shared, key, number):
    while shared.number == number:
        if not shared.has_value and not shared.step():
            return
        if not (key is shared.key or key == shared.key):
            return
        value = shared.value
        shared.has_value = False
        shared.value = shared.key = None
        yield value


def _groups(shared):
    first = True
    key = None
    while True:
        shared.number += 1
        while not shared.has_value or not (first or not (key is shared.key or key == shared.key)):
            if not shared.step():
                return
        first = False
        key = shared.key
        yield key, _group(shared, key, shared.number)


def groupby(iterable, key=None):
    return _groups(_Groups(iterable, key))
