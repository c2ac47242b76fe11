"""Recursion as deep as eager survives, and errors when it does not."""

import sys

from tests.python.programs import Case, program, vec


@program()
def three_hundred_deep():
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    def f(x):
        return down(x, 300)

    return Case(f, vec())


@program()
def six_hundred_deep_without_tensors():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    def f(x):
        return x + down(600)

    return Case(f, vec())


@program()
def recursion_error_is_caught():
    def forever(n):
        return forever(n + 1)

    def f(x):
        y = x + 1
        try:
            forever(0)
        except RecursionError as error:
            return y * 2, str(error)[:40]

    return Case(f, vec())


@program()
def limit_raised_inside():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    def f(x):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(6000)
        try:
            return x + down(4000)
        finally:
            sys.setrecursionlimit(before)

    return Case(f, vec())


@program()
def deeper_than_the_c_stack():
    def down(x, n):
        return x if n == 0 else down(x, n - 1) + 0

    def f(x):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(41000)
        try:
            return down(x, 30000) + 1
        finally:
            sys.setrecursionlimit(before)

    return Case(f, vec())


@program()
def deep_with_a_break_at_the_bottom():
    def down(x, n):
        if n == 0:
            print("bottom")
            return x
        return down(x + 1, n - 1) * 2

    def f(x):
        return down(x, 60)

    return Case(f, vec())


@program()
def deep_generators():
    def count(n):
        if n:
            yield n
            yield from count(n - 1)

    def f(x):
        return x + sum(count(100))

    return Case(f, vec())


@program()
def deep_exception():
    def down(n):
        if n == 0:
            raise ValueError("bottom")
        try:
            return down(n - 1)
        finally:
            seen.append(n)

    seen = []

    def f(x):
        try:
            down(80)
        except ValueError as error:
            return x + len(seen), str(error)

    return Case(f, vec()).watching(seen)


@program()
def recursion_through_objects():
    class Node:
        def __init__(self, n):
            self.child = Node(n - 1) if n else None

        def total(self, x):
            return x + 1 if self.child is None else self.child.total(x) + 1

    def f(x, node):
        return node.total(x)

    return Case(f, vec(), Node(100))


@program()
def nested_containers():
    def depth(tree):
        return 1 + max((depth(child) for child in tree), default=0)

    def f(x):
        tree = []
        for _ in range(50):
            tree = [tree]
        return x + depth(tree)

    return Case(f, vec())


@program()
def mutual_recursion_of_sixty():
    def ping(x, n):
        return x if n == 0 else pong(x + 1, n - 1)

    def pong(x, n):
        return x if n == 0 else ping(x * 1, n - 1)

    def f(x):
        return ping(x, 60)

    return Case(f, vec())
