"""Effects on everything that outlives a call: attributes, containers, globals, cells, classes, slots. Once, and in order."""

import collections

import torch

from tests.python.programs import Case, mat, program, vec

COUNTER = 0
TABLE: dict = {}
ITEMS: list = []


class Box:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("a", "b")


@program(full=1)
def set_attribute():
    def f(x, box):
        box.value = x + 1
        box.count = box.count + 1

    return Case(f, vec(), Box(count=0))


@program(full=2)
def read_back_what_was_written():
    def f(x, box):
        box.value = x + 1
        box.value = box.value * 2
        return box.value, hasattr(box, "value"), getattr(box, "other", None)

    return Case(f, vec(), Box())


@program(full=1)
def delete_attribute():
    def f(x, box):
        old = box.value
        del box.value
        try:
            box.value
        except AttributeError as error:
            return x + old, str(error), hasattr(box, "value")

    return Case(f, vec(), Box(value=2))


@program(full=1)
def setattr_and_delattr():
    def f(x, box):
        for i in range(3):
            setattr(box, f"n{i}", i)
        delattr(box, "n1")
        return x + len(vars(box))

    return Case(f, vec(), Box())


@program(full=1)
def attribute_order_is_kept():
    def f(x, box):
        box.c = 1
        del box.a
        box.a = 2
        box.b = x + 1
        return list(vars(box))

    return Case(f, vec(), Box(a=0, b=0))


@program(full=1)
def slots():
    def f(x, thing):
        thing.b = thing.a + 1
        thing.a = x + thing.b
        return hasattr(thing, "b")

    thing = Slotted()
    thing.a = 1

    return Case(f, vec(), thing)


@program(full=1)
def slot_unset_and_deleted():
    def f(x, thing):
        del thing.a
        missing = []
        for name in ("a", "b"):
            try:
                getattr(thing, name)
            except AttributeError as error:
                missing.append(str(error))
        thing.b = x + 1
        return missing

    thing = Slotted()
    thing.a = 1
    return Case(f, vec(), thing).then(lambda case: setattr(case.args[1], "a", 5))


@program(full=1)
def slot_that_does_not_exist():
    def f(x, thing):
        try:
            thing.c = 1
        except AttributeError as error:
            return str(error), x + 1

    return Case(f, vec(), Slotted())


@program(full=2)
def list_methods_on_argument():
    def f(x, items):
        items.append(x + 1)
        items.remove(6)
        items.insert(0, "first")
        items.extend([1, 2])
        items[1] = x * 2
        last = items.pop()
        position = items.index("first")
        items.reverse()
        del items[0]
        return last, len(items), position

    return Case(f, vec(), [5, 6, 6, 6, 6, 6])


@program(full=1)
def list_slices_on_argument():
    def f(x, items):
        items[1:3] = ["a", "b", "c"]
        items[::2] = [0] * len(items[::2])
        del items[-1:]
        items *= 2
        return x + len(items)

    return Case(f, vec(), [1, 2, 3, 4])


@program(full=1)
def list_sort_on_argument():
    def f(x, items):
        items.sort(key=lambda pair: -pair[0])
        other = sorted(items, reverse=True)
        items.clear()
        items += other
        return x + len(items)

    return Case(f, vec(), [(1, "a"), (3, "b"), (2, "c")])


@program(full=2)
def dict_methods_on_argument():
    def f(x, d):
        d["new"] = x + 1
        d.update({"u": 1}, v=2)
        first = d.setdefault("a", 100)
        second = d.setdefault("s", x * 2)
        gone = d.pop("b")
        default = d.pop("zz", "default")
        last = d.popitem()
        del d["u"]
        d |= {"w": 9}
        return first, second, gone, default, last, list(d)

    return Case(f, vec(), {"a": 1, "b": 2})


@program(full=1)
def dict_order_after_delete_and_insert():
    def f(x, d):
        value = d.pop("a")
        d["a"] = value
        d["b"] = x + 1
        return list(d.items())

    return Case(f, vec(), {"a": 1, "b": 2, "c": 3})


@program(full=1)
def dict_cleared():
    def f(x, d):
        d.clear()
        d["only"] = x + 1

    return Case(f, vec(), {"a": 1, "b": 2})


@program(full=1)
def set_methods_on_argument():
    def f(x, s):
        s.add(4)
        s.discard(1)
        s.update({7, 8}, [9])
        s.remove(2)
        s -= {8}
        s ^= {3, 30}
        s &= set(range(100))
        return x + len(s), 4 in s

    return Case(f, vec(), {1, 2, 3})


