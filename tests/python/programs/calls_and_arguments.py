"""Every way to pass arguments, and the errors of wrong ones."""

import functools

import torch

from tests.python.programs import Case, mat, program, vec


@program(full=3)
def positional_keyword_default():
    def g(a, b=2, *, c=3):
        return a * b + c

    def f(x):
        return g(x), g(x, 4), g(x, c=5), g(a=x, b=6), g(b=1, c=1, a=x)

    return Case(f, vec())


@program(full=2)
def star_args():
    def g(a, *rest):
        return a + len(rest), rest

    def f(x, items):
        return g(x), g(*items), g(x, *items, 7), g(*[x], *items)

    return Case(f, vec(), [vec(), 2, 3])


@program(full=2)
def star_kwargs():
    def g(a, **rest):
        return a + len(rest), rest

    def f(x, extra):
        return g(x), g(x, p=1, q=x), g(x, **extra), g(**{"a": x}, **extra, z=1)

    return Case(f, vec(), {"k": 1, "m": 2})


@program(full=1)
def everything_at_once():
    def g(a, b=1, /, c=2, *args, d, e=5, **kwargs):
        return a + b + c + sum(args) + d + e + sum(kwargs.values())

    def f(x):
        return g(x, 10, 20, 30, 40, d=50, z=60), g(x, d=1)

    return Case(f, vec())


@program(full=1)
def fn_itself_has_all_kinds():
    def f(a, /, b, *args, c=3, d, **kwargs):
        return a * b + c * d + sum(args) + kwargs.get("e", 0)

    return Case(f, vec(), 2, 3, 4, d=vec(), e=5).changing(vec(), 2, d=1)


@program(full=1)
def fn_default_is_used():
    def f(x, scale=2, *, offset=1):
        return x * scale + offset

    return Case(f, vec()).changing(vec(), 5, offset=7)


@program()
def mutable_default_collects():
    def f(x, seen=[]):  # noqa: B006
        seen.append(x.shape[0])
        return x + len(seen)

    return Case(f, vec())


@program()
def mutable_default_of_a_callee():
    def note(value, seen={}):  # noqa: B006
        seen[len(seen)] = value
        return len(seen)

    def f(x):
        return x + note(1) + note(2)

    return Case(f, vec()).watching(note)


@program()
def tensor_default():
    offset = vec(4, 3.0)

    def f(x, y=offset):
        return x + y

    return Case(f, vec())


def _wrong_call(call):
    def f(x):
        y = x + 1
        return call(y)

    return Case(f, vec())


@program()
def missing_argument():
    def g(a, b, c):
        return a

    return _wrong_call(lambda y: g(y))


@program()
def missing_keyword_only():
    def g(a, *, b, c):
        return a

    return _wrong_call(lambda y: g(y, c=1))


@program()
def too_many_arguments():
    def g(a, b=1):
        return a

    return _wrong_call(lambda y: g(y, 1, 2, 3))


@program()
def unexpected_keyword():
    def g(a):
        return a

    return _wrong_call(lambda y: g(y, b=2))


@program()
def multiple_values():
    def g(a, b):
        return a

    return _wrong_call(lambda y: g(y, 2, a=3))


@program()
def positional_only_by_name():
    def g(a, /, b):
        return a

    return _wrong_call(lambda y: g(a=y, b=2))


@program()
def keyword_given_twice():
    def g(**kwargs):
        return kwargs

    return _wrong_call(lambda y: g(**{"k": y}, **{"k": 1}))


@program()
def star_of_something_not_iterable():
    def g(*args):
        return args

    return _wrong_call(lambda y: g(*3))


@program()
def double_star_of_no_mapping():
    def g(**kwargs):
        return kwargs

    return _wrong_call(lambda y: g(**[1]))


@program()
def double_star_keys_are_no_strings():
    def g(**kwargs):
        return kwargs

    return _wrong_call(lambda y: g(**{1: y}))


@program()
def wrong_call_of_a_method():
    class A:
        def m(self, a):
            return a

    thing = A()
    return _wrong_call(lambda y: thing.m())


@program()
def wrong_call_of_a_class():
    class A:
        def __init__(self, a):
            self.a = a

    return _wrong_call(lambda y: A(y, 2))


@program()
def wrong_call_of_a_plain_class():
    class A:
        pass

    return _wrong_call(lambda y: A(y))


@program(full=1)
def wrong_calls_are_caught():
    def g(a, b, *, c):
        return a

    def f(x):
        messages = []
        for call in (lambda: g(), lambda: g(1), lambda: g(1, 2), lambda: g(1, 2, 3, c=4), lambda: g(1, 2, c=3, d=4)):
            try:
                call()
            except TypeError as error:
                messages.append(str(error))
        return x + 1, messages

    return Case(f, vec())


@program()
def wrong_call_of_the_compiled_function():
    def f(x, y, *, z=1):
        return x + y + z

    return Case(f, vec()).then_call(vec(), 1, 2).then_call(vec(), 1, w=3).then_call(vec(), 1)


@program(full=3)
def bound_and_unbound_methods():
    class A:
        n = 2

        def m(self, x, k=1):
            return x * self.n + k

    def f(x, a):
        bound = a.m
        return bound(x), A.m(a, x, 5), a.m(k=3, x=x), bound.__func__(a, x), bound.__self__ is a

    return Case(f, vec(), A())


