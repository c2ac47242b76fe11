"""What the third generator writes: whole idioms of Python and torch, one feature each, put into one another at random.

The productions are as in grammar.py (a statement is what stands between empty lines), and `«a¦b»` is one of these texts, chosen anew at each
place. Where grammar.py tries operators on whatever there is, an idiom is code as people write it, with its odd corners: it keeps a protocol,
changes something in the middle, and says what it saw.
"""

# ruff: noqa: E501
from __future__ import annotations

import random
import re

from tests.fuzz.wild import NotHere, Scope, Wild, genome, rules

CLASSES = """
class SlotA:
    __slots__ = («'a', 'b'¦'a', 'b', '__dict__'¦'a', 'b', '__weakref__'»)
    def __init__(self, a): self.a = a
@any:o = SlotA(<tensor>)
try:
    $:o.«b¦c¦a» = <int>
    LOG.append(($:o.a, getattr($:o, 'b', 'unset')))
    del $:o.«a¦b»
    LOG.append($:o.a)
except AttributeError as e:
    LOG.append(str(e))

class Desc:
    def __set_name__(self, owner, name): self.name = '_' + name; LOG.append(name)
    def __get__(self, obj, owner=None):
        if obj is None: return self
        return getattr(obj, self.name, <int>)
    «def __set__(self, obj, value): setattr(obj, self.name, value + 1)¦pass¦def __delete__(self, obj): LOG.append('deleted')»
class HasDesc:
    a = Desc()
    b = «Desc()¦a»
@any:o = HasDesc()
try:
    $:o.a = <number>
    LOG.append(($:o.a, $:o.b, vars($:o), type(HasDesc.a).__name__))
    del $:o.a
    LOG.append($:o.a)
except (AttributeError, TypeError) as e:
    LOG.append((type(e).__name__, str(e)))

class M(type):
    def __new__(mcs, name, bases, ns, **kw):
        cls = super().__new__(mcs, name, bases, ns)
        cls.kw = kw
        return cls
    def __init__(cls, name, bases, ns, **kw): LOG.append((name, sorted(kw)))
    def __call__(cls, *a, **k):
        LOG.append('call')
        return super().__call__(*a, **k)
    «def __iter__(cls): return iter((1, 2))¦def __getitem__(cls, k): return [4, 5][k]¦def __contains__(cls, k): return k == 1¦def __prepare__(name, bases, **k): return {'pre': 1}»
class WithM(metaclass=M, tag=<int>):
    def __init__(self, v): self.v = v
@any:o = WithM(<tensor>)
try:
    LOG.append((WithM.kw, «list(WithM)¦WithM[1]¦1 in WithM¦WithM.pre», $:o.v))
except (TypeError, AttributeError) as e:
    LOG.append(str(e))

@dataclasses.dataclass(«frozen=True¦order=True¦eq=False¦slots=True¦kw_only=True¦unsafe_hash=True¦repr=False»)
class DC:
    a: int = <int>
    b: «list = dataclasses.field(default_factory=list)¦float = 1.5¦dataclasses.InitVar[int] = 2»
    def __post_init__(self, *iv): LOG.append(('post', iv))
try:
    @any:o = DC(«a=1¦a=2, b=3¦»)
    LOG.append((repr($:o), $:o == DC(), dataclasses.asdict($:o), [f.name for f in dataclasses.fields($:o)]))
    «$:o.a = 5¦LOG.append($:o < DC(a=9))¦LOG.append(hash($:o) == hash(DC(a=1)))¦LOG.append(dataclasses.replace($:o, a=7).a)¦LOG.append(dataclasses.astuple($:o))»
    LOG.append($:o.a)
except Exception as e:
    LOG.append((type(e).__name__, str(e)))

class E(enum.«Enum¦IntEnum¦Flag¦IntFlag»):
    A = 1
    B = 2
    C = «4¦enum.auto()»
    @property
    def twice(self): return self.value * 2
    @classmethod
    def pick(cls, v): return cls(v)
try:
    LOG.append((E.A.twice, E['B'].name, E.pick(«1¦2¦9»).name, len(E), [m.name for m in E], E.A «<¦==¦|¦is» E.B, E.A in E, repr(E.B)))
except (TypeError, ValueError) as e:
    LOG.append(str(e))
@int = E.B.value

class Attr:
    def __init__(self): object.__setattr__(self, 'store', {})
    def __getattr__(self, k):
        try: return self.store[k]
        except KeyError: raise AttributeError(«k¦f'no {k}'») from «None¦KeyError(k)»
    def __setattr__(self, k, v): self.store[k] = v
    def __delattr__(self, k): del self.store[k]
    def __dir__(self): return list(self.store)
@any:o = Attr()
$:o.p = <tensor>
$:o.q = <int>
try:
    LOG.append(($:o.p, $:o.q, hasattr($:o, 'z'), getattr($:o, 'z', 1), dir($:o)))
    del $:o.«p¦z¦q»
    LOG.append($:o.«p¦q»)
except (AttributeError, KeyError) as e:
    LOG.append((str(e), type(e.__cause__).__name__, e.__suppress_context__))

class Num:
    def __init__(self, v): self.v = v
    def __add__(self, o): return Num(self.v + o.v) if isinstance(o, Num) else NotImplemented
    def __radd__(self, o): LOG.append('radd'); return Num(o + self.v)
    def __iadd__(self, o): self.v = self.v + «o¦1»; return self
    def __mul__(self, o): return «NotImplemented¦Num(self.v * 2)»
    def __rmul__(self, o): return «Num(self.v)¦NotImplemented»
    def __rsub__(self, o): return o - self.v
    def __rpow__(self, o, m=None): return (o, m)
    def __rdivmod__(self, o): return o
    def __floordiv__(self, o): return 'fd'
    def __matmul__(self, o): return 'mm'
    def __imatmul__(self, o): return self
    def __and__(self, o): return self.v
    def __eq__(self, o): return isinstance(o, Num) and «True¦NotImplemented¦self is o»
    def __lt__(self, o): return «True¦NotImplemented»
    def __index__(self): return 2
    def __round__(self, nd=None): return nd
    def __trunc__(self): return 3
    def __ceil__(self): return 4
@any:o = Num(<«int¦tensor»>)
try:
    @any:q = «<int> + $:o¦$:o + Num(1)¦$:o * 2¦2 * $:o¦5 - $:o¦2 ** $:o¦divmod(3, $:o)¦$:o // 1¦$:o @ 1¦$:o & 1¦$:o == Num(1)¦$:o < 3¦3 > $:o¦$:o > Num(1)¦[1,2,3][$:o]¦round($:o, 1)¦int($:o)¦math.ceil($:o)¦sum([$:o, $:o])¦$:o != 3¦range(5)[$:o:]¦'abc'[$:o]¦hash($:o)»
    LOG.append($:q.v if isinstance($:q, Num) else $:q)
    $:o «+=¦@=¦*=¦-=¦//=» 3
    LOG.append(type($:o).__name__)
except TypeError as e:
    LOG.append(str(e))

class Pa:
    def who(self): return ['Pa']
    @classmethod
    def cm(cls): return cls.__name__
    @staticmethod
    def sm(v): return v
    @property
    def pr(self): return getattr(self, '_pr', 'Pa')
class Pb(Pa):
    def who(self): return ['Pb'] + super().who()
    @Pa.pr.«setter¦getter¦deleter»
    def pr(self, *v): self._pr = v; return 'Pb'
class Pc(Pa):
    def who(self): return ['Pc'] + super(Pc, self).who()
class Pd(«Pb, Pc¦Pc, Pb¦Pb»):
    def who(self): return ['Pd'] + super().who()
    @classmethod
    def cm(cls): return 'Pd' + super().cm()
@any:o = Pd()
try:
    LOG.append(($:o.who(), Pd.cm(), $:o.cm(), $:o.sm(<int>), [c.__name__ for c in Pd.__mro__], $:o.pr))
    $:o.pr = <int>
    LOG.append($:o.pr)
    del $:o.pr
except AttributeError as e:
    LOG.append(str(e))

class Ab(abc.ABC):
    @abc.abstractmethod
    def need(self): ...
    @classmethod
    def __subclasshook__(cls, C): return «NotImplemented¦hasattr(C, 'need')»
class Im(Ab):
    def need(self): return <int>
class Duck:
    def need(self): return 1
«Ab.register(int)¦pass»
try:
    LOG.append((Im().need(), isinstance(Duck(), Ab), isinstance(3, Ab), issubclass(Im, Ab)))
    Ab()
except TypeError as e:
    LOG.append(str(e))

class Seq(«collections.abc.Sequence¦collections.abc.MutableSequence¦object»):
    def __init__(self, it): self.l = list(it)
    def __getitem__(self, i): LOG.append(i) if isinstance(i, slice) else None; return self.l[i]
    def __len__(self): return len(self.l)
    def __setitem__(self, i, v): self.l[i] = v
    def __delitem__(self, i): del self.l[i]
    def insert(self, i, v): self.l.insert(i, v)
@any:o = Seq([1, 2, <int>])
try:
    LOG.append((2 in $:o, list(reversed($:o)), $:o[«-1¦0¦1:¦::-1¦5»], [*$:o]))
    $:o.«append(4)¦index(2)¦count(2)¦pop()¦extend([7])¦reverse()¦remove(9)»
    a, *b = $:o
    LOG.append((a, b))
except Exception as e:
    LOG.append((type(e).__name__, str(e)))

class Mp(«collections.abc.MutableMapping¦collections.UserDict¦dict¦collections.OrderedDict¦collections.defaultdict»):
    def __init__(self, *a, **k): «super().__init__(*a, **k)¦self.data = dict(*a, **k)»
    def __getitem__(self, k): LOG.append(('get', k)); return «super().__getitem__(k)¦self.data[k]¦k»
    def __setitem__(self, k, v): LOG.append(('set', k)); «super().__setitem__(k, v)¦self.data[k] = v»
    def __delitem__(self, k): «super().__delitem__(k)¦del self.data[k]»
    def __iter__(self): return «super().__iter__()¦iter(self.data)»
    def __len__(self): return «super().__len__()¦len(self.data)»
try:
    @any:o = Mp(«»)
    $:o['a'] = <int>
    $:o.«update(b=2)¦setdefault('c', 3)¦pop('a')¦popitem()¦update({'d': 1})»
    LOG.append((sorted($:o), $:o.get('a'), 'b' in $:o, list($:o.«items¦keys¦values»()), {**$:o}, dict($:o), $:o == {'a': 1}))
    del $:o['«a¦zz»']
except Exception as e:
    LOG.append((type(e).__name__, str(e)))

class Once:
    inst = None
    def __new__(cls, *a):
        LOG.append(('new', len(a)))
        if cls.inst is None: cls.inst = super().__new__(cls)
        return «cls.inst¦super().__new__(cls)¦3»
    def __init__(self, v=0): self.v = v; LOG.append('init')
@any:o = Once(<int>)
LOG.append((Once() is $:o, getattr($:o, 'v', None)))

class CtxA:
    def __enter__(self): LOG.append('in'); return <int>
    def __exit__(self, t, v, tb):
        LOG.append((t and t.__name__, v and v.args, tb is None))
        «return True¦return False¦raise Oops('exit')¦return None¦raise¦v.args = (1,)»
try:
    with CtxA() as a, «CtxA()¦noted('z')¦contextlib.nullcontext(2)» as b:
        LOG.append((a, b))
        <block>
        «raise ValueError('in')¦pass¦1 / 0¦$tensor.view(3)»
except Exception as e:
    LOG.append((type(e).__name__, e.args, type(e.__context__).__name__))

def outer_scope(v):
    z = v
    def get(): return z
    def set_(q):
        nonlocal z
        z = q
    def dele():
        nonlocal z
        del z
    return get, set_, dele
@any:g, @any:h, @any:i = outer_scope(<tensor>)
$:h(<int>)
LOG.append($:g())
try:
    $:i()
    LOG.append($:g())
except NameError as e:
    LOG.append((type(e).__name__, str(e)))

def local_del(v, k):
    if k: w = v
    try:
        «del w¦w += 1¦w.add_(1)¦LOG.append(w)»
        return w
    except UnboundLocalError as e:
        LOG.append(str(e))
LOG.append(local_del(<tensor>, <int> > 1))

class Cls0:
    v = <int>
    f = lambda self: self.v
    vs = [v for _ in range(2)] if «False¦True» else 0
try:
    LOG.append((Cls0().f(), Cls0.vs))
except NameError as e:
    LOG.append(str(e))

class Cached:
    def __init__(self, v): self.v = v
    @functools.cached_property
    def c(self): LOG.append('computed'); return self.v + 1
    @functools.lru_cache(maxsize=«None¦1¦2»)
    def m(self, k): LOG.append(k); return k + 1
@any:o = Cached(<«tensor¦int»>)
LOG.append(($:o.c, $:o.c, $:o.m(1), $:o.m(1), $:o.m(2), $:o.m(1), sorted(vars($:o)), Cached.m.cache_info()))
«del $:o.c¦$:o.c = 4¦vars($:o).pop('c')¦Cached.m.cache_clear()»
LOG.append(($:o.c, $:o.m(1)))

@functools.singledispatch
def sd(v): return 'any'
@sd.register
def _(v: int): return 'int'
@sd.register(list)
def _(v): return ('list', len(v))
@sd.register(torch.Tensor)
def _(v): return v + 1
LOG.append((sd(<any>), sd($tensor), sd(True), sd([1]), sd.dispatch(«bool¦str¦dict»).__name__))

class Total:
    def __init__(self, v): self.v = v
    def __eq__(self, o): return self.v == o.v
    def __lt__(self, o): return self.v < o.v
    def __hash__(self): return hash(self.v)
    def __repr__(self): return f'T{self.v}'
Total = functools.total_ordering(Total)
LOG.append((Total(1) >= Total(<int>), sorted([Total(2), Total(<int>), Total(1)]), max(Total(1), Total(<int>)), {Total(1), Total(1), Total(<int>)} == {Total(1)}))

class It:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n <= 0: raise StopIteration«¦(7)»
        self.n -= 1
        return self.n
    def __length_hint__(self): return «self.n¦NotImplemented¦-1¦'x'»
try:
    @any:i = It(<int> % 5)
    LOG.append((next($:i, 'none'), «list($:i)¦max($:i, default=0)¦sorted($:i)¦2 in $:i¦dict(enumerate($:i))¦[*$:i]¦tuple($:i)¦operator.length_hint($:i)», list($:i)))
except (TypeError, ValueError, StopIteration) as e:
    LOG.append((type(e).__name__, str(e)))

class Getter:
    def __getattribute__(self, k):
        LOG.append(k)
        return «super().__getattribute__(k)¦object.__getattribute__(self, k)¦len(k)»
    def __init__(self): self.v = <int>
    def m(self): return self.v
@any:o = Getter()
try:
    LOG.append(($:o.v, $:o.m(), $:o.zz))
except (AttributeError, TypeError) as e:
    LOG.append((type(e).__name__, str(e)))

class Del:
    def __init__(self, n): self.n = n
    def __del__(self): LOG.append(('gone', self.n))
@any:o = «[Del(1), Del(2)]¦{'k': Del(3)}¦Del(4)¦(Del(5),)¦types.SimpleNamespace(d=Del(6))¦functools.partial(print, Del(7))¦(lambda d=Del(8): d)¦iter([Del(9)])»
<block>
«del $:o¦$:o = None¦$:o = [$:o]¦LOG.append(1)»
LOG.append('after')

class Ws: pass
@any:o = Ws()
@any:w = weakref.«ref($:o)¦ref($:o, lambda r: LOG.append('died'))¦WeakSet([$:o])¦WeakValueDictionary(k=$:o)¦WeakKeyDictionary({$:o: 1})¦finalize($:o, LOG.append, 'fin')¦proxy($:o)»
<block>
$:o = None
LOG.append(«'x'¦type($:w).__name__»)
$:w = None

def pos(a, b=<int>, /, c=3, *rest, d, e=<int>, **kw): return (a, b, c, rest, d, e, sorted(kw))
try:
    LOG.append(pos(«1, d=2¦1, 2, 3, 4, 5, d=6, f=7¦a=1, d=2¦1, d=2, a=3¦*[1, 2], **{'d': 1, 'e': 2}¦1¦1, 2, c=3, d=4, b=9¦*range(3), d=1, **{'c': 1}¦**{'d': 1, 'd2': 2}, *[1]¦1, d=1, **{'d': 2}¦*None¦1, d=2, **[]»))
except TypeError as e:
    LOG.append(str(e))

def mut(v, acc=[], *, seen={}): acc.append(v); seen[v] = len(acc); return acc
LOG.append((mut(1), mut(<int>), mut(3, []), mut.__defaults__, mut.__kwdefaults__))
«mut.__defaults__ = ([9],)¦mut.__kwdefaults__ = None¦mut.extra = 1¦mut.__kwdefaults__['seen'] = {5: 5}¦del mut.__defaults__»
try:
    LOG.append((mut(4), mut.__dict__))
except TypeError as e:
    LOG.append(str(e))
"""

