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


def _group(shared, key):
    # `shared` is [iterator, key function, item under way or nothing, its key, number of the group, whether the iterator
    # has ended].
    number = shared[4]
    while shared[4] == number and not shared[5]:
        yield shared[2]
        for shared[2] in shared[0]:
            break
        else:
            shared[5] = True
            return
        shared[3] = shared[2] if shared[1] is None else shared[1](shared[2])
        if not (shared[3] == key):
            shared[4] = number + 1


def groupby(iterable, key=None):
    shared = [iter(iterable), key, None, None, 0, False]
    for shared[2] in shared[0]:
        break
    else:
        return
    shared[3] = shared[2] if key is None else key(shared[2])
    while not shared[5]:
        number = shared[4]
        current = shared[3]
        yield current, _group(shared, current)
        # What the program left of the group is passed over.
        while shared[4] == number and not shared[5]:
            for shared[2] in shared[0]:
                break
            else:
                shared[5] = True
                break
            shared[3] = shared[2] if key is None else key(shared[2])
            if not (shared[3] == current):
                shared[4] = number + 1
