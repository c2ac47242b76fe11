"""`except*` and exception groups."""

from tests.python.programs import Case, program, vec


def _split(error):
    if isinstance(error, BaseExceptionGroup):
        return type(error).__name__, error.message, [_split(e) for e in error.exceptions]
    return type(error).__name__, str(error)


@program(min_ops=2)
def groups_are_split():
    def f(x):
        seen = []
        try:
            y = x + 1
            raise ExceptionGroup("many", [ValueError("a"), TypeError("b"), ValueError("c")])
        except* ValueError as group:
            seen.append(_split(group))
            y = x * 2
        except* TypeError as group:
            seen.append(_split(group))
            y = y - 1
        return y, seen

    return Case(f, vec())


@program()
def rest_of_a_group_goes_on():
    def f(x):
        seen = []
        try:
            try:
                x = x + 1
                raise ExceptionGroup("many", [ValueError("a"), KeyError("k"), ExceptionGroup("in", [ValueError("b")])])
            except* ValueError as group:
                seen.append(_split(group))
        except ExceptionGroup as rest:
            seen.append(_split(rest))
            seen.append(rest.__context__ is None)
        return x * 2, seen

    return Case(f, vec())


@program(min_ops=1)
def plain_exception_is_wrapped():
    def g(x):
        found = None
        try:
            x = x + 1
            raise ValueError("alone")
        except* ValueError as group:
            found = _split(group)
        return x * 2, found

    return Case(g, vec())


@program(min_ops=2)
def no_exception_at_all():
    def f(x):
        try:
            x = x + 1
        except* ValueError:
            x = x * 10
        else:
            x = x - 2
        finally:
            x = x * 3
        return x

    return Case(f, vec())


@program()
def raised_inside_of_the_handler():
    def f(x):
        out = []
        try:
            try:
                raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
            except* ValueError as group:
                out.append(len(group.exceptions))
                raise KeyError("new") from group
        except ExceptionGroup as error:
            out.append(_split(error))
            out.append([type(e.__cause__).__name__ for e in error.exceptions if e.__cause__])
        return x + len(out), out

    return Case(f, vec())


@program(min_ops=2)
def break_inside_of_except_star():
    def f(x):
        seen = []
        try:
            x = x + 1
            raise ExceptionGroup("many", [ValueError("a"), TypeError("b")])
        except* ValueError as group:
            x = x * 2
            print("first", _split(group))
            x = x + 3
        except* TypeError as group:
            print("second", _split(group))
            seen.append(group.message)
            x = x - 1
        return x, seen

    return Case(f, vec())


@program()
def leaves_the_program():
    def f(x):
        try:
            y = x + 1
            raise ExceptionGroup("out", [ValueError("a"), OSError("b")])
        except* OSError:
            y = y * 2

    return Case(f, vec())


@program()
def methods_of_groups():
    class Mine(ExceptionGroup):
        def derive(self, excs):
            return Mine(self.message, excs)

    def f(x):
        group = Mine("m", [ValueError(1), KeyError(2), Mine("n", [ValueError(3)])])
        match, rest = group.split(ValueError)
        only = group.subgroup(lambda e: isinstance(e, KeyError))
        try:
            ExceptionGroup("empty", [])
        except ValueError as error:
            text = str(error)
        return x + 1, _split(match), _split(rest), _split(only), text, str(group)

    return Case(f, vec())