FLOW = """
def ret_loop(k):
    for i in range(4):
        try:
            if i == k: «return i¦break¦continue¦raise Oops(i)»
            LOG.append(i)
        except Oops as e:
            LOG.append(e.args)
            «continue¦break¦return 'e'¦raise¦pass»
        else:
            «LOG.append('else')¦if i == 2: break»
        finally:
            LOG.append(('fin', i))
            «pass¦if i == 1: continue¦if i == 2: return 'f'¦if i == 3: break»
    else:
        LOG.append('exhausted')
    return 'end'
try:
    LOG.append(ret_loop(<int>))
except Oops as e:
    LOG.append(('out', e.args))

def nested(k):
    try:
        try:
            if k > 1: raise ValueError(k)
            <body k:int>
            1 / (k - 1)
        except ZeroDivisionError as e:
            raise KeyError('z') «from e¦from None¦»
        finally:
            LOG.append(sys.exc_info()[0])
    except (KeyError, ValueError) as e:
        LOG.append((type(e).__name__, type(e.__cause__).__name__, type(e.__context__).__name__, e.__suppress_context__))
        «raise¦return k¦pass¦e.add_note('n')»
    return -1
try:
    LOG.append(nested(<int>))
except Exception as e:
    LOG.append((str(e), getattr(e, '__notes__', None)))

try:
    try:
        raise ExceptionGroup('g', [ValueError(1), TypeError(<int>), ExceptionGroup('h', [KeyError(2), ValueError(3)])])
    except* «ValueError¦(ValueError, KeyError)¦OSError» as eg:
        LOG.append((eg.message, len(eg.exceptions)))
        <block>
        «pass¦raise¦raise Oops('in star')¦raise Oops('x') from None»
    except* TypeError as eg:
        LOG.append(repr(eg.exceptions))
except BaseExceptionGroup as eg:
    LOG.append((type(eg).__name__, repr(eg), [type(e).__name__ for e in eg.exceptions]))
except Oops as e:
    LOG.append(type(e.__context__).__name__)

def echo(t):
    got = []
    while True:
        try:
            v = yield t + len(got)
            got.append(v)
            if v == 'stop': return got
        except Oops as e:
            got.append(e.args)
        except GeneratorExit:
            LOG.append('exit')
            «raise¦return 5¦pass¦yield 7»
        finally:
            LOG.append(len(got))
@any:g = echo(<«tensor¦int»>)
try:
    LOG.append(next($:g))
    LOG.append($:g.send(«1¦'stop'¦None»))
    LOG.append($:g.throw(«Oops(2)¦Oops¦ValueError('v')¦Oops, 3»))
    LOG.append($:g.«close()¦send(3)¦gi_frame is None¦gi_running»)
except (StopIteration, ValueError, RuntimeError, TypeError) as e:
    LOG.append((type(e).__name__, str(e)))
«del $:g¦$:g = None¦LOG.append(list($:g)[:2] if False else 0)»

def sub(n):
    try:
        a = yield n
        LOG.append(('sub got', a))
        b = yield n + 1
        return (a, b)
    except Oops as e:
        LOG.append('sub caught')
        «return 'ret'¦yield 'again'¦raise¦raise ValueError('sub')»
    finally:
        LOG.append('sub fin')
def deleg(n):
    r = yield from «sub(n)¦iter([n, n])¦(q for q in (n, n))¦It2(n)»
    LOG.append(('deleg', r))
    yield r
class It2:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self): self.n += 1; return self.n
    def send(self, v): LOG.append(('send', v)); return v
    «def throw(self, *a): LOG.append('thrown'); raise StopIteration(3)¦def close(self): LOG.append('it closed')»
@any:g = deleg(<int>)
try:
    LOG.append(next($:g))
    LOG.append($:g.send(«'s'¦None»))
    LOG.append($:g.throw(Oops('t')))
    LOG.append(next($:g))
    $:g.close()
except Exception as e:
    LOG.append((type(e).__name__, str(e), type(e.__context__).__name__))

@any:g = (v «+ 1¦* <int>» for v in «<list>¦range(3)¦$list» if «v¦v > 1¦<bool>»)
<block>
LOG.append((next($:g, 'end'), «sum($:g)¦list($:g)¦3 in $:g¦max($:g, default=0)¦tuple($:g)¦any($:g)», next($:g, 'end2')))

def gen_ret():
    «return 1¦yield 1¦x = yield¦yield from ()»
    yield 2
    return 'r'
def drive(g):
    out = []
    try:
        while True: out.append(next(g))
    except StopIteration as e:
        out.append(('stop', e.value))
    return out
LOG.append(drive(gen_ret()))

def raises_in_gen():
    yield 1
    «raise StopIteration¦raise Oops('g')¦next(iter([]))¦1 / 0¦$tensor.view(3)»
try:
    LOG.append(«list(raises_in_gen())¦[v for v in raises_in_gen()]¦dict.fromkeys(raises_in_gen())¦sum(raises_in_gen())¦(*raises_in_gen(),)¦set(raises_in_gen())»)
except Exception as e:
    LOG.append((type(e).__name__, str(e), type(e.__cause__).__name__))

@contextlib.contextmanager
def cm(k):
    LOG.append(('cm', k))
    try:
        yield k
    except «ValueError¦Exception¦Oops» as e:
        LOG.append(('cm caught', str(e)))
        «raise¦pass¦raise KeyError('new')¦return»
    finally:
        LOG.append('cm fin')
try:
    with cm(<int>) as a, cm(2) as b:
        <block>
        «raise ValueError('v')¦raise Oops('o')¦pass¦1 / 0¦$tensor.expand(3)¦assert False, 'no'»
    LOG.append('past')
except Exception as e:
    LOG.append((type(e).__name__, type(e.__context__).__name__))

def with_ret(k):
    for i in range(3):
        with noted(str(i)) as w, Note('n', True):
            if i == k: «return w¦break¦continue¦raise Oops('w')»
            LOG.append(i)
    return 'done'
LOG.append(with_ret(<int>))

def stack_of(k):
    with contextlib.ExitStack() as st:
        st.enter_context(noted('a'))
        st.callback(LOG.append, 'cb')
        st.push(lambda *e: LOG.append(e[0] and e[0].__name__) or «True¦False»)
        if k > 1: raise Oops('st')
        «moved = st.pop_all(); moved.close()¦st.close()¦return 1¦pass»
    return 2
try:
    LOG.append(stack_of(<int>))
except Oops:
    LOG.append('oops')

match <any>:
    case «int(v)¦float() | int()¦bool()» «if <bool>¦» :
        LOG.append('num')
        <block>
    case [] | ():
        LOG.append('empty')
    case [first, *_, last] if first is not last:
        LOG.append((first, last))
    case [(v, w)] | [[v], w]:
        LOG.append((v, w))
    case {'a': v} | {'b': v}:
        LOG.append(v)
        <block>
    case {}:
        LOG.append('dict')
    case str(v) | bytes(v):
        LOG.append(len(v))
    case torch.Tensor(shape=sh):
        LOG.append(sh)
    case Point(a=1 as p) | Point(b=p):
        LOG.append(p)
    case Color.RED | None:
        LOG.append('const')
    case type():
        LOG.append('type')
    case other:
        LOG.append(type(other).__name__)

match ($int, <any>, $str):
    case (0 | 1 as k, _, str() as z):
        LOG.append((k, z))
    case (k, [*rest], z) if (kk := k) > 1:
        LOG.append((kk, rest))
    case (k, dict() as dd, _):
        LOG.append(sorted(map(str, dd)))
    case (-1, *rest):
        LOG.append(len(rest))
    case _:
        <block>

if («(w := <int>) > 1 and (z := w)¦(w := 0) or (z := <int>)¦not (z := (w := <int>))»):
    LOG.append((w, z if w else 0))
while (w := «w - 1¦<int> - 5» if (w := w if 'w' in dir() else 2) else 0) > 0:
    LOG.append(w)
    break

@list = [y for v in <list> if (y := «v¦str(v)¦[v]»)]
@any = [[(i, j, last := j) for j in range(i)] for i in range(«2¦3»)]
@any:d = {k: v for k, v in zip(«'abca'¦<list>», itertools.count(<int>))}
@any:s = {i % 2 for i in <list> if isinstance(i, int)}
LOG.append(($:d, $:s, [lam() for lam in [lambda: i for i in range(2)]], [(lambda i=i: i)() for i in range(2)]))

@any:c = contextvars.ContextVar('cv', «default=1¦default=None»)
@any:k = $:c.set(<int>)
def in_ctx(): $:c.set(«7¦<int>»); return $:c.get()
@any:x = contextvars.copy_context()
LOG.append(($:x.run(in_ctx), $:c.get(), $:x[$:c]))
$:c.reset($:k)
LOG.append($:c.get())

async def co(v):
    «await co2(v)¦r = await co2(v); LOG.append(r)¦async with ac(v) as q: LOG.append(q)¦LOG.append([q async for q in ag(v)])¦raise Oops('co')¦pass»
    return v «+ 1¦»
async def co2(v): LOG.append('co2'); return v
async def ag(v):
    for i in range(2): yield i
@contextlib.asynccontextmanager
async def ac(v):
    LOG.append('ac in')
    try: yield v
    finally: LOG.append('ac out')
@any:c = co(<«int¦tensor»>)
try:
    while True: LOG.append($:c.send(None))
except StopIteration as e:
    LOG.append(e.value)
except Oops as e:
    LOG.append(e.args)

def rec_fn(n, t): return t if n <= 0 else rec_fn(n - 1, t + n)
@tensor = rec_fn(«3¦<int> % 6¦12», $tensor)

def deco_args(*da, **dk):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*a, **k):
            LOG.append((fn.__name__, da))
            r = fn(*a, **{**dk, **k})
            return r
        return inner
    return wrap
@deco_args(<int>, k=<int>)
@deco_args('two')
def decorated2(t, k=0): return t + k
LOG.append((decorated2(<tensor>), decorated2.__name__, decorated2.__wrapped__.__name__, decorated2(1, k=5)))

try:
    a, b = <list>
    LOG.append((a, b))
except ValueError as e:
    LOG.append(str(e))
(*h, t2), [u, *_] = (1, <int>, 3), [<tensor>, 2]
LOG.append((h, t2))

for @any in (iter_ := iter(<list>)):
    LOG.append(next(iter_, 'over'))
    <loop>

try:
    raise «Oops¦Oops('m')¦KeyError('k')¦OSError(2, 'no')¦UnicodeDecodeError('utf8', b'x', 0, 1, 'r')¦StopIteration(3)¦SystemExit(1)¦AttributeError('a', name='n', obj=1)¦ImportError('i', name='m')¦Exception(1, 2)»
except BaseException as e:
    LOG.append((type(e).__name__, str(e), repr(e), e.args, e.__traceback__ is not None, getattr(e, 'errno', 0), getattr(e, 'name', 0)))
    «e.extra = 1¦LOG.append(e.with_traceback(None) is e)¦LOG.append(sys.exc_info()[1] is e)¦e.args = (5,)»
try:
    e
except NameError as n2:
    LOG.append(str(n2))
"""

