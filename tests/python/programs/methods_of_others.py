"""Methods of built-in types, called by name on objects of any type: CPython asks first whether they fit."""

import collections
import sys
import types

from tests.python.programs import Case, program, vec


def _error(call):
    try:
        result = call()
    except Exception as error:
        return type(error).__name__, str(error)
    return result if type(result) in (int, bool, str, list, tuple, dict) else type(result).__name__


class Plain:
    pass


class List(list):
    pass


class Dict(dict):
    pass


def _objects(x):
    return (
        [],
        3,
        {},
        "a",
        {1},
        (),
        None,
        x,
        Plain(),
        Plain,
        1.5,
        List([1]),
        Dict(a=1),
        range(3),
        collections.deque(),
        b"a",
        collections.OrderedDict(a=1),
    )


def _calls(methods):
    def f(x):
        y = x + 1
        out = []
        for method in methods:
            for value in _objects(x):
                out += [
                    _error(lambda: method(value)),
                    _error(lambda: method(value, 1)),
                    _error(lambda: method(value, 1, 2)),
                ]
            if sys.version_info[:3] != (3, 13, 0):  # which crashes at it by itself
                out.append(_error(lambda: method()))
        return y, out

    return Case(f, vec())


@program(min_ops=1)
def methods_of_dict():
    return _calls(
        (dict.setdefault, dict.pop, dict.get, dict.update, dict.__setitem__, dict.__getitem__, dict.clear, dict.items)
    )


@program(min_ops=1)
def more_methods_of_dict():
    return _calls(
        (
            dict.__contains__,
            dict.keys,
            dict.__len__,
            dict.copy,
            dict.popitem,
            collections.OrderedDict.move_to_end,
        )
    )


@program(min_ops=1)
def methods_of_list():
    return _calls(
        (
            list.append,
            list.pop,
            list.sort,
            list.index,
            list.extend,
            list.insert,
            list.reverse,
            list.__len__,
            list.__iter__,
        )
    )


@program(min_ops=1)
def methods_of_set_and_tuple():
    return _calls(
        (set.add, set.discard, set.union, set.update, set.__contains__, tuple.count, tuple.index, tuple.__getitem__)
    )


@program(min_ops=1)
def methods_of_text_and_numbers():
    return _calls(
        (
            str.split,
            str.__len__,
            int.__add__,
            int.bit_length,
            float.__mul__,
            collections.deque.append,
        )
    )


@program(min_ops=1)
def what_a_proxy_has_not():
    def f(x):
        y = x + 1
        out = []
        for view in (types.MappingProxyType({"z": 5}), vars(Plain)):
            for name in ("setdefault", "update", "pop", "clear", "popitem", "__setitem__", "__delitem__"):
                out += [
                    _error(lambda: getattr(view, name)),
                    _error(lambda: getattr(view, name)(3, 4)),
                    hasattr(view, name),
                ]
            out += [_error(lambda: dict.setdefault(view, 1, 2)), _error(lambda: dict.__setitem__(view, 1, 2))]
            out += [_error(lambda: view.get("q", 3)), _error(lambda: view["q"]), "z" in view, len(dict(view)) > 0]
        return y, out

    return Case(f, vec())


@program(min_ops=1)
def or_into_a_proxy():
    def f(x):
        y = x + 1
        view = types.MappingProxyType({1: 2})

        def change():
            nonlocal view
            view |= {3: 4}

        def item():
            view[1] = 3

        def delete():
            del view[1]

        return y, _error(change), _error(item), _error(delete), dict(view), view | {3: 4}

    return Case(f, vec())


@program(min_ops=1)
def what_methods_in_c_are():
    """Bound, they are no methods of Python's: their type, what they have and what they say that they have not."""
    import types

    names = ("__name__", "__self__", "__func__", "__doc__", "__call__", "__class__", "__code__", "foo")
    kinds = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)

    class Own:
        def method(self):
            pass

    def has(bound):
        out = [type(bound).__name__, *(isinstance(bound, kind) for kind in kinds)]
        for name in names:
            try:
                out.append(type(getattr(bound, name)).__name__)
            except AttributeError as error:
                out.append(str(error))
        return out

    def f(x):
        items = [1]
        made = types.MethodType(list.append, items)
        made(2)
        y = x + 1
        out = [has(items.append), has(x.add), has("a".join), has(items.__len__), has(Own().method), has(made)]
        return y, out, items, items.append.__self__ is items

    return Case(f, vec())
