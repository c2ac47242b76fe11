"""Objects as keys in library classes, classes that change, and things that turn out to be one on a later call."""

import collections
import dataclasses

import torch

from tests.python.programs import Case, mat, program, vec


class K:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, o):
        return isinstance(o, K) and self.n == o.n


@program(full=1)
def counter_and_chainmap_of_objects():
    def f(x):
        c = collections.Counter([K(1), K(2), K(1)])
        m = collections.ChainMap({K(1): "a"}, {K(2): "b"})
        return x + 1, c[K(1)], c[K(9)], sum(c.values()), m[K(2)], K(3) in m, len(m)

    return Case(f, vec())


@program(full=1)
def groupby_and_unique():
    def f(x, ks):
        seen = set()
        out = []
        for k in ks:
            if k not in seen:
                seen.add(k)
                out.append(k.n)
        groups = collections.defaultdict(list)
        for i, k in enumerate(ks):
            groups[k].append(i)
        return x + len(seen), out, list(groups.values()), list(dict.fromkeys(ks))[0] is ks[0]

    ks = [K(1), K(2), K(1)]
    return Case(f, vec(), ks).then_call(vec(), [K(1), K(1), K(1)]).then_call(vec(), [K(3)])


@program(full=1)
def same_key_object_mutated():
    def f(x, d, k):
        a = d.get(k)
        k.n += 1
        b = d.get(k)
        d[k] = "new"
        return x + 1, a, b, len(d)

    k = K(1)
    return Case(f, vec(), {k: "old"}, k)


@program(full=1)
def dict_of_objects_iterated_and_changed():
    def f(x, d):
        for k in list(d):
            d[k] = d[k] * 2
        for k, v in d.items():
            if v > 2:
                break
        d2 = {k: v for k, v in d.items() if k.n > 1}
        inv = {v: k for k, v in d.items()}
        return x + v, k.n, len(d2), inv[2].n, d2, sorted(d.values())

    return Case(f, vec(), {K(1): 1, K(2): 2})


@program(full=1)
def frozenset_of_objects_as_key():
    def f(x):
        d = {frozenset([K(1), K(2)]): x + 1}
        return d[frozenset([K(2), K(1)])], frozenset([K(3)]) in d, {frozenset([K(1)])} == {frozenset([K(1)])}

    return Case(f, vec())


@program(full=1)
def own_key_mixed_with_plain():
    class Name:
        def __init__(self, s):
            self.s = s

        def __hash__(self):
            return hash(self.s)

        def __eq__(self, o):
            return self.s == (o.s if isinstance(o, Name) else o)

    def f(x, d):
        d["a"] = 1
        d[Name("b")] = 2
        r = [d["b"], d[Name("a")], len(d), "b" in d, list(map(type, d))]
        d.pop("b")
        del d[Name("a")]
        return x + 1, r, len(d)

    return Case(f, vec(), {}).then_call(vec(), {Name("a"): 0, "b": 5})


@program(full=1)
def module_dict_keys_with_tensors():
    def f(x, m):
        d = {m: x + 1, m.weight: "w", K(1): 2}
        return d[m], d[m.weight], d[K(1)], len(d), (m, K(1)) in {(m, K(1)): 1}

    m = torch.nn.Linear(2, 2)
    with torch.no_grad():
        m.weight.fill_(1)
        m.bias.fill_(0)
    return Case(f, vec(), m)


@program(full=1)
def class_change_and_slots():
    class A:
        __slots__ = ("v",)

        def m(self):
            return self.v

    class B:
        __slots__ = ("v",)

        def m(self):
            return self.v * 100

    def f(x, a):
        a.__class__ = B
        a.v = a.m() + 1
        return x + a.m(), type(a).__name__

    a = A()
    a.v = 1
    return Case(f, vec(), a)


@program(full=1)
def class_change_in_method_and_state_machine():
    class Off:
        def press(self):
            self.__class__ = On
            return "on"

    class On:
        def press(self):
            self.__class__ = Off
            return "off"

    def f(x, s):
        return x + 1, s.press(), s.press(), s.press(), type(s)

    return Case(f, vec(), Off()).then_call(vec(), On())


@program()
def class_change_with_raise():
    class A:
        pass

    class B:
        pass

    def f(x, a):
        a.__class__ = B
        raise ValueError("after")

    return Case(f, vec(), A())