VALUES = """
LOG.append((f"{<int>:«>5¦<4d¦^7¦+d¦#x¦08b¦,¦_¦e¦%¦c»}", f"{<float>:«.2f¦8.3¦+e¦g¦%¦010.1f¦,.2f»}", f"{$str:«>4¦*^6¦.1¦s»}", f"{<int>!r:>4}", f"{$str!a}", f"{<int>=}"))

@any:b = «b'abc'¦bytearray(b'abc')¦memoryview(b'abc')¦b'\\xff\\x00'»
try:
    LOG.append(«($:b[0], bytes($:b[::-1]))¦$:b.hex()¦$:b.decode()¦bytes($:b) + b'd'¦$:b.find(b'c')¦list($:b)¦$:b.translate(None, b'a')¦$:b == b'abc'¦int.from_bytes($:b, 'big')¦$:b * 2¦b'b' in $:b¦$:b.split(b'b')¦$:b.upper()»)
    $:b[0] = «65¦300¦b'x'»
    LOG.append(bytes($:b))
except Exception as e:
    LOG.append((type(e).__name__, str(e)))

@str:s = «'Hello World'¦'a,b,,c'¦'  x\\ty\\n'¦'ßÄı'¦'123'¦''¦$str¦'aXbXc'»
LOG.append(«($:s.partition(','), $:s.rpartition('X'))¦$:s.split(«¦','¦None, 1¦'X', 1»)¦$:s.title()¦$:s.swapcase()¦$:s.casefold()¦$:s.center(9, '*')¦$:s.zfill(5)¦$:s.expandtabs(4)¦$:s.splitlines()¦$:s.isdigit()¦$:s.encode('utf-8')¦$:s.translate({97: 'zz', 98: None})¦$:s.strip(«¦'abc'»)¦$:s.find('o', 3)¦$:s.count('')¦$:s.rsplit(None, 1)¦$:s.removeprefix('a')¦$:s.ljust(3) + '|'¦$:s[«::2¦-3:¦:0¦1:-1»]¦$:s.replace('', '-', 2)¦sorted($:s)¦max($:s, default='')¦$:s.isidentifier()¦$:s < 'b'¦[*map(ord, $:s)]¦$:s % ()¦$:s.format(1)¦$:s.endswith(('c', 'd'))¦$:s.maketrans('a', 'b')»)

try:
    LOG.append(«2 ** 100 % 97¦-7 // 2¦-7 % 3¦divmod(-7, 2)¦7 // -2¦2 ** -1¦0 ** 0¦1 << 70¦-1 >> 3¦~5¦5 & -2¦(1 << 64) ^ 3¦int('0x1f', 16)¦int('z', 36)¦int(' 12 ')¦int('1_0')¦10 ** 20 // 3¦pow(3, -1, 7)¦pow(2, 5, <int>)¦(255).to_bytes(2, 'little')¦(10).bit_length()¦(7).bit_count()¦int(1e20)¦int(float('inf'))¦1 / <int>¦<int> % 0¦1 << -1¦hash(2 ** 61 - 1)¦hash(-1)¦True + True¦round(2.5)¦round(-1.5)¦round(1234, -2)¦float('nan') == float('nan')¦float('1e400')¦-0.0¦0.1 + 0.2¦1e16 + 1¦float.fromhex('0x1p-2')¦(0.5).as_integer_ratio()¦(1.5).is_integer()¦math.isclose(0.1 + 0.2, 0.3)¦math.fsum([0.1] * 10)¦math.copysign(1, -0.0)¦math.gcd(12, 18)¦math.comb(5, 2)¦math.isqrt(17)¦math.log2(8)¦math.nan in [math.nan]¦min(float('nan'), 1)¦complex(1, 2) * 1j¦(1+2j).conjugate()¦abs(3+4j)¦complex('1+2j')¦0j == 0¦1.0 .hex()¦1 == 1.0 == True¦{1: 'a', 1.0: 'b', True: 'c'}¦{0.0: 1, -0.0: 2}¦10 ** 400 > float('inf')¦1e308 * 10¦float('inf') - float('inf')¦math.floor(-0.5)¦math.trunc(-1.7)¦math.fmod(-7, 3)¦-7.5 % 2¦7.5 // -2¦(-8) ** (1/3)¦int.__add__(1, 2.0)¦(3).__truediv__(2)¦sum([0.1] * 3)¦sum([], <int>)¦sum([[1], [2]], [])¦math.prod([])¦max(1, 2.0, True)¦min([3, 1], key=lambda v: -v)¦sorted([True, 0, 2.5, -1])¦bin(-5)¦oct(8)¦hex(255)¦chr(8364)¦ord('é')¦ascii('é')¦int('1' * 5000) > 0»)
except Exception as e:
    LOG.append((type(e).__name__, str(e)))

@any:d = {k: i for i, k in enumerate('badc')}
$:d[«'a'¦'z'»] = <int>
«del $:d['b']¦$:d.pop('c')¦$:d.popitem()¦$:d['b'] = $:d.pop('b')¦$:d.update({'e': 1, 'a': 2})¦$:d |= {'q': 0}¦$:d.setdefault('x', [])¦$:d = dict(sorted($:d.items()))»
LOG.append((list($:d), list(reversed($:d)), list($:d.items()), $:d.keys() & {'a', 'z'}, $:d.keys() - {'a'}, 'a' in $:d.keys(), ('a', 0) in $:d.items(), len($:d.values()), $:d.keys() == {'a'}, $:d.keys().isdisjoint(['q']), str($:d.values())))

@any:d = {'a': 1, 'b': 2, 'c': 3}
@any:v = $:d.«keys¦values¦items»()
try:
    for @any:k in «$:d¦$:v¦reversed($:d)¦list($:d)¦enumerate($:d)¦zip($:d, $:v)»:
        LOG.append($:k)
        «$:d['new'] = 1¦del $:d['b']¦$:d['a'] = 5¦$:d.clear()¦$:d.pop('c', None)¦$:d.update(z=1)¦$:d['b'] = $:d.pop('b')»
        if len(LOG) > 60: break
except (RuntimeError, KeyError) as e:
    LOG.append(str(e))
LOG.append((list($:v), $:d))

@any:l = [«1, 2, 3, 4¦<int>, 2¦»]
try:
    for @any:k in «$:l¦reversed($:l)¦enumerate($:l)¦iter($:l)¦zip($:l, $:l)¦filter(None, $:l)¦map(str, $:l)»:
        LOG.append($:k)
        «$:l.pop()¦$:l.insert(0, 0) if len($:l) < 7 else None¦$:l.remove(2)¦$:l.clear()¦del $:l[0]¦$:l[:] = $:l[::-1]¦$:l.append(1) if len($:l) < 6 else None¦$:l[-1:] = []»
        if len(LOG) > 60: break
except (RuntimeError, ValueError, IndexError) as e:
    LOG.append(str(e))
LOG.append($:l)

@any:s = {«1, 2, 3¦<int>, 5¦*<list>»}
try:
    for @any:k in «$:s¦sorted($:s)¦$:s | {9}¦$:s.copy()»:
        LOG.append($:k)
        «$:s.add(40)¦$:s.discard(2)¦$:s.clear()¦$:s.add(1)¦$:s.update([1])¦$:s.pop()»
        if len(LOG) > 60: break
except (RuntimeError, KeyError) as e:
    LOG.append(str(e))
LOG.append((sorted($:s), $:s <= {1, 2, 40}, $:s ^ {1}, $:s.isdisjoint({7}), frozenset($:s) == $:s, $:s.«union([1], [2])¦difference([1])¦intersection([1, 2])¦symmetric_difference([3])»))

@list:l = [«3, 1, 2¦<int>, -1, 0¦»]
try:
    $:l.sort(key=«None¦lambda v: -v¦str¦lambda v: LOG.append(v) or v % 2¦functools.cmp_to_key(lambda a, b: b - a)¦lambda v: $:l.append(1)¦operator.neg¦{}.get¦lambda v: (v % 2, v)», reverse=«True¦False¦1»)
    LOG.append(($:l, sorted($:l, key=lambda v: v % 2), $:l.index(«3¦1»), heapq.nsmallest(2, $:l), bisect.bisect(sorted($:l), 1)))
except Exception as e:
    LOG.append((type(e).__name__, str(e)))
$:l[«1:2¦::2¦:0¦5:¦-1:»] = «[7]¦[7, 8]¦()¦'ab'» if «False¦len($:l) == 3» else $:l[:0]
LOG.append($:l)

LOG.append((list(itertools.«product([1, 2], 'a')¦permutations([1, 2])¦combinations(range(3), 2)¦zip_longest([1], [2, 3], fillvalue=0)¦takewhile(lambda v: v < 2, <list>)¦dropwhile(lambda v: v < 2, [1, 3, 1])¦groupby('aab')¦starmap(pow, [(2, 3)])¦compress('abc', [1, 0, 1])¦pairwise(<list>)¦accumulate([1, 2, 3], operator.mul)¦accumulate([1, 2], initial=5)¦chain.from_iterable([[1], <list>])¦islice(itertools.count(<int>), 1, 6, 2)¦repeat(1, 2)¦filterfalse(None, [0, 1])¦islice(itertools.cycle('ab'), 3)¦combinations_with_replacement('ab', 2)»)),))

@any:a, @any:b = itertools.tee(«iter(<list>)¦gen(3)¦map(str, [1, 2])»)
LOG.append((next($:a, 0), list($:b), list($:a)))

LOG.append([(k, list(g)) for k, g in itertools.groupby(«[1, 1, 2, 1]¦'aabba'¦sorted(<list>, key=str)», key=«None¦lambda v: v¦str¦type»)])

@any:c = collections.Counter(«'abca'¦[1, 1]¦a=2, b=1¦{}»)
$:c.«update('aa')¦subtract('ab')¦update(a=3)¦__setitem__('q', -1)»
LOG.append(($:c.most_common(2), $:c['zz'], sorted(map(str, $:c.elements())), +$:c, $:c «+¦-¦&¦|» collections.Counter('ab'), $:c.total(), dict($:c)))

@any:q = collections.deque(«[1, 2, 3]¦'ab', 2¦[], maxlen=«2¦0»¦range(4), maxlen=3»)
try:
    $:q.«append(<int>)¦appendleft(9)¦rotate(1)¦extendleft([7, 8])¦pop()¦popleft()¦insert(1, 5)¦reverse()¦remove(2)¦extend($:q)»
    LOG.append(($:q, $:q.maxlen, len($:q), $:q[«0¦-1¦1»], 2 in $:q, $:q == collections.deque([1]), $:q + $:q, list(reversed($:q)), $:q.copy()))
    for @any:k in $:q: «$:q.append(1)¦LOG.append($:k)¦$:q[0] = 4»
except (IndexError, RuntimeError, ValueError) as e:
    LOG.append(str(e))

@any:o = collections.OrderedDict(a=1, b=<int>, c=3)
$:o.«move_to_end('a')¦move_to_end('c', last=False)¦popitem(last=False)¦popitem()¦update(z=1)¦pop('b')¦__setitem__('a', 9)»
LOG.append(($:o, list(reversed($:o)), $:o == dict($:o), $:o == collections.OrderedDict(reversed(list($:o.items()))), $:o | {'n': 1}))

@any:d = collections.defaultdict(«list¦int¦lambda: <int>¦None¦collections.Counter», «{}¦{'a': 1}»)
try:
    $:d['k'] «+= [1]¦+= 1¦= 2»
    $:d['m']
    LOG.append(($:d, $:d.get('x'), 'x' in $:d, $:d.default_factory is None, $:d.copy(), $:d | {'t': 1}))
except (KeyError, TypeError) as e:
    LOG.append((type(e).__name__, str(e)))

@any:m = collections.ChainMap({'a': 1}, {'a': 2, 'b': <int>})
$:m['«a¦c»'] = 5
try:
    LOG.append((dict($:m), list($:m), $:m.maps, $:m.new_child({'b': 0})['b'], $:m.parents['a'], $:m.pop('«a¦b»')))
except KeyError as e:
    LOG.append(str(e))

Np = collections.namedtuple('Np', «'a b c'¦['a', 'b', 'c']», defaults=[<int>])
@any:p = Np(1, <tensor>)
LOG.append(($:p, $:p._fields, $:p._asdict(), $:p._replace(a=5), $:p[0], Np._make([1, 2, 3]), Np.__doc__, «$:p._replace(c=1)¦Np(*[1, 2])¦$:p == (1, 2)¦$:p + (1,)¦Np(b=1, a=2)¦len($:p)» if $:p.a else 0))
class Tn(typing.NamedTuple):
    u: int
    v: object = <int>
    def s(self): return self.u
LOG.append((Tn(1), Tn(1).s(), Tn(2, v=3)._asdict(), Tn.__annotations__))

@any:o = «[1, [2, <tensor>]]¦{'a': [1], 'b': <tensor>}¦Base(<tensor>, 1)¦Record(<tensor>, [1])¦(1, [2])¦collections.deque([[1]])¦Point([1], 2)¦types.SimpleNamespace(a=[1])¦{1, 2}»
@any:c = copy.«copy¦deepcopy»($:o)
LOG.append((type($:c).__name__, $:c is $:o, «$:c¦vars($:c) if hasattr($:c, '__dict__') else 0»))
@any:l = [1]
$:l.append($:l)
@any:k = copy.«copy¦deepcopy»($:l)
LOG.append(($:k[1] is $:k, len($:k), repr($:l)))

LOG.append((pickle.loads(pickle.dumps(«[1, <int>]¦{'a': (1, None)}¦<str>¦Point(1, 2)¦Color.RED¦Oops('p')¦2 ** 70¦{1, 2}¦slice(1, 2)¦b'x'¦<float>»)), json.dumps(«[1, None, True]¦{'a': <int>}¦<str>», sort_keys=True), json.loads('{"k": [1, 2.5]}'), re.findall(r'[a-z]+', 'ab1cd'), re.sub('a', lambda m: m[0] * 2, $str), struct.pack('<i', 7)))

@any:p = functools.partial(«pos2, 1¦pos2, b=2¦max, key=lambda v: -v¦int, base=2¦torch.add, alpha=<int>¦functools.partial(pos2, 1), c=2»)
try:
    LOG.append(«$:p(2)¦$:p('101')¦$:p(1, 2)¦$:p($tensor, $tensor)¦$:p(c=5)¦($:p.args, sorted($:p.keywords))¦$:p.func.__name__¦repr($:p)[:17]»)
except (TypeError, ValueError) as e:
    LOG.append((type(e).__name__, str(e)))

LOG.append((functools.reduce(«operator.add¦lambda a, b: a * 2 + b¦max», <list> + [1]«, 5¦»), list(map(«lambda a, b: (a, b)¦operator.add¦max», [1, 2], [3, 4, 5])), list(zip(*[(1, 2), (3, 4)])), any(v > 1 for v in <list>), all([]), list(filter(«None¦lambda v: v != 1», <list>)), sorted({3: 1, 1: 2}), min(<list> + [9]), sum(<list>), list(zip([1], [2], strict=True)), operator.itemgetter(1, 0)([5, 6]), operator.attrgetter('a')(Point(1, 2)), operator.methodcaller('count', 1)([1, 1])))

try:
    LOG.append(«list(zip([1], [], strict=True))¦[1][5]¦{}['k']¦(1).x¦None.a¦[].pop()¦int('q')¦{}.popitem()¦[] + ()¦'a' + 1¦{[]: 1}¦len(5)¦iter(5)¦next(iter(()))¦range(1.5)¦[1, 2].index(3)¦'a'.index('z')¦(1, 2).index(3)¦[3, 'a'].sort()¦sorted([1, None])¦max([])¦max(1, 'a')¦sum(['a'])¦chr(-1)¦ord('ab')¦'%d' % 'x'¦'{} {1}'.format(1, 2)¦'{a}'.format()¦f'{1:zz}'¦f'{None:>4}'¦int(None)¦float([])¦bool(NotImplemented)¦abs('a')¦-'a'¦not_defined¦del_me¦type('X', (int, str), {})¦type('Y', (1,), {})¦isinstance(1, 2)¦super().x¦getattr(1, 2)¦setattr(1, 'a', 2)¦object().z¦object() < 1¦1 @ 2¦[1] * 'a'¦(lambda a: a)()¦(lambda a: a)(1, 2)¦(lambda *, k: k)(1)¦print(sep=1)¦open¦__import__('nope_')¦eval('1 +')¦dict([1])¦dict([(1, 2, 3)])¦dict(1)¦set([[]])¦[*1]¦{**1}¦memoryview(1)¦bytes(-1)¦slice(1)(2)¦round('a')¦divmod(1, 0)¦1 % 0.0¦0.0 ** -1¦math.sqrt(-1)¦math.log(0)¦math.factorial(-1)¦b'a' + 'a'¦b'a'['x']¦frozenset([1]).add(2)¦(1,).append(1)¦range(3).x¦iter([1]).send(1)»)
except Exception as e:
    LOG.append((type(e).__name__, str(e), e.args))

@any:r = range(«5¦1, 9, 3¦5, 0, -2¦0¦<int>»)
LOG.append(($:r, len($:r), list($:r[«::-1¦1:¦:2»]), 4 in $:r, $:r == range(5), $:r.start, $:r.step, list(reversed($:r)), $:r.count(1), hash($:r) == hash(range(5)), $:r and $:r[-1]))

@any:s = slice(«1, None¦None, None, -1¦0, 10, 3¦-2, None»)
LOG.append(($:s, $:s.indices(5), [1, 2, 3, 4][$:s], 'abcd'[$:s], $:s.start, $:s == slice(1, None), $tensor[$:s] if ($:s.step or 1) > 0 else 0))

LOG.append((type(<any>).__name__, callable(<any>), isinstance(<any>, («int, str¦list¦torch.Tensor¦collections.abc.Iterable¦collections.abc.Hashable¦typing.Sized»)), issubclass(bool, int), type(<any>) is type(<any>), id($any) == id($any), <any> is None))

@any:ns = types.SimpleNamespace(a=<int>, b=<tensor>)
$:ns.c = «[1]¦<tensor>¦None»
LOG.append((sorted(vars($:ns)), $:ns.a, $:ns == types.SimpleNamespace(), hasattr($:ns, 'd'), repr(types.SimpleNamespace(a=1))))
del $:ns.«a¦b¦c»
LOG.append(sorted($:ns.__dict__))

@any:w = warnings.catch_warnings(record=True)
with $:w as caught:
    warnings.simplefilter('always')
    warnings.warn(«'w'¦DeprecationWarning('d')¦'u', UserWarning, stacklevel=1»)
    LOG.append([(str(m.message), m.category.__name__) for m in caught])
"""