@program(full=3)
def static_and_class_methods():
    class A:
        n = 2

        @staticmethod
        def s(x):
            return x + 1

        @classmethod
        def c(cls, x):
            return x * cls.n

    class B(A):
        n = 5

    def f(x):
        b = B()
        return A.s(x), A.c(x), b.s(x), b.c(x), B.c(x)

    return Case(f, vec())


@program(full=3)
def partial_objects():
    def g(a, b, c=1, **rest):
        return a * b + c + len(rest)

    fixed = functools.partial(g, b=3)

    def f(x):
        local = functools.partial(g, x, c=4)
        nested = functools.partial(local, 5, d=1)
        return fixed(x), local(2), nested(), fixed(x, c=9)

    return Case(f, vec())


@program(full=1)
def partial_escapes():
    def g(a, b):
        return a + b

    def f(x):
        return functools.partial(g, x + 1, b=2)

    return Case(f, vec())


@program(full=2)
def wraps_decorator():
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return wrapper

    @twice
    def g(x, *, k=1):
        "doc"
        return x + k

    def f(x):
        return g(x, k=3), g.__name__, g.__doc__, g.__wrapped__(x)

    return Case(f, vec())


@program(full=2)
def callable_object():
    class Scale:
        def __init__(self, n):
            self.n = n
            self.calls = 0

        def __call__(self, x, *, k=0):
            self.calls += 1
            return x * self.n + k

    def f(x, scale):
        return scale(x), scale(x, k=2), callable(scale), Scale(3)(x)

    return Case(f, vec(), Scale(2))


@program(full=2)
def functions_in_containers():
    def f(x, table):
        out = x
        for name in ("neg", "twice"):
            out = table[name](out)
        return [fn(out) for fn in table.values()]

    return Case(f, vec(), {"neg": lambda v: -v, "twice": lambda v: v * 2})


@program(full=2)
def functions_as_arguments():
    def apply(fn, *args, times=1, **kwargs):
        result = fn(*args, **kwargs)
        for _ in range(times - 1):
            result = fn(result, **kwargs)
        return result

    def f(x):
        return apply(torch.relu, x), apply(torch.add, x, other=1, times=2)

    return Case(f, vec())


@program(full=4)
def builtin_torch_calls_by_keyword():
    def f(x):
        a = torch.sum(input=x, dim=0, keepdim=True)
        b = torch.add(x, other=x, alpha=2)
        c = x.sum(dim=0, dtype=torch.float64)
        d = torch.clamp(x, min=-0.5, max=None)
        return a, b, c, d

    return Case(f, mat())


@program(full=1)
def evaluation_order():
    log = []

    def note(value):
        log.append(value if not isinstance(value, torch.Tensor) else "tensor")
        return value

    def g(*args, **kwargs):
        return len(args) + len(kwargs)

    def f(x):
        n = note(g)(note(1), *note([2, 3]), k=note(4), **note({"z": 5}))
        return note(x) + note(n)

    return Case(f, vec()).watching(log)


@program(full=1)
def locals_and_vars():
    def f(x, n):
        y = x + n
        names = sorted(locals())
        return y, names

    return Case(f, vec(), 2)


@program(full=2)
def recursion_with_keywords():
    def walk(x, *, depth, **options):
        if depth == 0:
            return x + options["last"]
        return walk(x * 2, depth=depth - 1, **options)

    def f(x):
        return walk(x, depth=3, last=1)

    return Case(f, vec())


@program(full=1)
def call_through_type():
    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.tag = cls.__name__
            return made

    class A(metaclass=Meta):
        def __init__(self, x):
            self.x = x

    def f(x):
        a = A(x + 1)
        return a.x, a.tag

    return Case(f, vec())


@program(full=2)
def argument_is_rebound():
    def g(x, items):
        x = x + 1
        items = items + [1]
        return x, items

    def f(x, items):
        y, longer = g(x, items)
        return x * 2, y, items is longer, longer

    return Case(f, vec(), [0])


@program(full=2)
def kwargs_dict_is_a_copy():
    def g(**kwargs):
        kwargs["added"] = 1
        return kwargs

    def f(x, options):
        out = g(**options)
        return x + len(options), x * len(out), out is options

    return Case(f, vec(), {"a": 1})


@program(full=1)
def args_tuple_identity():
    def g(*args):
        return args

    def f(x, items):
        return g(*items) is items, g(*items) == items, x + 1

    return Case(f, vec(), (1, 2))


@program(full=1)
def many_arguments():
    def g(*args, **kwargs):
        return sum(args) + sum(kwargs.values())

    def f(x):
        return x + g(*range(300), **{f"k{i}": i for i in range(40)})

    return Case(f, vec())


@program(full=2)
def static_and_class_method_as_call():
    class Static:
        @staticmethod
        def __call__(x, k=2):
            return x * k

    class OfClass:
        k = 3

        @classmethod
        def __call__(cls, x):
            return x * cls.k

    def f(x, one, other):
        return one(x), one(x, k=4), other(x) + 1

    return Case(f, vec(), Static(), OfClass())
