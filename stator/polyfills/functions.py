"""functools and helpers of collections that are written in C and call back into Python."""

import collections
import functools
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


def bisect_left(a, x, lo=0, hi=None, *, key=None):
    if lo < 0:
        raise ValueError("lo must be non-negative")
    hi = len(a) if hi is None else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


def bisect_right(a, x, lo=0, hi=None, *, key=None):
    if lo < 0:
        raise ValueError("lo must be non-negative")
    hi = len(a) if hi is None else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


def defaultdict_copy(table):
    return type(table)(table.default_factory, table)


def asked_copy(table):
    """A copy of a dict whose class says itself what it is iterated over: C asks its `keys`, unless it is empty."""
    return dict(table) if dict.__len__(table) else {}


def union_of_dicts(left, right):
    """`|` where one of them, at least, is a defaultdict, of a subclass of OrderedDict, or iterated as its class
    says."""
    if not isinstance(left, (collections.defaultdict, collections.OrderedDict)) and not isinstance(
        right, (collections.defaultdict, collections.OrderedDict)
    ):
        made = asked_copy(left)
        made.update(right)
        return made
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
    for key in collections.OrderedDict.__iter__(table):
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


def _check_concatenable(left, right):
    """Types of C have a slot for it; of others both have to look like sequences, which a dict does not."""
    if isinstance(left, (list, tuple, str, bytes, bytearray, collections.deque)):
        return
    for operand in (left, right):
        if not hasattr(type(operand), "__getitem__") or isinstance(operand, dict):
            raise TypeError(f"'{type(left).__name__}' object can't be concatenated")


def concat(left, right, /):
    _check_concatenable(left, right)
    return left + right


def iconcat(left, right, /):
    _check_concatenable(left, right)
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
    ints, floats = type(total) is int, type(total) is float
    lost = 0.0  # by rounding, of floats that C adds
    for item in generator:
        kind = type(item)
        if SUMS_COMPENSATE and floats and kind is float:
            whole = total + item
            lost += (total - whole) + item if abs(total) >= abs(item) else (item - whole) + total
            total = whole
        elif (ints and (kind is int or kind is bool)) or (floats and kind is int):
            total = total + item
        else:
            total = with_rest(total, lost) + item
            ints, floats, lost = False, ints and type(total) is float, 0.0
    return with_rest(total, lost)


# sum() adds what the additions of floats have lost at the end, since CPython 3.12.
SUMS_COMPENSATE = sum([0.1] * 10) == 1.0


def with_rest(total, lost):
    return total + lost if lost and lost - lost == 0 else total


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


_NATIVE_KEY = type(functools.cmp_to_key(lambda left, right: 0))


class KeyWrapper:
    """What functools.cmp_to_key gives, and what that wraps an object in."""

    __slots__ = ("compare", "obj")

    def __init__(self, compare):
        self.compare = compare

    def __call__(self, obj):
        made = KeyWrapper(self.compare)
        made.obj = obj
        return made

    def __hash__(self):
        raise TypeError("unhashable type: 'functools.KeyWrapper'")

    def _order(self, other):
        if type(other) is not KeyWrapper and type(other) is not _NATIVE_KEY:
            raise TypeError("other argument must be K instance")
        return self.compare(self.obj, other.obj)

    def __lt__(self, other):
        return self._order(other) < 0

    def __gt__(self, other):
        return self._order(other) > 0

    def __eq__(self, other):
        return self._order(other) == 0

    def __ne__(self, other):
        return self._order(other) != 0

    def __le__(self, other):
        return self._order(other) <= 0

    def __ge__(self, other):
        return self._order(other) >= 0


def cmp_to_key(mycmp):
    return KeyWrapper(mycmp)


def count_elements(mapping, iterable):
    get = mapping.get
    for element in iterable:
        mapping[element] = get(element, 0) + 1


def forwarding(function):
    """A function that calls another one, and is captured with it."""

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call