TENSORS = """
@tensor:v = $tensor.«view(-1)¦detach()¦reshape(-1)¦expand_as($tensor)¦clone()¦data¦contiguous()¦unsqueeze(0)[0]¦T¦narrow(0, 0, 1)¦as_strided((2,), (1,))¦view_as($tensor)¦swapaxes(0, -1)¦diagonal() if $tensor.dim() > 1 else $tensor¦real»
$:v.«add_(<int>)¦mul_(2)¦zero_()¦copy_($tensor)¦neg_()¦fill_(<number>)¦clamp_(min=0)¦sub_(0.5)¦relu_()¦abs_()»
LOG.append(($:v._version, $:v._is_view(), $:v.storage_offset(), $:v.stride()))

try:
    @tensor = «torch.add($tensor, 1, out=BUF)¦torch.mul($tensor, $tensor, out=torch.empty(0))¦torch.cat([$tensor, $tensor], out=torch.empty(8))¦torch.sum($tensor, 0, out=torch.empty(()))¦torch.stack([$tensor, BUF], out=torch.empty(2, 4))¦torch.abs($tensor, out=$tensor)¦torch.arange(4, out=torch.empty(4))¦torch.add($tensor, 1, out=torch.empty(4, dtype=torch.float64))¦torch.matmul($tensor, torch.eye(4), out=BUF)¦torch.max($tensor, 0, out=(torch.empty(()), torch.empty((), dtype=torch.long)))[0]¦torch.where($tensor > 0, $tensor, BUF, out=BUF)¦torch.sort($tensor, out=(torch.empty(4), torch.empty(4, dtype=torch.long)))[0]¦torch.clamp($tensor, 0, 1, out=BUF[:])¦torch.zeros(4, out=BUF)»
    LOG.append(BUF)
except (RuntimeError, TypeError, IndexError) as e:
    LOG.append((type(e).__name__, str(e).split('\\n')[0]))

@any:a = torch.tensor(«[1, 2]¦[1.5, 2]¦True¦3¦[[1], [2]]¦2.5¦[]¦[1 + 2j]», «dtype=torch.int8¦dtype=torch.float16¦dtype=torch.bool¦»)
@any:b = torch.ones(2, dtype=torch.«int32¦uint8¦float64¦bool¦bfloat16¦complex64¦int64»)
try:
    LOG.append((($:a «+¦*¦-¦/¦//¦%¦**¦>¦==¦&» «$:b¦1¦1.5¦True¦1j¦$:b[0]»).dtype, torch.result_type($:a, $:b), torch.promote_types($:a.dtype, $:b.dtype), torch.can_cast($:a.dtype, $:b.dtype)))
    $:b «+=¦*=¦-=¦/=» «$:a¦1.5¦2¦True»
    LOG.append($:b.dtype)
except (RuntimeError, TypeError) as e:
    LOG.append((type(e).__name__, str(e).split('\\n')[0]))

@tensor:p = $tensor.detach().clone().float().requires_grad_()
@any:h = $:p.register_hook(lambda g: «LOG.append(('hook', g.sum().item()))¦g * 2¦None»)
@tensor:q = ($:p * «2¦$:p¦<int>»)
$:q.«register_hook(lambda g: LOG.append('q'))¦retain_grad()¦requires_grad_(True)¦detach()¦size()»
«$:h.remove()¦pass»
$:q.sum().backward(«¦retain_graph=True¦torch.tensor(2.0)»)
LOG.append(($:p.grad, $:q.requires_grad, $:p.is_leaf, $:q.is_leaf, type($:q.grad_fn).__name__))

@tensor:p = $tensor.detach().clone().float()
$:p.requires_grad_(«True¦False»)
with torch.«no_grad()¦enable_grad()¦inference_mode()¦set_grad_enabled(«True¦False»)¦inference_mode(False)»:
    @tensor:q = $:p * <int>
    LOG.append(($:q.requires_grad, $:q.is_inference(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
    try:
        $:p.«add_(1)¦mul_($:q)¦detach_()¦zero_()¦requires_grad_()»
    except RuntimeError as e:
        LOG.append(str(e).split('\\n')[0])
try:
    «$:q.add_(1)¦($:q * $:p).sum().backward()¦$:q.detach_()¦LOG.append(($:q + 1).requires_grad)¦$:q.requires_grad_()»
    LOG.append(($:p.requires_grad, $:q.grad_fn is None))
except RuntimeError as e:
    LOG.append(str(e).split('\\n')[0])

@tensor:b = torch.arange(«4.0¦6.0»)
@tensor:v = $:b[«:2¦1:3¦::2¦...¦None, :»]
try:
    «$:b.resize_(2, 3)¦$:b.set_(torch.ones(3))¦$:b.data = torch.zeros(2)¦$:b.resize_(2)¦$:b.t_()¦$:b.squeeze_()¦$:b.unsqueeze_(0)¦$:b.swapaxes_(0, 0)¦$:b.resize_as_(torch.ones(2, 2))¦$:b.transpose_(0, -1)¦$:b.as_strided_((2,), (2,))»
    $:v.«add_(10)¦fill_(3)¦mul_(2)»
    LOG.append(($:b, $:b.shape, $:b.stride(), $:v, $:v.shape))
except RuntimeError as e:
    LOG.append(str(e).split('\\n')[0])

torch.manual_seed(<int>)
LOG.append(torch.«rand(2)¦randn(2)¦randint(0, 9, (3,))¦randperm(4)¦bernoulli(torch.full((3,), 0.5))¦multinomial(torch.ones(4), 2)¦normal(0.0, 1.0, (2,))¦rand_like(torch.ones(2))¦empty(2).uniform_(0, 1)¦empty(2).normal_()¦empty(2).exponential_()¦randint_like(torch.ones(2), 5)¦poisson(torch.ones(2))»)
@any:g = torch.Generator().manual_seed(3)
LOG.append((torch.rand(1, generator=$:g), torch.initial_seed(), torch.get_rng_state().sum().item(), random.Random(<int>).random()))

class Sub(torch.Tensor):
    «@classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        LOG.append(f.__name__)
        return super().__torch_function__(f, types, args, kwargs or {})¦tag = 1¦def extra(self): return self + 1»
@any:s = «$tensor.detach().as_subclass(Sub)¦torch.Tensor._make_subclass(Sub, $tensor.detach())»
LOG.append((type($:s + 1).__name__, type($:s.«sum()¦view(-1)¦clone()¦detach()»).__name__, isinstance($:s, Sub), ($:s * 2).as_subclass(torch.Tensor), type(torch.«add¦mul¦maximum»($:s, $tensor)).__name__))

class Mod(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4))
        self.register_buffer('b', torch.zeros(4), persistent=«True¦False»)
        self.sub = torch.nn.«Linear(4, 4, bias=False)¦Identity()¦ReLU()¦Dropout(0.5)¦Sequential(torch.nn.ReLU())¦ModuleList([torch.nn.ReLU()])¦ParameterList([torch.ones(1)])¦Flatten(0)»
        torch.nn.init.«constant_(self.w, 0.5)¦zeros_(self.w)¦ones_(self.w)»
    def forward(self, t):
        self.b.add_(1)
        «self.n = getattr(self, 'n', 0) + 1¦self.b = self.b * 2¦self.w.data.mul_(2)¦self.seen = t.shape»
        return t * self.w + self.b
@any:m = Mod()
«$:m.eval()¦$:m.register_forward_hook(lambda m, a, o: «o * 2¦LOG.append('fh')»)¦$:m.register_forward_pre_hook(lambda m, a: «(a[0] + 1,)¦LOG.append('pre')»)¦$:m.requires_grad_(False)¦$:m.register_full_backward_hook(lambda m, gi, go: LOG.append('bh'))¦$:m.half()¦$:m.double()¦del $:m.sub¦$:m.extra = torch.nn.ReLU()¦$:m.b = torch.ones(4)¦$:m.apply(lambda k: LOG.append(type(k).__name__))¦$:m.register_parameter('z', None)¦$:m.w.requires_grad_(False)»
try:
    @tensor:r = $:m($tensor)
    LOG.append(($:r.dtype, $:m.b, sorted($:m.state_dict()), [n for n, _ in $:m.named_modules()], [n for n, _ in $:m.named_parameters()], $:m.training, sorted($:m._buffers)))
    «$:r.sum().backward()¦$:m.load_state_dict({k: v * 0 for k, v in $:m.state_dict().items()})¦$:m.zero_grad()¦setattr($:m, 'w', torch.nn.Parameter(torch.zeros(4)))¦$:m.w = None¦$:m.to(torch.float64)¦$:m.train()¦$:m.load_state_dict({}, strict=False)¦$:m.w = $tensor¦del $:m.b»
    LOG.append(($:m.w, $:m($tensor.detach())))
except Exception as e:
    LOG.append((type(e).__name__, str(e).split('\\n')[0]))

class Par(torch.nn.Module):
    def forward(self, w): return «w * 2¦w.triu()¦w.abs()¦w + w.T»
    «def right_inverse(self, w): return w / 2¦pass»
@any:m = torch.nn.Linear(4, 4)
with torch.no_grad(): $:m.weight.copy_(torch.eye(4)); $:m.bias.zero_()
«torch.nn.utils.parametrize.register_parametrization($:m, 'weight', Par())¦torch.nn.utils.parametrizations.weight_norm($:m)¦torch.nn.utils.parametrizations.orthogonal($:m) and None¦pass»
LOG.append(($:m($tensor.float()).round(decimals=3), sorted(n for n, _ in $:m.named_parameters()), torch.nn.utils.parametrize.is_parametrized($:m)))

try:
    @tensor = torch.einsum(«'i,i->i', $tensor, $tensor¦'i,j->ij', $tensor, $tensor¦'ij->ji', torch.eye(4)¦'...i->...', $tensor¦'ij,j', torch.eye(4), $tensor¦'i->', $tensor¦'ii', torch.eye(3)¦'bij,bjk->bik', torch.ones(1, 2, 3), torch.ones(1, 3, 2)¦'i,i', $tensor, torch.ones(3)¦'i', $tensor, $tensor»)
except RuntimeError as e:
    LOG.append(str(e).split('\\n')[0])

@tensor:a = torch.arange(12.0).view(3, 4)
try:
    LOG.append($:a[«1¦-1¦:, 1¦..., 0¦None¦[0, 2]¦[0, 2], [1, 3]¦torch.tensor([1, 0])¦$:a > 5¦:, [True, False, True, False]¦torch.tensor([[0], [1]]), torch.tensor([0, 1])¦1:, ::2¦(0, 1)¦:, None, 1¦True¦False¦torch.tensor(1)¦torch.tensor(True)¦[]¦..., [0], None¦np.array([0, 1])¦slice(1, 2)¦5¦0, 0, 0¦[5]¦'a'¦1.5¦[True, False]¦range(2)¦torch.tensor([-1, -3])¦([0, 1],)¦[[0, 1]]¦[slice(0, 1)]»])
    $:a[«1¦:, 1¦[0, 2]¦$:a > 5¦..., 0¦1:, ::2¦torch.tensor([0, 0])¦None¦:, [0, 1]¦5¦True¦[0], [1]»] «= 7¦+= 1¦= torch.zeros(1)¦= $tensor.sum()¦*= 2¦= torch.ones(4)¦= True¦= torch.ones(7)»
    LOG.append($:a)
except (IndexError, RuntimeError, TypeError, ValueError) as e:
    LOG.append((type(e).__name__, str(e).split('\\n')[0]))

@any:n = $tensor.detach().«numpy()¦cpu().numpy()¦clone().numpy()¦__array__()»
try:
    $:n «+= 1¦[0] = 5¦*= 2¦= $:n + np.float32(1)¦= np.«exp¦abs¦cumsum¦sort¦flip»($:n)¦= $:n.reshape(-1)¦= $:n[::-1]¦= $:n.astype(«'int64'¦np.float64¦bool»)»
    LOG.append(($:n, $:n.dtype, $:n.«sum()¦mean()¦shape¦max()¦tolist()¦argmax()», $tensor))
    @tensor = torch.«from_numpy($:n.copy())¦as_tensor($:n.copy())¦tensor($:n)»
    LOG.append(«np.add($:n, 1)¦$:n @ $:n¦np.where($:n > 0, $:n, 0)¦np.stack([$:n, $:n])¦np.allclose($:n, $:n)¦$:n == $:n¦np.zeros(2) + 1¦np.linspace(0, 1, 3)¦float($:n[0])¦np.concatenate([$:n, $:n])»)
except (TypeError, ValueError, RuntimeError, IndexError) as e:
    LOG.append((type(e).__name__, str(e).split('\\n')[0]))

class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, k):
        ctx.save_for_backward(«a¦a, a * 2¦»)
        ctx.k = k
        «ctx.mark_non_differentiable()¦ctx.set_materialize_grads(False)¦LOG.append('fwd')¦pass»
        return «a * k¦a.clone()¦(a + 1, a * k)¦a.view(-1)»
    @staticmethod
    def backward(ctx, *g):
        LOG.append(('bwd', len(g), len(ctx.saved_tensors)))
        return «g[0] * ctx.k¦g[-1]¦None¦torch.ones(4)», None
@tensor:p = $tensor.detach().clone().float().requires_grad_()
@any:r = Fn.apply($:p, <int>)
@any:r = $:r[0] if isinstance($:r, tuple) else $:r
try:
    ($:r * 2).sum().backward()
    LOG.append(($:p.grad, type($:r.grad_fn).__name__))
except RuntimeError as e:
    LOG.append(str(e).split('\\n')[0])

@tensor:p = torch.nn.Parameter($tensor.detach().clone().float())
@any:o = torch.optim.«SGD([$:p], lr=0.5)¦SGD([$:p], lr=0.5, momentum=0.5)¦SGD([$:p], lr=0.5, foreach=False, nesterov=True, momentum=0.5)»
for @int in range(2):
    $:o.zero_grad(«¦set_to_none=False»)
    ($:p * $:p).sum().backward()
    <loop>
    $:o.step(«¦lambda: ($:p * 2).sum()»)
LOG.append(($:p, sorted($:o.state_dict()), $:o.param_groups[0]['lr']))

@tensor:a = $tensor.detach().clone().float()
LOG.append([«$:a.sum()¦$:a.max(0)¦$:a.topk(1)¦$:a.sort(descending=True)[1]¦$:a.unique()¦$:a.cumsum(0)¦$:a.argmax()¦$:a.norm() > 0¦$:a.std() >= 0¦$:a.median()¦$:a.any()¦$:a.all()¦$:a.nonzero()¦$:a.prod()¦$:a.var(unbiased=False) >= 0¦$:a.logsumexp(0) > -100¦$:a.aminmax()¦$:a.count_nonzero()¦$:a.diff()¦$:a.kthvalue(1)¦$:a.mode()¦$:a.bincount() if False else 0¦$:a.histc(2)¦$:a.quantile(0.5)¦$:a.isnan()¦$:a.clip(0, 1)¦$:a.tril() if $:a.dim() > 1 else 0¦$:a.softmax(0).sum() > 0.9», $:a.shape, $:a.dtype, len($:a) if $:a.dim() else 0, $:a.numel(), $:a.element_size(), $:a.is_floating_point(), $:a.device.type, $:a.layout, $:a.ndim])

try:
    @tensor = torch.nn.functional.«pad($tensor, (1, 1))¦one_hot(torch.arange(3))¦softmax($tensor, 0)¦layer_norm($tensor, (4,))¦interpolate($tensor.view(1, 1, 4), scale_factor=2)¦cross_entropy($tensor.view(1, 4), torch.tensor([1]))¦embedding(torch.tensor([0, 1]), torch.eye(3))¦mse_loss($tensor, BUF)¦max_pool1d($tensor.view(1, 1, 4), 2)¦conv1d($tensor.view(1, 1, 4), torch.ones(1, 1, 2))¦gelu($tensor)¦normalize($tensor, dim=0)¦scaled_dot_product_attention(torch.ones(1, 2, 4), torch.ones(1, 2, 4), torch.ones(1, 2, 4))¦unfold($tensor.view(1, 1, 2, 2), 2)¦cosine_similarity($tensor, $tensor, dim=0)¦leaky_relu_($tensor.clone())¦threshold($tensor, 0.5, 0)¦glu($tensor)¦pixel_shuffle($tensor.view(1, 4, 1, 1), 2)¦batch_norm(torch.ones(2, 4), BUF, torch.ones(4), training=True)¦hardtanh($tensor)¦kl_div($tensor, $tensor)»
except (RuntimeError, TypeError, ValueError, IndexError) as e:
    LOG.append((type(e).__name__, str(e).split('\\n')[0]))

@tensors:l = [$tensor.clone() for _ in range(2)]
@tensor:s = torch.stack($:l)
for @int, @tensor:u in enumerate($:s«¦.unbind()¦.split(1)¦.chunk(2)»):
    $:u.«add_(1)¦mul_(2)¦zero_()¦abs()»
    <loop>
LOG.append(($:s, $:l[0] is $:l[1], torch.equal($:l[0], $:l[1]), $tensor in [$tensor], «$:l.index($:l[0])¦$:l == $:l¦($:s[0] == $:l[0]).all().item()»))

@any:k = {}
$:k[$tensor] = <int>
$:k[«BUF¦$tensor¦LIN.weight»] = 2
LOG.append((len($:k), $tensor in $:k, hash($tensor) == hash($tensor), id($tensor) == id($tensor), «$tensor is $tensor¦$tensor.data_ptr() == $tensor.detach().data_ptr()¦$tensor.is_set_to($tensor)¦$tensor.is_same_size(BUF)»))

$tensor.«foo = <int>¦tag = [1]¦name2 = $str¦cb = lambda: 1»
@tensor:c = $tensor.«clone()¦detach()¦view(-1)¦data¦float()¦contiguous()¦to(torch.float32)¦cpu()»
LOG.append((hasattr($:c, 'foo'), $:c is $tensor, sorted(vars($tensor)) if hasattr($tensor, '__dict__') else 0))

try:
    LOG.append(torch.func.«grad(lambda v: (v * v).sum())¦vmap(lambda v: v * 2)¦jacrev(lambda v: v * 2)¦grad_and_value(lambda v: v.sum())¦vmap(lambda v: v.sum())¦jvp»($tensor.float()))
except (RuntimeError, TypeError, ValueError) as e:
    LOG.append(type(e).__name__)

with torch.«autocast('cpu', dtype=torch.bfloat16)¦autocast('cpu', enabled=False)¦device('meta')¦device('cpu')¦autograd.set_detect_anomaly(False)¦random.fork_rng()¦autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)¦profiler.record_function('r')¦nn.utils.parametrize.cached()»:
    @tensor = «LIN($tensor.float())¦torch.ones(4) + 1¦torch.zeros(4)¦$tensor * 2¦torch.rand(4)¦$tensor.float() @ torch.eye(4)»
    <block>

@any:d = torch.«get_default_dtype()¦is_grad_enabled()¦get_num_threads() > 0¦is_tensor($any)¦is_floating_point($tensor)¦numel($tensor)¦broadcast_shapes((2, 1), (1, 3))¦finfo(torch.float32).eps¦iinfo(torch.int8).max¦Size([1, 2]) + (3,)¦Size([2, 3]).numel()¦float32.is_floating_point¦device('cpu').type¦are_deterministic_algorithms_enabled()¦typename($tensor)»
LOG.append($:d)

try:
    @tensor:g = torch.autograd.grad(«($tensor.detach().requires_grad_() * 2).sum(), $tensor¦(LIN($tensor.float()) * 1).sum(), [LIN.weight, LIN.bias]¦LIN($tensor.float()).sum(), LIN.weight, create_graph=True¦LIN($tensor.float()), LIN.bias, grad_outputs=torch.ones(4)¦LIN($tensor.float()).sum(), LIN.weight, allow_unused=True»)[0]
    LOG.append(($:g, $:g.requires_grad))
except (RuntimeError, TypeError) as e:
    LOG.append(str(e).split('\\n')[0])
"""

