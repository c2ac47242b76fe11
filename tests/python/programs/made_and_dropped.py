"""Functions, classes, modules and code that a program makes as it runs: as elements of sets, and until they end."""

import gc
import types
import weakref

from tests.python.programs import Case, program, vec


@program()
def functions_made_here_in_sets():
    def f(x, seen):
        key = lambda: 1  # noqa: E731
        one, two, three = {key}, {(key, 1)}, frozenset((key,))
        by_key = {key: 1}
        seen.add(key)
        return x + 1, key in one, (key, 1) in two, key in three, key in by_key, key in seen, one, two, three, key

    def check(x, seen):
        result = f(x, seen)
        one, two, three, key = result[6:]
        held = next(iter(one)) is key, next(iter(two))[0] is key, next(iter(three)) is key
        return *result[:6], held, key in one, (key, 1) in two, key in three, key in seen, len(seen)

    def f_and_check(x):
        return check(x, set())

    return Case(f_and_check, vec())


@program()
def functions_made_of_changing_numbers_in_sets():
    def f(x, seen, number):
        seen.add(lambda number=number: number)
        return x + number

    def repeated(x):
        seen = set()
        for number in range(6):
            x = f(x, seen, number)
        return x, sorted(function() for function in seen), {type(function.__defaults__[0]) for function in seen}

    return Case(repeated, vec())


@program()
def set_comprehension_of_functions():
    def f(x):
        items = {(lambda i=i: i) for i in range(5)}
        late = {(lambda: i) for i in range(5)}
        return x + 1, {item() for item in items}, {item() for item in late}

    return Case(f, vec())


@program()
def functions_of_exec_end_with_their_last_reference():
    log = []

    def f(x):
        names = {}
        exec("def f(): return 42", names)
        function = names.pop("f")
        alive = weakref.ref(function, lambda _: log.append("function"))
        code = weakref.ref(function.__code__, lambda _: log.append("code"))
        del function
        return x + 1, alive() is None, code() is None, list(log)

    return Case(f, vec()).logging(log)


@program()
def modules_that_are_not_registered():
    def f(x):
        module = types.ModuleType("made")
        alive = weakref.ref(module)
        texts = [repr(module)]
        module.__file__ = "made.py"
        texts.append(repr(module))
        del module.__name__
        texts.append(str(module))
        module.value = x + 1
        result = module.value * 2
        del module
        gc.collect()
        return result, texts, alive() is None

    return Case(f, vec())


@program()
def classes_of_exec_end_too():
    def f(x):
        gone = []
        module = types.ModuleType("made")
        module.gone = gone
        text = "class A:\n    def __init__(self, l): self.l = l\n    def __del__(self): self.l.append(1)\na = A(gone)"
        exec(text, module.__dict__)
        del module
        gc.collect()
        return x + 1, gone

    return Case(f, vec())


class _Slotted(types.ModuleType):
    __slots__ = ("a", "b")

    def __init__(self, name):
        super().__init__(name)


@program()
def slots_of_a_kind_of_module():
    def f(x):
        module = _Slotted("made")
        module.a, module.b, module.c = 1, x + 1, 3
        return module.a, module.b, module.c, sorted(name for name in module.__dict__ if len(name) == 1)

    return Case(f, vec())


@program()
def frames_are_cleared():
    def inner(x=5, **named):
        return 1 / 0

    def outer(**named):
        try:
            inner(**named)
        except ZeroDivisionError as error:
            kept = error
        return kept

    class Thing:
        pass

    def f(x):
        thing = Thing()
        alive = weakref.ref(thing)
        error = outer(thing=thing)
        del thing
        before = alive() is None
        traceback = error.__traceback__
        while traceback is not None:
            traceback.tb_frame.clear()
            traceback = traceback.tb_next
        return x + 1, before, alive() is None

    return Case(f, vec())
