"""What all modules of CPython's tests found, in small: each once gave another result than eager."""

import builtins
import codecs
import collections
import contextlib
import copy
import datetime
import decimal
import enum
import fractions
import functools
import importlib
import importlib.util
import inspect
import io
import operator
import os
import random
import re
import sys
import tempfile
import typing
import weakref
import zlib

import torch

from tests.python.programs import Case, program, vec


class _Numbers(enum.IntEnum):
    ONE = 1
    TWO = 2


class _Int(int):
    pass


@program(full=1)
def literals_of_typing_ask_for_types():
    def f(x, member, number):
        flat = typing.Literal[typing.Literal[_Numbers.ONE], typing.Literal[1]]
        return x + 1, flat.__args__, typing.Literal[member].__args__, typing.Union[typing.Literal[member], int]

    return Case(f, vec(), _Numbers.TWO, 1)


@program()
def literal_of_a_kind_of_int():
    def f(x, number):
        return x + 1, [type(part) for part in typing.Literal[number, 1].__args__]

    return Case(f, vec(), _Int(1))


@program()
def match_in_what_may_change():
    def f(x):
        text = bytearray(b"abcdefgh")
        whole, part = re.search(b"[a-h]+", text), re.search(b"[e-h]+", text)
        before = whole.group(), part.group()
        text[:] = b"xyz"
        return x + 1, before, whole.group(), part.group()

    return Case(f, vec())


@program()
def iterator_over_matches_holds_the_buffer():
    def f(x):
        text = bytearray(b"x")
        found = re.finditer(b"a", text)
        try:
            text.extend(b"x" * 400)
        except BufferError as error:
            return x + 1, str(error), list(found)
        return x + 1, len(text)

    return Case(f, vec())


@program()
def regular_expression_that_is_shown():
    def f(x):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            re.compile("a|b", re.DEBUG)
        return x + 1, out.getvalue()

    return Case(f, vec())


class _Row(collections.deque):
    made = 0

    def __init__(self, *args):
        type(self).made += 1
        super().__init__(*args)


@program()
def deques_of_a_subclass_are_made_by_the_class():
    _Row.made = 0

    def f(x, row):
        kinds = [type(other) for other in (row.copy(), row * 2, 2 * row, row + row, copy.copy(row))]
        row.append(3)
        return x + 1, kinds, _Row.made, list(row)

    return Case(f, vec(), _Row([1, 2]))


@program()
def deque_whose_class_makes_something_else():
    def f(x):
        class Row(collections.deque):
            pass

        row = Row()
        Row.__new__ = lambda cls, *args, **kwargs: [42]
        seen = []
        for act in (lambda: row * 42, lambda: row + collections.deque([1]), row.copy):
            try:
                seen.append(act())
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    return Case(f, vec())


@program(full=1)
def attributes_of_an_ordered_dict():
    def f(x):
        ordered = collections.OrderedDict(a=1)
        ordered.note = ["note"]
        return x + 1, ordered, ordered.__dict__

    return Case(f, vec())


@program()
def ordered_dict_is_copied_with_its_attributes():
    def f(x):
        ordered = collections.OrderedDict(a=1)
        ordered.note = ["note"]
        other, deep = copy.copy(ordered), copy.deepcopy(ordered)
        return x + 1, other.note is ordered.note, deep.note, deep.note is ordered.note

    return Case(f, vec())


@program()
def ordered_dict_written_past_its_order():
    def f(x):
        seen = []
        for method, args in (
            (dict.clear, ()),
            (dict.popitem, ()),
            (dict.__setitem__, ("c", 3)),
            (dict.update, ({"d": 4},)),
        ):
            ordered = collections.OrderedDict(a=1, b=2)
            method(ordered, *args)
            print(end="")
            seen.append(len(ordered))
            try:
                seen.append(list(ordered.items()))
            except KeyError as error:
                seen.append(str(error))
        return x + 1, seen

    return Case(f, vec())


@program()
def more_than_there_is_memory_for():
    def f(x):
        seen = []
        for act in (lambda: "a" * 2**61, lambda: [1] * 2**60, lambda: (1,) * 2**60, lambda: bytes(2**62)):
            try:
                act()
            except (MemoryError, OverflowError) as error:
                seen.append(type(error))
        return x + 1, seen

    return Case(f, vec())


@program()
def instances_that_nobody_may_make():
    def f(x):
        seen = []
        for value in (sys.flags, sys.version_info):
            for act in (
                lambda value=value: type(value)(value),
                lambda value=value: type(value).__new__(type(value), value),
            ):
                try:
                    seen.append(type(act()))
                except TypeError as error:
                    seen.append(str(error))
        return x + 1, seen

    return Case(f, vec())