@program(full=1)
def deque_on_argument():
    def f(x, d):
        d.append(x + 1)
        d.appendleft("left")
        d.rotate(1)
        d.extend([1, 2])
        d.extendleft([3])
        d.pop()
        return d.popleft(), len(d), d.maxlen

    return Case(f, vec(), collections.deque([0], maxlen=5))


@program(full=1)
def ordered_dict_on_argument():
    def f(x, d):
        d.move_to_end("a")
        d["c"] = x + 1
        d.move_to_end("c", last=False)
        return list(d), d.popitem(last=False)[0]

    return Case(f, vec(), collections.OrderedDict(a=1, b=2))


@program(full=1)
def defaultdict_on_argument():
    def f(x, d):
        d["k"].append(x + 1)
        d["m"]
        return len(d), "absent" in d

    return Case(f, vec(), collections.defaultdict(list))


@program(full=1)
def counter_on_argument():
    def f(x, c):
        c["a"] += 2
        c.update("abc")
        return x + c["a"], c.most_common(1), c["none"]

    return Case(f, vec(), collections.Counter("aab"))


@program(full=2)
def global_counter():
    global COUNTER
    COUNTER = 0

    def f(x):
        global COUNTER
        COUNTER += 1
        x = x + COUNTER
        COUNTER += 1
        return x * COUNTER

    return Case(f, vec())


@program(full=1)
def global_made_and_deleted():
    globals().pop("FRESH", None)

    def f(x):
        global FRESH
        FRESH = x + 1
        value = FRESH
        del FRESH
        try:
            FRESH
        except NameError as error:
            return value, str(error)

    return Case(f, vec())


@program(full=1)
def global_holds_a_tensor():
    globals().pop("LAST", None)

    def f(x):
        global LAST
        LAST = x + 1

    return Case(f, vec())


@program(full=1)
def global_containers():
    TABLE.clear()
    ITEMS.clear()

    def f(x):
        TABLE[len(TABLE)] = x + 1
        ITEMS.append(len(TABLE))
        globals()["ITEMS"].append("through globals()")
        return len(ITEMS)

    return Case(f, vec())


@program(full=1)
def class_attribute():
    class Counter:
        total = 0
        seen = []

    def f(x):
        Counter.total += 1
        Counter.seen.append(Counter.total)
        Counter.last = x + Counter.total
        return len(Counter.seen)

    return Case(f, vec())


@program(full=1)
def class_attribute_through_instance():
    class Counter:
        total = 0
        items = []

        def hit(self, x):
            self.total += 1
            self.items.append(self.total)
            type(self).total += 10
            return x + self.total

    def f(x, counter):
        return counter.hit(x), counter.hit(x)

    return Case(f, vec(), Counter())


@program(full=1)
def classmethod_changes_class():
    class Registry:
        names = {}

        @classmethod
        def add(cls, name, value):
            cls.names[name] = value
            cls.count = len(cls.names)

    def f(x):
        Registry.add("x", x + 1)
        Registry.add("y", 2)
        return Registry.count

    return Case(f, vec())


@program(full=2)
def effects_in_order():
    log = []

    class Noisy:
        def __setattr__(self, name, value):
            log.append(name)
            object.__setattr__(self, name, value)

    def f(x, thing):
        thing.a = x + 1
        log.append("between")
        thing.b = thing.a * 2
        return len(log)

    return Case(f, vec(), Noisy()).watching(log)


@program(full=1)
def property_setter():
    class Thing:
        def __init__(self):
            self._value = 0
            self.changes = 0

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, new):
            self.changes += 1
            self._value = new

        @value.deleter
        def value(self):
            self._value = None

    def f(x, thing):
        thing.value = 3
        thing.value += 2
        y = x + thing.value
        del thing.value
        return y, thing.value

    return Case(f, vec(), Thing())


@program(full=2)
def tensor_attribute_set():
    def f(x):
        x.tag = 5
        y = x + 1
        y.tag = "mine"
        return y * x.tag

    return Case(f, vec())


@program(full=2)
def tensor_mutated_in_place():
    def f(x, y):
        x.add_(1)
        y[0] = 10
        y[1:].mul_(x[1:])
        return x + y

    return Case(f, vec(), vec())


