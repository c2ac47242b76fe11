"""functools and helpers of collections that are written in C and call back into Python."""

import collections
import re

_MISSING = object()


def reduce(function, iterable, initial=_MISSING, /):
    try:
        iterator = iter(iterable)
    except TypeError:
        iterator = None
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial is _MISSING:
        for value in iterator:
            break
        else:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        value = initial
    for item in iterator:
        value = function(value, item)
    return value


def defaultdict_copy(table):
    return type(table)(table.default_factory, table)


def union_of_dicts(left, right):
    """`|` where one of them, at least, is a defaultdict or of a subclass of OrderedDict."""
    for kind in (collections.defaultdict, collections.OrderedDict):
        own = left if isinstance(left, kind) else right
        if isinstance(own, kind):
            break
    made = type(own)(own.default_factory, left) if kind is collections.defaultdict else type(own)(left)
    made.update(right)
    return made


def _set_has(table, item):
    hash(item)  # a set inside of a set is no key here
    return (set if isinstance(table, set) else frozenset).__contains__(table, item)


def set_isdisjoint(table, other, /):
    for item in other:
        if _set_has(table, item):
            return False
    return True


def set_issuperset(table, other, /):
    for item in other:
        if not _set_has(table, item):
            return False
    return True


def ordered_update(table, other=(), /, **more):
    if hasattr(other, "keys"):
        for key in other.keys():
            table[key] = other[key]
    else:
        for key, value in other:
            table[key] = value
    for key, value in more.items():
        table[key] = value


def ordered_copy(table):
    if type(table) is collections.OrderedDict:
        return collections.OrderedDict(table)
    made = type(table)()
    for key in table:
        made[key] = table[key]
    return made


def _iterator(iterable):
    try:
        return iter(iterable)
    except TypeError:
        raise TypeError(f"argument of type '{type(iterable).__name__}' is not iterable") from None


def count_of(iterable, wanted, /):
    count = 0
    for item in _iterator(iterable):
        if item is wanted or item == wanted:
            count += 1
    return count


def index_of(iterable, wanted, /):
    index = 0
    for item in _iterator(iterable):
        if item is wanted or item == wanted:
            return index
        index += 1
    raise ValueError("sequence.index(x): x not in sequence")


def delitem(container, key, /):
    del container[key]


def concat(left, right, /):
    if not hasattr(left, "__getitem__"):
        raise TypeError(f"'{type(left).__name__}' object can't be concatenated")
    return left + right


def iconcat(left, right, /):
    if not hasattr(left, "__getitem__"):
        raise TypeError(f"'{type(left).__name__}' object can't be concatenated")
    left += right
    return left


def call(function, /, *args, **kwargs):
    return function(*args, **kwargs)


def sum_over(generator, total):
    if isinstance(total, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    if isinstance(total, bytes):
        raise TypeError("sum() can't sum bytes [use b''.join(seq) instead]")
    if isinstance(total, bytearray):
        raise TypeError("sum() can't sum bytearray [use b''.join(seq) instead]")
    for item in generator:
        total = total + item
    return total


def matches(pattern, string):  # run as it is
    return list(pattern.finditer(string))


def pattern_sub(pattern, repl, string, count=0):
    """re.Pattern.sub: a function that makes the replacements is called by the program's own code."""
    if not callable(repl):
        return pattern.subn(repl, string, count)[0]
    pieces = []
    end = number = 0
    for match in matches(pattern, string):
        start, behind = match.span()
        pieces.append(string[end:start])
        made = repl(match)
        if made is not None:
            pieces.append(made)
        end = behind
        number += 1
        if number == count:
            break
    pieces.append(string[end:])
    return string[:0].join(pieces)


def pattern_finditer(pattern, string):
    """re.Pattern.finditer, found at once: a match says nothing about when it was looked for."""
    return iter(matches(pattern, string))


def finditer(pattern, string, flags=0):
    return iter(matches(re.compile(pattern, flags), string))


class _ComparedKey:
    """What functools.cmp_to_key wraps an object in."""

    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare, obj):
        self.compare = compare
        self.obj = obj

    def __lt__(self, other):
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other):
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other):
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other):
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other):
        return self.compare(self.obj, other.obj) >= 0


def cmp_to_key(mycmp):
    def wrap(obj):
        return _ComparedKey(mycmp, obj)

    return wrap


def count_elements(mapping, iterable):
    get = mapping.get
    for element in iterable:
        mapping[element] = get(element, 0) + 1


def forwarding(function):
    """A function that calls another one, and is captured with it."""

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call