@program()
def frame_that_is_looked_at_when_it_has_ended():
    def f(x):
        def inner():
            number = 3
            frame = sys._getframe()
            number = 4
            if number:
                return frame

        frame = inner()
        return x + 1, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_locals["number"]

    return Case(f, vec())


@program()
def frame_of_a_traceback_when_it_has_ended():
    def f(x):
        def inner():
            number = 3
            try:
                1 / 0  # noqa: B018
            except ZeroDivisionError as error:
                kept = error
            number = 4
            return kept

        frame = inner().__traceback__.tb_frame
        return x + 1, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_locals["number"]

    return Case(f, vec())


class _Reflects:
    def __rdivmod__(self, other):
        return "reflected"


class _Refuses:
    def __divmod__(self, other):
        return NotImplemented

    def __pow__(self, other, modulus=None):
        return NotImplemented


class _First(_Refuses):
    def __rdivmod__(self, other):
        return "first"


@program()
def divmod_and_pow_that_are_refused():
    def f(x):
        seen = [divmod(_Refuses(), _Reflects()), divmod(1, _Reflects()), divmod(_Refuses(), _First())]
        for act in (
            lambda: divmod(_Refuses(), 1),
            lambda: divmod(_Refuses(), _Refuses()),
            lambda: pow(_Refuses(), 1),
            lambda: pow(_Refuses(), 1, 2),
        ):
            try:
                seen.append(act())
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    return Case(f, vec())


class _Ratio(float):
    def as_integer_ratio(self):
        return 1, 2


@program()
def times_ask_numbers_by_their_methods():
    def f(x, ratio):
        day = datetime.timedelta(1)
        return x + 1, day * ratio, day / ratio

    return Case(f, vec(), _Ratio(3.0))


@program()
def comparisons_of_decimals_set_flags():
    def f(x):
        with decimal.localcontext() as context:
            context.traps[decimal.FloatOperation] = False
            context.clear_flags()
            compare = decimal.Decimal("0.25").__eq__
            same = compare(0.25)
            first = context.flags[decimal.FloatOperation]
            context.clear_flags()
            listed = [0.25] == [decimal.Decimal("0.25")]
            return x + 1, same, first, listed, context.flags[decimal.FloatOperation]

    return Case(f, vec())


@program()
def decimals_know_rational_numbers():
    def f(x):
        half, two = fractions.Fraction(1, 2), decimal.Decimal(2)
        whole = fractions.Fraction(2)
        return x + 1, whole == two, two == whole, half < two, two >= half, two != whole

    return Case(f, vec())


_NUMBER = decimal.Decimal("1.5")


@program()
def parts_of_a_decimal():
    def f(x):
        return x + 1, _NUMBER.imag, _NUMBER.real, _NUMBER.conjugate()

    return Case(f, vec())


@program()
def random_numbers_by_a_replaced_method():
    def f(x):
        numbers = [0.25, 0.5, 0.75, 0.125]
        generator = random.Random(3)
        generator.random = numbers.pop
        first = generator.uniform(1, 2), generator.uniform(1, 2), numbers
        original = random.Random.random
        random.Random.random = lambda self: 0.5
        try:
            second = random.uniform(1, 2), random.expovariate(1.0)
        finally:
            random.Random.random = original
        return x + 1, first, second

    return Case(f, vec())


@program()
def metaclass_that_gets_a_descriptor():
    def f(x):
        class Meta(type):
            pass

        class Some(metaclass=Meta):
            attribute = True

        def read():
            return Some.attribute

        before = [read(), read()]
        Meta.attribute = property(lambda cls: False)
        between = read()
        del Meta.attribute
        return x + 1, before, between, read()

    return Case(f, vec())


class _Meta(type):
    pass


class _Typed(metaclass=_Meta):
    attribute = True


@program()
def metaclass_that_gets_a_descriptor_between_calls():
    if "attribute" in vars(_Meta):
        del _Meta.attribute

    def f(x):
        return x + 1, _Typed.attribute

    def change(*args):
        _Meta.attribute = property(lambda cls: False)

    return Case(f, vec()).then(change)


@program()
def import_statement_by_another_function():
    def f(x):
        def load():
            import math

            return math

        def own(name, *args):
            return 5 if name == "math" else original(name, *args)

        before = load().pi
        original = builtins.__import__
        builtins.__import__ = own
        try:
            return x + 1, before, load()
        finally:
            builtins.__import__ = original

    return Case(f, vec())


def _mark(error):
    return "<?>" if isinstance(error, UnicodeEncodeError) else "?", error.end


codecs.register_error("tests.mark", _mark)


