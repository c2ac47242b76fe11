"""Classes, modules, views and patterns in states that are rare: being made, not initialised, answering by methods of their own."""

import copy
import inspect
import types

import torch

from tests.python.programs import Case, program, vec


def error_of(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error), type(error.__context__).__name__


@program()
def mro_that_calls_the_class():
    def f(x):
        out = None

        class Meta(type):
            def mro(self):
                self.__dict__["f"]()
                return super().mro()

        class A(metaclass=Meta):
            def f():
                nonlocal out
                out = __class__

        return out is A, x + 1

    return Case(f, vec())


class Curious(type):
    seen = []

    def mro(cls):
        order = super().mro()
        Curious.seen.append((cls.__mro__, cls.__name__, [base.__name__ for base in order]))
        return order


@program()
def mro_that_asks_for_the_mro():
    Curious.seen.clear()

    def f(x):
        class A(metaclass=Curious):
            n = 2

        class B(A):
            pass

        return x * B.n, [repr(entry) for entry in Curious.seen]

    return Case(f, vec())


class Everything(dict):
    def __contains__(self, key):
        return True

    def __getitem__(self, key):
        return key * 2

    def __len__(self):
        return 77

    def __iter__(self):
        return iter(["other"])

    def get(self, key, default=None):
        return "got"

    def keys(self):
        return ["own"]


@program()
def view_of_a_dict_with_methods():
    def f(x):
        view = types.MappingProxyType(Everything(a=1))
        return x + 1, "key" in view, view["key"], len(view), list(view), view.get("q"), view.keys()

    return Case(f, vec())


@program()
def view_of_a_dict_with_methods_from_outside():
    view = types.MappingProxyType(Everything(a=1))

    def f(x, view):
        return x + 1, "key" in view, view["key"], len(view), list(view), view.get("q"), dict(view)

    return Case(f, vec(), view)


class Missing(dict):
    def __missing__(self, key):
        return key + "!"


@program()
def view_of_a_dict_with_missing():
    def f(x, view):
        return x + 1, view["a"], view["b"], "b" in view

    return Case(f, vec(), types.MappingProxyType(Missing(a="1")))


@program()
def view_of_a_mapping_that_is_no_dict():
    class Squares:
        def __getitem__(self, key):
            return key * key

        def __contains__(self, key):
            return key == 3

        def __len__(self):
            return 5

        def keys(self):
            return [1, 2]

    def f(x):
        view = types.MappingProxyType(Squares())
        return x + view[3], 3 in view, 4 in view, len(view), list(view.keys())

    return Case(f, vec())


@program()
def module_without_a_dict():
    def f(x):
        module = types.ModuleType.__new__(types.ModuleType)
        asked = [error_of(getattr, module, name) for name in ("__name__", "other", "__dict__", "__doc__")]
        return x + 1, asked, hasattr(module, "q"), getattr(module, "q", 3), error_of(dir, module)

    return Case(f, vec())


@program()
def module_without_a_dict_is_written():
    def f(x):
        module = types.ModuleType.__new__(types.ModuleType)
        module.scale = 3
        y = x * module.scale
        del module.scale
        return y, error_of(getattr, module, "scale"), error_of(delattr, module, "scale")

    return Case(f, vec())


@program()
def module_whose_name_is_no_text():
    def f(x):
        module = types.ModuleType("m")
        module.__name__ = 3
        first = error_of(getattr, module, "q")
        del module.__name__
        return x + 1, first, error_of(getattr, module, "q")

    return Case(f, vec())


class Doubled:
    __match_args__ = ("a", "a")
    a = None


class NoNames:
    __match_args__ = (None,)


class ListOfNames:
    __match_args__ = ["a"]


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Shy:
    __match_args__ = ("a",)

    @property
    def a(self):
        raise AttributeError("not now")


def match_two(value):
    match value:
        case Doubled(y, z):
            return 0


def match_keyword_again(value):
    match value:
        case Point(u, x=v):
            return u, v


def match_none(value):
    match value:
        case NoNames(y):
            return 0


def match_list(value):
    match value:
        case ListOfNames(y):
            return 0


def match_too_many(value):
    match value:
        case Point(a, b, c):
            return 0
        case int(a, b):
            return 1
        case Exception(a):
            return 2


def match_shy(value):
    match value:
        case Shy(a):
            return "there"
        case Shy():
            return "shy"


def match_no_class(value):
    kind = 3
    match value:
        case kind(a):
            return 0


def match_point(value):
    match value:
        case Point(a, y=b):
            return a + b


@program()
def class_patterns_that_do_not_fit():
    def f(x):
        return (
            x + 1,
            error_of(match_two, Doubled()),
            error_of(match_keyword_again, Point(1, 2)),
            error_of(match_none, NoNames()),
            error_of(match_list, ListOfNames()),
            error_of(match_too_many, Point(1, 2)),
            error_of(match_too_many, 3),
            error_of(match_too_many, ValueError("q")),
            error_of(match_shy, Shy()),
            error_of(match_no_class, 3),
            error_of(match_point, Point(x, 2)),
        )

    return Case(f, vec())


@program()
def class_pattern_error_leaves_the_function():
    def f(x, value):
        y = x + 1
        match value:
            case Doubled(a, b):
                return y

    return Case(f, vec(), Doubled())