IDIOMS = CLASSES + FLOW + VALUES + TENSORS

_RULES = rules([text for text in IDIOMS.strip("\n").split("\n\n") if text])
_CHOICE = re.compile(r"«([^«»]*)»")


class Idiomatic(Wild):
    """A program of idioms, with statements of the second generator inside of them and between them."""

    def statement(self, scope: Scope) -> list[str]:
        if scope.depth >= 2 or self.rng.random() < 0.25:
            return super().statement(scope)
        for _ in range(20):
            rule = self.rng.choice(_RULES)
            if not self.allows(rule):
                continue
            text = rule.text
            while _CHOICE.search(text):
                text = _CHOICE.sub(lambda found: self.rng.choice(found[1].split("¦")), text)
            try:
                lines = self.fill_statement(text, scope)
            except NotHere:
                continue
            return self.around(lines)
        return super().statement(scope)

    def around(self, lines: list[str]) -> list[str]:
        """What an idiom may stand in: what it binds is bound either way, or the program says that it is not."""
        inside = ["    " + line for line in lines]
        way = self.rng.random()
        if way < 0.35:
            return ["try:", *inside, "except Exception as e9:", "    LOG.append((type(e9).__name__, str(e9)))"]
        if way < 0.42:
            return [f"for i9 in range({self.rng.choice((1, 2, 3))}):", *inside]
        if way < 0.47:
            return ["with noted('idiom'):", *inside]
        if way < 0.51:
            return ["try:", *inside, "finally:", "    LOG.append('finally')"]
        if way < 0.55:
            return ["if n or not n:", *inside]
        return lines


def generate(seed: int, exact: bool = False, without: str = "") -> str:
    """The program of a seed; `exact`: without what another order of operations computes otherwise."""
    attempt = 0
    while True:
        rng = random.Random((seed << 8) + attempt)
        source = Idiomatic(genome(rng, rng.randint(2, 6)), exact, without).program()
        try:
            compile(source, "<fuzz>", "exec")
        except SyntaxError:
            attempt += 1
            continue
        return source
