"""Whatever a class may have under a special name (a number, a built-in function, a property, a static method), and methods that give the wrong type."""

import types

from tests.python.programs import Case, program, vec


def _error(call, *args):
    try:
        result = call(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return result if type(result) in (int, bool, str, float, list, tuple, set, dict) else type(result).__name__


ENTRIES = {
    "a number": 3,
    "len": len,
    "static": staticmethod(lambda *a: 2),
    "class": classmethod(lambda *a: 2),
    "property": property(lambda self: lambda *a: 2),
    "one": lambda *a: 1,
    "nothing": lambda *a: None,
    "not implemented": lambda *a: NotImplemented,
    "text": lambda *a: "q",
    "none": None,
}
OPERATIONS = {
    "__add__": lambda o: o + 1,
    "__radd__": lambda o: 1 + o,
    "__sub__": lambda o: o - 1,
    "__mul__": lambda o: o * 2,
    "__rmul__": lambda o: "ab" * o,
    "__eq__": lambda o: o == 1,
    "__lt__": lambda o: o < 1,
    "__len__": len,
    "__bool__": bool,
    "__contains__": lambda o: 1 in o,
    "__neg__": lambda o: -o,
    "__index__": lambda o: [5, 6, 7, 8][o],
    "__int__": int,
    "__repr__": repr,
    "__str__": str,
    "__format__": lambda o: f"{o}",
    "__call__": lambda o: o(),
    "__iter__": list,
}


def _in_place(o):
    o += 1
    return o


def _classes(base):
    return [
        (name, operation, type("K", (base,), {name: entry}))
        for name, operation in (*OPERATIONS.items(), ("__iadd__", _in_place))
        for entry in ENTRIES.values()
    ]


def _grid(base):
    classes = _classes(base)

    def f(x):
        y = x + 1
        return y, [(name, _error(operation, made())) for name, operation, made in classes]

    return Case(f, vec())


@program(min_ops=1)
def entries_of_object():
    return _grid(object)


@program(min_ops=1)
def entries_of_int():
    return _grid(int)


@program(min_ops=1)
def entries_of_str():
    return _grid(str)


@program(min_ops=1)
def entries_of_list():
    return _grid(list)


@program(min_ops=1)
def entries_of_dict():
    return _grid(dict)


@program(min_ops=1)
def entries_of_tuple():
    return _grid(tuple)


@program(min_ops=1)
def entries_of_float():
    return _grid(float)


class NoText:
    def __repr__(self):
        return 5


class LenText(list):
    __repr__ = len


class NoneText:
    __str__ = None


@program(min_ops=1)
def texts_that_are_none():
    def f(x):
        y = x + 1
        out = []
        for made in (NoText, LenText, NoneText):
            for show in (str, lambda o: f"{o}", lambda o: "%s" % (o,), "{}".format, format):
                out.append(_error(show, made()))
            if made is not NoneText:
                out += [
                    _error(repr, made()),
                    _error(lambda o: f"{o!r}", made()),
                    _error(ascii, made()),
                    _error(lambda o: "%r" % (o,), made()),
                ]
        return y, [text if "0x" not in str(text) else 0 for text in out]

    return Case(f, vec())


class DictNone(dict):
    def __iter__(self):
        return None


class DictDenied(dict):
    __iter__ = None


class ListNone(list):
    def __iter__(self):
        return None


class TupleThree(tuple):
    def __iter__(self):
        return 3


class SetNone(set):
    def __iter__(self):
        return None


@program(min_ops=1)
def iterators_that_are_none():
    uses = (
        list,
        tuple,
        set,
        sorted,
        dict,
        iter,
        enumerate,
        zip,
        any,
        dict.fromkeys,
        lambda v: [*v],
        lambda v: {**v},
        lambda v: dict(**v),
        lambda v: {1} | v,
        lambda v: v | v,
        lambda v: map(str, v),
        lambda v: [].extend(v),
        lambda v: {}.update(v),
        lambda v: (lambda *a: a)(*v),
        lambda v: [i for i in v],
        lambda v: v == v,
        len,
    )

    def f(x):
        y = x + 1
        out = []
        for made, items in (
            (DictDenied, {1: 2}),
            (DictNone, {1: 2}),
            (ListNone, [1]),
            (TupleThree, (1,)),
            (SetNone, {1}),
        ):
            out += [_error(use, made(items)) for use in uses]
        return y, out

    return Case(f, vec())


class Mapping:
    def keys(self):
        return ["k"]

    def __getitem__(self, key):
        if key != "k":
            raise IndexError(key)
        return 5


class BadMapping(Mapping):
    def keys(self):
        return 3


def _takes(*args, **kwargs):
    return args, kwargs


class Callable:
    def __call__(self, *args, **kwargs):
        return args, kwargs

    def method(self, *args, **kwargs):
        return args, kwargs


@program(min_ops=1)
def stars_of_anything():
    def f(x):
        y = x + 1
        out = []
        for value in ([], 3, None, "ab", Mapping(), BadMapping(), {"a": 1}):
            for function in (_takes, Callable().method, dict):
                out += [
                    _error(lambda: function(*value)),
                    _error(lambda: function(**value)),
                    _error(lambda: function(a=1, **value)),
                ]
            out += [
                _error(lambda: {**value}),
                _error(lambda: {1: 2, **value}),
                _error(lambda: {} | value),
                _error(lambda: dict(value)),
            ]
        return y, out

    return Case(f, vec())


@program(min_ops=1)
def vars_of_anything():
    def f(x):
        y = x + 1
        out = [
            _error(lambda: len(vars(value)))
            for value in (x.shape, 3, [], Mapping(), object(), types.SimpleNamespace(a=1))
        ]
        return y, out, sorted(vars(Mapping)), isinstance(vars(type(x.shape)), types.MappingProxyType)

    return Case(f, vec())


@program(min_ops=1)
def super_says_its_class():
    class Base:
        pass

    class Derived(Base):
        def classes(self):
            return super().__class__, super().__thisclass__, super().__self_class__

    def f(x):
        y = x + 1
        return y, Derived().classes()

    return Case(f, vec())