@program()
def error_handlers_of_ones_own():
    def f(x):
        seen = []

        def handler(error):
            seen.append(error.reason)
            return "!", error.end

        codecs.register_error("tests.other", handler)
        texts = "\xff0".encode("ascii", "tests.other"), b"\xff0".decode("ascii", errors="tests.other")
        return x + 1, texts, str(b"\xff", "ascii", "tests.other"), seen, "\xff".encode("ascii", "tests.mark")

    return Case(f, vec())


@program()
def modules_are_looked_for_where_they_are():
    def f(x, places):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a_module_of_the_test.py"), "w") as file:
                file.write("number = 3")
            sys.path.insert(0, folder)
            try:
                found = importlib.util.find_spec("a_module_of_the_test") is not None
            finally:
                sys.path.remove(folder)
        return x + 1, found, importlib.util.find_spec("a_module_of_the_test")

    return Case(f, vec(), [])


@program()
def fields_of_objects_of_c():
    def f(x):
        reader = zlib.decompressobj()
        before = reader.eof
        text = reader.decompress(zlib.compress(b"text"))
        return x + 1, before, text, reader.eof

    return Case(f, vec())


class _Numbered(int):
    @property
    def real(self):
        return "shadows"


class _Timed(datetime.timedelta):
    @property
    def days(self):
        return -super().days


@program()
def field_of_c_under_a_property():
    def f(x, number, time):
        return x + 1, number.real, time.days

    return Case(f, vec(), _Numbered(3), _Timed(2))


@program()
def code_whose_file_has_no_name_in_text():
    def f(x):
        space = {}
        exec(compile("def inner(x):\n    return x + 1", "/nowhere/\udcff.py", "exec"), space)
        return space["inner"](x) * 2, space["inner"].__code__.co_filename

    return Case(f, vec())


@program()
def names_that_no_encoding_knows():
    def f(x):
        name = "a\udcffb"
        seen = []
        for act in (
            lambda: getattr(x, name),
            lambda: torch.zeros(2, **{name: 1}),
            lambda: (lambda a: a)(**{name: 1}),
            lambda: int(name),
            lambda: __import__(name),
            lambda: importlib.import_module(name),
            lambda: getattr(torch, name),
        ):
            try:
                seen.append(act())
            except Exception as error:
                seen.append((type(error), str(error)))
        return x + 1, seen

    return Case(f, vec())


@program()
def imports_that_are_to_fail():
    def f(x):
        seen = []
        sys.modules["a_module_that_is_none"] = None
        for act in (
            lambda: __import__("a_module_that_is_none"),
            lambda: importlib.import_module("a_module_that_is_none"),
        ):
            try:
                seen.append(act())
            except ImportError as error:
                seen.append(str(error))
        try:
            import a_module_that_is_none  # noqa: F401
        except ImportError as error:
            seen.append(str(error))
        del sys.modules["a_module_that_is_none"]
        return x + 1, seen

    return Case(f, vec())


class _Held:
    def method(self):
        return 4


@program()
def weak_references_of_the_trace():
    def f(x):
        held = _Held()
        print(end="")
        first = weakref.ref(held)
        before = first() is held, first.__callback__
        method = weakref.WeakMethod(held.method, lambda _: None)
        second = weakref.ref(method)
        del method
        gone = second()
        print(end="")
        third = weakref.ref(held)
        del held
        return x + 1, before, gone, third()

    return Case(f, vec())


class _Text(str):
    pass


def _told(acts):
    told = []
    for act in acts:
        try:
            told.append((type(act()), act()))
        except Exception as error:
            told.append((type(error), str(error)))
    return told


@program()
def texts_of_errors_of_builtins():
    def f(x, text):
        key = functools.cmp_to_key(lambda a, b: a - b)
        acts = (
            lambda: operator.concat({}, {}),
            lambda: operator.concat([1], (2,)),
            lambda: operator.iconcat(1, [2]),
            lambda: operator.concat([1], [2]),
            lambda: type(key).__name__,
            lambda: type(key(1)).__name__,
            lambda: key(1) < 2,
            lambda: hash(key(1)),
            lambda: (key(1) < key(2), key(1) != key(1), key(3).obj),
            lambda: sorted([3, 1, 2], key=key),
            lambda: "".join(3),
            lambda: ",".join(None),
            lambda: text % (),
            lambda: text + "x",
        )
        return x + 1, _told(acts)

    return Case(f, vec(), _Text("abc"))


@program()
def signatures_of_what_changes():
    def f(x, given):
        return x + 1, str(inspect.signature(given))

    def one(a):
        pass

    def two(a, b=1, *rest, **named):
        pass

    return Case(f, vec(), functools.partial(one)).then_call(vec(), functools.partial(two, 1)).then_call(vec(), two)
