"""Comprehensions of every kind, with conditions, nesting, closures and breaks inside."""

from tests.python.programs import Case, mat, program, vec


@program(full=3)
def list_comprehension():
    def f(x):
        return [x * i for i in range(3)]

    return Case(f, vec())


@program(full=2)
def with_condition():
    def f(x, items):
        return [x + i for i in items if i % 2 if i > 1]

    return Case(f, vec(), [1, 2, 3, 5]).changing(vec(), [7, 8])


@program(full=2)
def dict_comprehension():
    def f(x, d):
        return {k.upper(): x * v for k, v in d.items()}, {v: k for k, v in d.items()}

    return Case(f, vec(), {"a": 1, "b": 2})


@program(full=1)
def set_comprehension():
    def f(x, items):
        s = {i % 3 for i in items}
        return x + len(s), s

    return Case(f, vec(), [1, 2, 3, 4])


@program(full=4)
def nested_loops():
    def f(x):
        return [x * i + j for i in range(2) for j in range(2)]

    return Case(f, vec())


@program(full=4)
def nested_comprehensions():
    def f(x):
        return [[x + i * j for j in range(2)] for i in range(2)]

    return Case(f, vec())


@program(full=2)
def variable_does_not_leak():
    def f(x):
        i = 10
        items = [x + i for i in range(2)]
        return items, i

    return Case(f, vec())


@program(full=2)
def walrus_leaks():
    def f(x):
        items = [last := x + i for i in range(2)]
        return items, last

    return Case(f, vec())


@program(full=3)
def over_tensor_rows():
    def f(x):
        return [row.sum() for row in x]

    return Case(f, mat())


@program(full=2)
def conditional_value():
    def f(x):
        return [x + 1 if i else x - 1 for i in (0, 1)]

    return Case(f, vec())


@program(full=2)
def unpacking_targets():
    def f(x):
        return [x * a + len(rest) for a, *rest in [(1, 2, 3), (4,)]]

    return Case(f, vec())


@program(full=2)
def with_side_effect():
    def f(x, log):
        return [log.append(i) or x + i for i in range(2)]

    return Case(f, vec(), [])


@program()
def callee_breaks():
    def loud(x, i):
        y = x + i
        print("item", i)
        return y * 2

    def f(x):
        return [loud(x, i) for i in range(3)]

    return Case(f, vec())


@program()
def break_inside_dict_comprehension():
    def loud(i):
        print("key", i)
        return f"k{i}"

    def f(x):
        d = {loud(i): x + i for i in range(3)}
        return d, x * 2

    return Case(f, vec())


@program()
def break_inside_generator_expression():
    def loud(x):
        print("now")
        return x + 1

    def f(x):
        return sum(loud(x * i) for i in range(3))

    return Case(f, vec())


@program()
def exception_inside():
    def f(x, items):
        y = x + 1
        try:
            return [y * (1 / i) for i in items]
        except ZeroDivisionError as error:
            return str(error), y

    return Case(f, vec(), [1, 0]).changing(vec(), [1, 2])


@program()
def uncaught_exception_inside():
    def f(x, items):
        return [x * (1 / i) for i in items]

    return Case(f, vec(), [1, 0])


@program()
def data_dependent_condition():
    def f(x):
        return [row * 2 for row in x if row.sum() > 0]

    return Case(f, mat())


@program(full=2)
def class_scope_comprehension():
    def f(x):
        class A:
            n = [i * 2 for i in range(3)]

        return [x + v for v in A.n[1:]]

    return Case(f, vec())


@program(full=3)
def lambdas_in_comprehension():
    def f(x):
        late = [lambda: i for i in range(3)]
        early = [lambda i=i: i for i in range(3)]
        return [g() for g in late], [x + g() for g in early]

    return Case(f, vec())


@program(full=3)
def of_zip_and_enumerate():
    def f(xs, ys):
        return [a * b + i for i, (a, b) in enumerate(zip(xs, ys))]

    return Case(f, [vec(), vec(4, 1.0)], [vec(), vec(4, 2.0)])