@program(full=1)
def object_replaced_dict():
    class A:
        pass

    def f(x, a):
        a.__dict__ = {"p": x + 1}
        a.q = 2
        return a.p, sorted(vars(a))

    return Case(f, vec(), A())


@program(full=1)
def two_objects_share_a_dict():
    class A:
        pass

    def f(x, a, b):
        a.v = x + 1
        b.w = 2
        return hasattr(b, "v"), hasattr(a, "w")

    p, q, r, s = A(), A(), A(), A()
    s.__dict__ = r.__dict__
    return Case(f, vec(), p, q).then_call(vec(), r, s)


@program(full=1)
def attribute_alias_chain():
    class N:
        pass

    def f(x, root):
        root.left.v = 1
        root.right.v = 2
        return x + root.left.v, root.left.v, root.left is root.right

    def tree(shared):
        r, l = N(), N()
        r.left = l
        r.right = l if shared else N()
        return r

    return Case(f, vec(), tree(False)).then_call(vec(), tree(True)).then_call(vec(), tree(False))


@program(full=1)
def list_contains_itself_later():
    def f(x, l):
        l[0].append(1)
        return x + len(l), len(l[0])

    def loop():
        l = []
        l.append(l)
        return l

    return Case(f, vec(), [[]]).then_call(vec(), loop())


@program(full=1)
def default_argument_alias():
    def g(v, acc=[]):
        acc.append(v)
        return len(acc)

    def f(x, l):
        l.append(5)
        return x + 1, g(1), len(l)

    g.__defaults__ = ([],)
    return Case(f, vec(), []).then_call(vec(), g.__defaults__[0])


@program(full=1)
def closure_and_argument_alias():
    box = [0]

    def f(x, l):
        l[0] += 1
        box[0] += 10
        return x + 1, l[0], box[0]

    return Case(f, vec(), [0]).then_call(vec(), box).watching(box)


G = {"n": 1}


@program(full=1)
def global_dict_and_argument_alias():
    G.clear()
    G["n"] = 1

    def f(x, d):
        d["n"] += 1
        return x + 1, G["n"], d["n"]

    return Case(f, vec(), {"n": 5}).then_call(vec(), G).then_call(vec(), {"n": 7})


class Holder:
    pass


H = Holder()


@program(full=1)
def global_object_and_argument_alias():
    H.__dict__.clear()
    H.v = 1

    def f(x, o):
        o.v = 5
        return x + 1, H.v

    o = Holder()
    o.v = 2
    return Case(f, vec(), o).then_call(vec(), H)


@program(full=1)
def global_object_and_dict_alias():
    H.__dict__.clear()
    H.v = 1

    def f(x, d):
        d["v"] = 5
        return x + 1, H.v

    return Case(f, vec(), {}).then_call(vec(), H.__dict__)


@program(full=1)
def kwargs_and_object_dict():
    class A:
        pass

    def f(x, a, **kw):
        kw["v"] = 1
        a.v = 2
        return x + 1, kw["v"], a.v

    a = A()
    a.v = 0
    return Case(f, vec(), a, w=1)


@program(full=1)
def set_alias_and_frozenset():
    def f(x, s, t):
        s.add(1)
        t.discard(1)
        s |= {4}
        return x + len(s), len(t), s == t

    u = {2}
    return Case(f, vec(), {2}, {1, 3}).then_call(vec(), u, u)


@program(full=1)
def deque_alias_and_list_items():
    def f(x, p, q):
        p[0].append(1)
        q.appendleft(0)
        return x + len(q), len(p[0])

    d = collections.deque([9])
    return Case(f, vec(), [collections.deque()], collections.deque()).then_call(vec(), [d], d)


@program(full=1)
def ordered_and_default_dict_alias():
    def f(x, p, q):
        p["k"] = 1
        q["k"] = 2
        p.move_to_end("a")
        return x + p["k"], list(p), list(q)

    o = collections.OrderedDict(a=0, b=1)
    return Case(f, vec(), collections.OrderedDict(a=0, b=1), collections.OrderedDict(b=1)).then_call(vec(), o, o)