@program(full=1)
def tensor_in_state_mutated():
    class Box:
        def __init__(self):
            self.total = torch.zeros(4)

    box = Box()

    def f(x):
        box.total += x
        return box.total

    return Case(f, vec()).watching(box)


@program(full=1)
def tensor_in_state_replaced():
    def f(x, box):
        box.total = box.total + x
        return box.total

    return Case(f, vec(), Box(total=torch.zeros(4)))


@program(full=2)
def nested_state():
    def f(x, config):
        config["layers"][0]["weight"] = x + 1
        config["layers"].append({"weight": x * 2})
        config["seen"].add(len(config["layers"]))
        return len(config["layers"])

    return Case(f, vec(), {"layers": [{"weight": None}], "seen": set()})


@program(full=1)
def swap_elements():
    def f(x, items):
        items[0], items[1] = items[1], items[0]
        a, items[2] = items[2], x + 1
        return a

    return Case(f, vec(), [1, 2, 3])


@program(full=1)
def list_grows_while_iterated():
    def f(x, items):
        for item in items:
            if item < 6:
                items.append(item * 2)
            x = x + item
        return x

    return Case(f, vec(), [1, 2, 5])


@program(full=1)
def dict_changed_while_iterated():
    def f(x, d):
        try:
            for key in d:
                d[key + "'"] = 1
        except RuntimeError as error:
            return str(error), x + 1

    return Case(f, vec(), {"a": 1})


@program(full=1)
def removed_while_iterated():
    def f(x, items):
        for item in items:
            if item % 2:
                items.remove(item)
        return x + len(items)

    return Case(f, vec(), [1, 3, 5, 6, 7, 9])


@program(full=2)
def reversed_and_grown():
    def f(x, items):
        it = reversed(items)
        first = next(it)
        items.append(99)
        return x + first, list(it), x + len(items)

    return Case(f, vec(), [1, 2, 3])


@program()
def effects_around_a_break():
    log = []

    def f(x, box):
        log.append("one")
        box.a = x + 1
        print("break", len(log), box.a.shape)
        log.append("two")
        box.b = box.a * 2
        del box.a

    return Case(f, vec(), Box()).watching(log)


@program()
def output_callback_sees_current_state():
    class Stream:
        def __init__(self, box):
            self.box = box
            self.seen = []

        def write(self, text):
            self.seen.append((text, len(self.box)))

    def f(x, box, stream):
        box.append(x + 1)
        print("one", file=stream)
        box.append(x + 2)
        print("two", file=stream)

    box = []
    return Case(f, vec(), box, Stream(box))


@program(full=1)
def function_attributes_and_defaults_changed():
    def helper(x, n=1):
        return x + n

    def f(x):
        helper.uses = getattr(helper, "uses", 0) + 1
        helper.__defaults__ = (helper.uses + 10,)
        return helper(x)

    return Case(f, vec()).watching(helper)


@program(min_ops=4)
def names_and_defaults_of_a_function_changed_and_read():
    def helper(x, n=1, m=2):
        return x * n + m

    def f(x):
        before = helper(x)
        helper.__defaults__ = (helper.__defaults__[0] + 1, 5)
        helper.__name__ = helper.__name__ + "_"
        helper.__qualname__ = "q"
        print(helper.__name__)
        return before + helper(x) + helper(x, m=0), helper.__defaults__, helper.__name__, helper.__qualname__

    def g(x):
        return f(x)[0]

    return Case(lambda x: (g(x), helper.__name__), vec()).watching(helper)


@program(full=1)
def instance_class_changed():
    class A:
        def m(self):
            return 1

    class B:
        def m(self):
            return 2

    def f(x, thing):
        before = thing.m()
        thing.__class__ = B
        return x + before * 10 + thing.m()

    return Case(f, vec(), A())


@program(full=1)
def class_changed_and_used():
    class A:
        kind = "a"

        def __init__(self):
            self.n = 1

        def m(self, x):
            return x + self.n

    class B(A):
        kind = "b"

        @property
        def twice(self):
            return self.n * 2

        def m(self, x):
            return super().m(x) * 10

        def __bool__(self):
            return False

    def f(x, thing, other):
        first = thing.m(x)
        thing.__class__ = B
        thing.n = thing.twice + 1
        inside = A()
        inside.__class__ = B
        other.__class__ = B
        other.__class__ = A
        return (
            first,
            thing.m(x),
            thing.kind,
            type(thing),
            isinstance(thing, B),
            bool(thing),
            inside,
            bool(other),
            other.kind,
        )

    other = B()
    return (
        Case(f, vec(), A(), A()).then_call(vec(), B(), A()).then_call(vec(), A(), other).then_call(vec(), other, other)
    )