class Keys:
    KEY = "a"
    OTHER = "q"
    ONE = 1
    TRUE = True
    LIST = [1]


def match_keys(value):
    match value:
        case {Keys.OTHER: y, "q": z}:
            return 0
        case {Keys.KEY: y, "a": z}:
            return 1


def match_number_keys(value):
    match value:
        case {Keys.ONE: y, Keys.TRUE: z}:
            return 1


def match_list_key(value):
    match value:
        case {Keys.LIST: y}:
            return 1


def match_rest(value):
    match value:
        case {Keys.KEY: y, "b": z, **rest}:
            return y, z, rest


@program()
def mapping_patterns_with_a_key_twice():
    def f(x, d):
        return (
            x + 1,
            error_of(match_keys, d),
            error_of(match_number_keys, {1: 2}),
            error_of(match_list_key, {1: 2}),
            error_of(match_rest, d),
        )

    return Case(f, vec(), {"a": 0, "b": 1, "c": 2})


def plain(x):
    return x


class WithMethod:
    def a(self, x):
        return x * 2


@program()
def call_of_call():
    def f(x):
        @[plain][0].__call__.__call__
        def g(x):
            return x + 1

        thing = WithMethod()
        items = []
        items.append.__call__.__call__(3)
        return g(x), thing.a.__call__(x), thing.a.__call__.__call__(x), plain.__call__.__call__.__call__(x), items

    return Case(f, vec())


@program()
def class_of_bound_methods():
    def f(x):
        thing = WithMethod()
        classes = [thing.a.__class__, [].append.__class__, plain.__call__.__class__, thing.a.__call__.__class__]
        return x + 1, [kind.__name__ for kind in classes], thing.a.__eq__(thing.a), thing.a.__func__ is WithMethod.a

    return Case(f, vec())


@program()
def signature_that_was_set():
    def f(x):
        def test():
            pass

        test.__signature__ = inspect.Signature(
            parameters=(inspect.Parameter("spam", inspect.Parameter.POSITIONAL_ONLY),)
        )
        return x + 1, str(inspect.signature(test))

    return Case(f, vec())


@program()
def signature_of_a_function_that_wraps():
    def f(x):
        def inner(a, b=2):
            pass

        def outer(*args):
            pass

        outer.__wrapped__ = inner
        return x + 1, str(inspect.signature(outer)), str(inspect.signature(inner))

    return Case(f, vec())


class Answering(type):
    def __getattr__(cls, name):
        if name == "eggs":
            return "scrambled"
        raise AttributeError(name)

    @property
    def shy(cls):
        raise AttributeError("not for you")


class Answered(metaclass=Answering):
    @types.DynamicClassAttribute
    def eggs(self):
        return "spam"

    @types.DynamicClassAttribute
    def ham(self):
        return "ham"


@program()
def metaclass_answers_for_a_descriptor():
    def f(x):
        return (
            x + 1,
            Answered.eggs,
            Answered().eggs,
            Answered().ham,
            error_of(getattr, Answered, "ham"),
            error_of(getattr, Answered, "shy"),
            getattr(Answered, "nothing", 3),
        )

    return Case(f, vec())


def generator():
    yield 1


@program()
def copies_of_what_cannot_be_copied():
    def f(x):
        async def func():
            pass

        coroutine = func()
        wrapper = coroutine.__await__()
        first = error_of(copy.copy, wrapper)
        wrapper.close()
        return x + 1, first, error_of(copy.copy, generator()), error_of(copy.copy, iter(generator()))

    return Case(f, vec())


class WithSlots:
    __slots__ = ("a", "b")


@program()
def copies_of_plain_objects():
    def f(x):
        thing = WithSlots()
        thing.a = x + 1
        other = WithMethod()
        other.n = 2
        return copy.copy(thing).a, copy.copy(other).n, type(copy.copy(object())).__name__

    return Case(f, vec())


@program()
def dir_of_a_method():
    def f(x):
        thing = WithMethod()
        WithMethod.a.known_attr = 7
        found = "known_attr" in dir(thing.a)
        del WithMethod.a.known_attr
        return x + 1, found, "known_attr" in dir(thing.a), "__func__" in dir(thing.a), "append" in dir([])

    return Case(f, vec())


@program()
def context_of_an_operators_error():
    def f(x, items):
        try:
            for a, b in items:
                pass
        except Exception as error:
            str(error)
        try:
            x.view(7, 11)
        except RuntimeError as error:
            return type(error.__context__).__name__, x + 1

    return Case(f, vec(), [torch.ones(3)])


@program()
def context_within_the_handler():
    def f(x, items):
        try:
            for a, b in items:
                pass
        except Exception:
            try:
                x.view(7, 11)
            except RuntimeError as error:
                return type(error.__context__).__name__, type(error.__context__.__context__).__name__, x + 1

    return Case(f, vec(), [torch.ones(3)])


@program()
def vmap_gives_keywords_whole():
    def f(x, y):
        both = torch.func.vmap(lambda x, y: x + y)(x, y=y)
        more = torch.func.vmap(lambda x, *, scale, shift: x * scale + shift["by"], in_dims=1)(
            x, scale=2.0, shift={"by": y[:, 0]}
        )
        return both, more

    return Case(f, torch.ones(2, 3), torch.arange(6.0).reshape(2, 3))
