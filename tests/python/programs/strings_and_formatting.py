"""Strings: methods, f-strings, %-formatting, str.format; of plain values, of shapes and of tensors."""

import types

import torch

from tests.python.programs import Case, mat, program, vec


@program(full=1)
def string_methods():
    def f(x, s):
        return (
            s.upper(), s.lower(), s.title(), s.strip(), s.split(), s.replace("o", "0"), s.find("l"), s.count("l"), s.startswith(" H"),
            s.endswith(("x", "d ")), s.center(20, "*"), s.ljust(15), s.zfill(15), s.partition("l"), s.rpartition("l"), s.isalpha(),
            s.swapcase(), s.encode(), s.index("e"), s.rfind("o"), s.splitlines(), s.expandtabs(), s.casefold(), "-".join(s.split()),
            s.removeprefix(" "), s.translate({108: "L"}), s.rsplit(None, 1), x + len(s),
        )  # fmt: skip

    return Case(f, vec(), " Hello World ").changing(vec(), "other text")


@program(full=1)
def string_operators():
    def f(x, s):
        return (
            s + "!",
            s * 2,
            s[1:3],
            s[::-1],
            "e" in s,
            s < "zzz",
            s == "hey",
            [c for c in s],
            x + ord(s[0]),
            s[-1],
            max(s),
        )

    return Case(f, vec(), "hey")


@program(full=1)
def f_strings():
    def f(x, n, v):
        return f"{n} {n:>5} {n:05d} {v:.2f} {v:e} {n!r} {'a'!r:>6} {n=} {v:{n}.{n}f} {{}} {[n]} {x.shape[0]}", x + n

    return Case(f, vec(), 3, 2.5).changing(vec(), 4, 0.125)


@program(full=1)
def percent_formatting():
    def f(x, n):
        return "%d %5.2f %s %r %x %%" % (n, n / 3, "s", [1], 255), "%(a)s-%(b)d" % {"a": 1, "b": 2}, x + n

    return Case(f, vec(), 3)


@program(full=1)
def str_format():
    def f(x, n):
        return "{} {0}".replace("{0}", "z").format(n), "{0:>4}{1!r}{k[0]}{m.real}".format(n, "q", k=[7], m=2), x + n

    return Case(f, vec(), 3)


@program(full=1)
def format_builtin():
    def f(x, n):
        return (
            format(n, "b"),
            format(n / 7, ".3g"),
            format("s", "^5"),
            format(10**6, ","),
            repr("q'"),
            ascii("é"),
            x + n,
        )

    return Case(f, vec(), 5)


@program(full=1)
def format_of_shapes():
    def f(x):
        return f"{x.shape} {tuple(x.shape)} {x.dtype} {x.device} {x.dim()}", str(x.size()), repr(x.dtype), x + 1

    return Case(f, mat()).changing(mat(5, 2))


@program()
def format_of_tensor():
    def f(x):
        y = x + 1
        text = f"{y}"
        return text, str(y * 2), repr(y), y.sum()

    return Case(f, vec())


@program()
def format_of_item():
    def f(x):
        return f"{x.sum().item():.3f} {x.max():.2f}", x + 1

    return Case(f, vec())


@program(full=1)
def string_errors():
    def f(x):
        out = []
        for action in (
            lambda: "a" + 1,
            lambda: "abc".index("z"),
            lambda: "%d" % "x",
            lambda: "{}".format(),  # noqa: F524
            lambda: "a" < 1,
            lambda: "x".join([1]),
        ):
            try:
                action()
            except Exception as error:
                out.append((type(error).__name__, str(error)))
        return out, x + 1

    return Case(f, vec())


@program(full=1)
def string_building_in_a_loop():
    def f(x, names):
        text = ""
        for i, name in enumerate(names):
            text += f"{i}:{name};"
        return text, x + len(text)

    return Case(f, vec(), ["a", "bb"]).changing(vec(), ["c"])


@program(full=1)
def string_keys_of_attributes():
    class A:
        pass

    def f(x, a):
        for i in range(2):
            setattr(a, "field_" + str(i), x + i)
        return getattr(a, "field_1") * 2, sorted(vars(a))

    return Case(f, vec(), A())


@program(full=1)
def repr_of_containers():
    def f(x):
        return (
            repr([1, "a", (2,), {"k": None}, {3}]),
            str({1: [2]}),
            str(range(3)),
            str(slice(1, 2)),
            repr(...),
            str(int),
            x + 1,
        )

    return Case(f, vec())


@program(full=1)
def bytes_methods():
    def f(x):
        return (
            b"abc".hex(),
            bytes.fromhex("6162"),
            b"a,b".split(b","),
            "é".encode("utf-8"),
            b"x".decode(),
            int.from_bytes(b"\x01\x02", "big"),
            x + 1,
        )

    return Case(f, vec())


@program(full=1)
def dtype_names():
    def f(x):
        return str(x.dtype).split(".")[-1], f"{torch.float16}", x.to(getattr(torch, "float64")) + 1

    return Case(f, vec())


@program(full=1)
def str_subclass():
    class Name(str):
        def shout(self):
            return self.upper() + "!"

    def f(x, name):
        return name.shout(), name + "x", len(name), x + 1, type(name + "x") is str, Name("local")

    return Case(f, vec(), Name("n"))


@program(full=1)
def int_subclass():
    class Units(int):
        def double(self):
            return Units(self * 2)

    def f(x, n):
        return x + n, n.double(), type(n + 1) is int, Units(7)

    return Case(f, vec(), Units(3))


class Written:
    value = 0


class Told(type):
    def __repr__(cls):
        return f"Told {cls.value}"


class OfTold(metaclass=Told):
    value = 0


NAMESPACE = types.ModuleType("namespace")


@program(min_ops=1)
def text_of_a_class_that_was_written_to():
    def f(x):
        Written.value = 5
        OfTold.value = 6
        NAMESPACE.value = 7
        texts = "{0.value}".format(Written), f"{OfTold}", "%s" % OfTold, "%r" % [OfTold], "{0.value}".format(NAMESPACE)
        return texts, x * 2

    Written.value = OfTold.value = NAMESPACE.value = 0
    return Case(f, vec())