@program()
def class_change_that_does_not_fit():
    class A:
        pass

    class Slots:
        __slots__ = ("a",)

    def f(x, thing):
        log = []
        for other in (Slots, int, 3):
            try:
                thing.__class__ = other
            except TypeError as error:
                log.append(str(error))
        return x + 1, log, type(thing)

    return Case(f, vec(), A())


@program(full=2)
def class_of_module_changed():
    class Doubled(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    def f(x, layer):
        y = layer(x)
        layer.__class__ = Doubled
        return y, layer(x)

    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(mat(2, 3))
        layer.bias.copy_(vec(2))
    return Case(f, mat(2, 3), layer)


@program(full=1)
def class_changes_and_the_objects_are_one():
    class A:
        pass

    class B:
        pass

    def f(x, one, other):
        one.__class__ = B
        return x + 1, type(other), type(one)

    both = A()
    return Case(f, vec(), A(), A()).then_call(vec(), both, both)


@program(max_breaks=1)
def class_changed_before_a_break():
    class A:
        def m(self):
            return 1

    class B:
        def m(self):
            return 2

    def f(x, thing):
        y = x + thing.m()
        thing.__class__ = B
        n = int((y * 0).sum())
        return y + thing.m() + n, type(thing)

    return Case(f, vec(), A())


@program(full=1)
def method_put_on_instance():
    class A:
        def m(self):
            return 1

    def f(x, thing):
        first = thing.m()
        thing.m = lambda: 5
        return x + first + thing.m()

    return Case(f, vec(), A())


@program(full=1)
def instance_dict_replaced():
    def f(x, box):
        box.__dict__ = {"value": 7}
        return x + box.value, hasattr(box, "old")

    return Case(f, vec(), Box(old=1))


@program(min_ops=2)
def instance_dict_replaced_and_used():
    def f(x, box):
        first = box.old
        box.__dict__ = new = {"value": x + 7}
        box.more = 2
        new["third"] = 3
        print(sorted(vars(box)))
        del box.value
        return x + first + box.third, new is box.__dict__, sorted(new), hasattr(box, "old"), hasattr(box, "value")

    return Case(f, vec(), Box(old=1))


@program(min_ops=1)
def instance_dict_replaced_by_one_from_outside():
    def f(x, box, other, spare):
        box.__dict__ = other
        other["late"] = 4
        box.early = 5
        spare.__dict__ = vars(box)
        spare.shared = 6
        return x + box.late + box.shared, sorted(other), vars(spare) is other

    return Case(f, vec(), Box(old=1), {"a": 1}, Box(old=2))


@program(full=1)
def subclass_of_list_and_dict():
    class Items(list):
        def append(self, item):
            super().append((item, len(self)))

    class Table(dict):
        def __missing__(self, key):
            self[key] = key * 2
            return self[key]

    def f(x, items, table):
        items.append(x + 1)
        items.name = "n"
        return len(items) + table[4], table.get(9)

    return Case(f, vec(), Items(), Table())


@program(full=2)
def memo_dict_in_closure():
    cache = {}

    def compute(x, n):
        if n not in cache:
            cache[n] = n * n
        return x * cache[n]

    def f(x):
        return compute(x, 3) + compute(x, 3)

    return Case(f, vec()).watching(cache)


@program(max_breaks=0)
def effects_undone_are_still_effects():
    def f(x, items):
        items.append(1)
        items.pop()
        items.append(x + 1)
        items.clear()
        return len(items)

    return Case(f, vec(), [])


@program(full=1)
def matrix_rows_in_a_list():
    def f(m, rows):
        for row in m:
            rows.append(row * 2)
        return len(rows)

    return Case(f, mat(), [])


@program(full=1)
def set_item_of_user_class():
    class Grid:
        def __init__(self):
            self.cells = {}

        def __setitem__(self, key, value):
            self.cells[key] = value

        def __getitem__(self, key):
            return self.cells[key]

        def __delitem__(self, key):
            del self.cells[key]

    def f(x, grid):
        grid[1, 2] = x + 1
        grid[0] = 5
        grid[0] += 1
        y = grid[1, 2] * grid[0]
        del grid[0]
        return y

    return Case(f, vec(), Grid())