@program(full=1)
def dataclass_alias():
    @dataclasses.dataclass
    class D:
        v: int = 0
        items: list = dataclasses.field(default_factory=list)

    def f(x, a, b):
        a.v += 1
        a.items.append(1)
        return x + b.v, len(b.items), a == b

    d = D()
    return Case(f, vec(), D(), D()).then_call(vec(), d, d)


@program(full=1)
def nested_module_alias():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.n += 1
            return x + self.n

    class P(torch.nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.a, self.b = a, b

        def forward(self, x):
            return self.b(self.a(x))

    def f(x, p):
        return p(x), p.a.n, p.b.n

    m = M()
    return Case(f, vec(), P(M(), M())).then_call(vec(), P(m, m)).then_call(vec(), P(M(), M()))


@program(full=1)
def parameter_shared_later():
    def f(x, a, b):
        a.weight.data.mul_(2) if False else None
        with torch.no_grad():
            a.weight.add_(1)
        return x @ b.weight, a.weight is b.weight

    def lin():
        l = torch.nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            l.weight.fill_(0.5)
        return l

    a, b = lin(), lin()
    b.weight = a.weight
    return Case(f, mat(2, 2), lin(), lin()).then_call(mat(2, 2), a, b)


@program(full=1)
def bytes_like_and_memory():
    def f(x, b):
        return x + len(b), b[0], b[-1], bytes(b[:2]), b.decode() if isinstance(b, bytes) else None

    return Case(f, vec(), b"abc").then_call(vec(), b"xyz").then_call(vec(), bytearray(b"qq"))


@program()
def array_module_values():
    import array

    def f(x, a):
        return x + a[0], len(a), list(a)

    return (
        Case(f, vec(), array.array("i", [1, 2]))
        .then_call(vec(), array.array("i", [5, 2]))
        .then_call(vec(), array.array("i", [5]))
    )


@program()
def memoryview_values():
    def f(x, m):
        return x + m[0], len(m), bytes(m)

    return Case(f, vec(), memoryview(b"ab")).then_call(vec(), memoryview(b"cd"))


@program()
def inspect_and_types():
    import inspect

    def g(a, b=2, *c, d, **e):
        pass

    def f(x):
        s = inspect.signature(g)
        return (
            x + len(s.parameters),
            list(s.parameters),
            inspect.isfunction(g),
            inspect.isclass(K),
            g.__code__.co_argcount,
            g.__defaults__,
            callable(g),
        )

    return Case(f, vec())


class Borg:
    shared = {}

    def __init__(self):
        self.__dict__ = Borg.shared


@program()
def objects_with_one_dict_made():
    Borg.shared = {}

    def f(x):
        a, b = Borg(), Borg()
        a.k = x + 1
        return b.k, sorted(vars(b))

    return Case(f, vec()).watching(Borg)


@program()
def objects_with_one_dict_given():
    class Other(Borg):
        pass

    def f(x, a, b):
        t = a.n
        b.n = t + 1
        a.m = x + a.n
        return b.m, b.n

    Borg.shared = {}
    a, b = Borg(), Other()
    a.n = 1
    return Case(f, vec(), a, b)


@program(min_ops=1)
def descriptors_that_are_bound_anew():
    """A method-wrapper is a new object each time: what it binds, and by which name, tells one from another."""

    def f(get, x):
        return get(x), x + 1

    getters = [torch.Tensor.shape, torch.Tensor.dtype, torch.Tensor.device, torch.Tensor.requires_grad]
    case = Case(f, getters[0].__get__, vec())
    for getter in getters[1:]:
        case = case.then_call(getter.__get__, vec())
    return case


class Asks(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


@program(min_ops=0)
def attributes_of_a_kind_of_tensor():
    def f(x):
        return x.shape, x.dtype, x.ndim, x.device, x.is_sparse

    return Case(f, vec().as_subclass(Asks)).then_call(vec().double().as_subclass(Asks))


@program(min_ops=1)
def bound_functions_of_c_in_turn():
    def f(call, x):
        return call(1), x + 1

    items, table = [1, 1, 2], {1: "a"}
    case = Case(f, items.count, vec())
    for call in (items.index, table.get, table.__contains__, (5).__add__, (6).__add__, (6).__sub__, [3, 1].count):
        case = case.then_call(call, vec())
    return case
