"""What the programs of the second generator are made of: productions by kind, as text.

In a production
    <kind>      is an expression of that kind, <kind:a> one that `$:a` repeats,
    $kind       is a variable of that kind that is bound here (without one the production does not apply), $kind:a is named likewise,
    !kind       is one that the function at hand may assign to,
    @kind       is a new variable, bound behind the statement; `@kind:a` names it,
    <block>     stands for a few statements that may not run, <body a:kind b:kind> for those of a function with these parameters,
    <loop>      is a block inside of a loop.
A line that begins with `n|` counts n times. One with `~` computes something whose last bit depends on the order of operations: it is left out
where a backend may choose another order. Expressions are one line each, statements are separated by empty lines.
"""

EXPRESSIONS = {
    "tensor": """
8|$tensor
$tensor + <tensor>
$tensor - <int>
$tensor * <number>
-$tensor
<int> - $tensor
<tensor> * <tensor>
($tensor > <tensor>).to($tensor.dtype)
$tensor.clone()
$tensor.detach()
$tensor.relu()
$tensor.abs()
$tensor.neg()
$tensor.view(-1)
$tensor.reshape(2, 2)[<int> % 2].repeat(2)
$tensor[[3, 2, 1, 0]]
$tensor[:2].repeat(2)
$tensor[..., None].squeeze(-1)
$tensor.flip(0)
$tensor.roll(1)
$tensor.t()
torch.where($tensor > 0, <tensor>, <tensor>)
torch.stack([<tensor>, <tensor>]).sum(0)
torch.cat([$tensor[:2], $tensor[2:]])
torch.zeros_like($tensor)
torch.full_like($tensor, <int>)
torch.maximum($tensor, <tensor>)
torch.clamp($tensor, -2, 2)
$tensor.clamp(max=<int>)
$tensor.sum() + $tensor
$tensor.expand(2, 4).sum(0)
$tensor.index_select(0, torch.tensor([1, 0, 3, 2]))
$tensor.masked_fill($tensor > <int>, 0)
torch.tensor([1.0, 2.0, 3.0, <int>])
torch.arange(4.0) + $tensor
torch.ones(4)
$tensor if <bool> else <tensor>
(<bool> and $tensor).clone() if <bool> else $tensor
<fn>(<tensor>)
<fn>($tensor)
LIN($tensor)
NET($tensor)
BUF + $tensor
$obj.t
$obj.t + $tensor
$obj.run(<tensor>)
sum($tensors, $tensor)
$tensors[0]
next(iter($tensors))
$dict.get('a', $tensor)
$dict['a']
~torch.sin($tensor)
~torch.softmax($tensor, 0)
~torch.nn.functional.gelu($tensor)
~$tensor / 3
~$tensor.norm() + $tensor
torch.unbind($tensor.view(2, 2))[0].repeat(2)
torch.sort($tensor).values
torch.topk($tensor, 4)[0]
$tensor.max(0, keepdim=True)[0] + $tensor
$tensor.cumsum(0)
$tensor.double().float()
$tensor.to(torch.float32)
$tensor.type_as(<tensor>)
$tensor.contiguous()
$tensor.new_zeros(4) + $tensor
$tensor @ torch.eye(4)
torch.nn.functional.linear($tensor, torch.eye(4))
torch.einsum('i,i->i', $tensor, <tensor>)
torch.func.vmap(lambda v: v + <int>)($tensor)
torch.func.vmap(lambda v, w: v * w, in_dims=(0, 0))($tensor, <tensor>)
torch.func.grad(lambda v: (v * <tensor>).sum())($tensor)
functools.reduce(operator.add, [$tensor, <tensor>])
operator.mul($tensor, <int>)
math.prod([$tensor, <int>])
functools.partial(torch.add, $tensor)(<tensor>)
(lambda v, *r, k=<int>: v + k)(<tensor>)
(w := <tensor>) + w
sum([t for t in [$tensor, <tensor>]])
torch.cond(<bool>, lambda v: v + 1, lambda v: v - 1, ($tensor,))
$obj + $tensor
$obj @ $tensor
$tensor + $obj
max([$tensor, <tensor>], key=lambda v: <int>)
helper(<tensor>, <int>)
helper(t=<tensor>, *(), **{'n': <int>})
star(*[$tensor, <tensor>], k=<int>)
star($tensor, *$tensors, **{'k': <int>})
copy.copy($tensor)
getattr($tensor, 'T')
getattr($obj, 't', $tensor)
torch.Tensor.add($tensor, <int>)
type($tensor).mul($tensor, <int>)
""",
    "number": """
3|<int>
2|<float>
<bool>
""",
    "int": """
6|$int
4|1
2
0
-1
3
$int + <int>
$int * 2
$int % 3
$int // 2
-$int
(~$int)
$int & 3
$int | 1
abs($int)
len($list)
len($tensors)
len($dict)
len($str)
len($obj)
int(<bool>)
hash(<int>)
$tensor.dim()
$tensor.size(0)
$tensor.shape[0]
$tensor.numel()
len($tensor)
max(<int>, <int>)
min($list, default=<int>)
sum($list)
sum(i for i in $list if i)
$list[0]
$list[-1]
$list.index(1) if 1 in $list else <int>
$list.count(1)
$obj.n
$obj.k
getattr($obj, 'n', <int>)
int(<str>)
ord('a')
divmod(<int>, 3)[1]
round(<float>)
int($tensor.sum())
$tensor.sum().item()
int($tensor[0] > 0)
$dict.get('n', <int>)
bool($obj) + <int>
pow(2, $int % 4)
operator.index(<int>)
functools.reduce(lambda a, b: a + b, $list, 0)
next(iter($list), <int>)
[*$list, <int>][0]
(lambda: <int>)()
count
TOTAL
next(counter)
sum(map(abs, $list))
sum(x * y for x, y in zip($list, $list))
{1: 2}.get(<int>, 3)
len({*$list})
len(set($list))
$cls.total
Color.RED.value
Flags(<int> % 4).value
""",
    "float": """
3|0.5
1.5
-2.25
float(<int>)
<int> * 0.5
$float
$tensor.sum().item()
math.floor(<float>)
abs(<float>)
""",
    "bool": """
4|<int> > <int>
<int> == <int>
<int> != <int>
True
False
not <bool>
<bool> and <bool>
<bool> or <bool>
$tensor is None
$tensor is not <tensor>
isinstance($any, torch.Tensor)
isinstance($any, (int, str))
isinstance($obj, $cls)
hasattr($obj, 'n')
callable($any)
'a' in $dict
<int> in $list
$obj == <any>
$obj != <any>
$obj < <int>
bool($obj)
$tensor.requires_grad
$tensor.is_contiguous()
torch.is_grad_enabled()
bool(($tensor > 0).all())
$tensor.sum() > 0
any($list)
all(i > 0 for i in $list)
<str> == <str>
<str>.startswith('a')
$tensor.dtype == torch.float32
0 < <int> < 4
$list == <list>
$list < <list>
$obj in [<any>, $obj]
<int> in $obj
type($any) is int
issubclass($cls, object)
$dict.keys() == {'a'}
""",
    "str": """
4|'a'
'ab'
''
$str
$str + <str>
$str * (<int> % 3)
$str.upper()
f"{<int>}-{$str}"
f"{<int>:>3}"
f"{$str!r}"
'%s %d' % ($str, <int>)
'{} {}'.format($str, <int>)
str(<int>)
repr(<int>)
str($list)
','.join(map(str, $list))
type($any).__name__
$obj.__class__.__name__
repr($obj)
str($obj)
format($obj, 'x')
$str[0:1]
$str[::-1]
$str.replace('a', 'b')
str($tensor.dtype)
str(tuple($tensor.shape))
repr($dict.keys()) if not $dict else 'k'
f"{$tensor.shape}"
f"{<float>:.2f}"
Color(1).name
str(Color.RED)
""",
    "list": """
4|[<int>, <int>]
[]
[<int>]
$list
$list + [<int>]
$list * 2
list(range(<int> % 4))
[i + 1 for i in $list]
[i for i in range(3) if i != <int>]
[j := <int>, j]
[last := i for i in $list]
sorted($list)
sorted($list, key=lambda i: -i)
sorted($list, reverse=<bool>)
list(reversed($list))
list(map(lambda i: i * 2, $list))
list(filter(None, $list))
[*$list, *<list>]
$list[1:]
$list[::-1]
$list.copy()
list(itertools.chain($list, <list>))
list(itertools.accumulate($list))
list(itertools.islice($list, 2))
list(zip($list, $list))
list(enumerate($list))
list($obj)
[*$obj]
list($dict)
list(gen(<int> % 4))
[y for y in gen(2)]
list({*$list})
[x for x in $list for _ in range(2)]
[(i, j) for i in range(2) for j in range(i)]
list(collections.deque($list, maxlen=2))
""",
    "tensors": """
4|[<tensor>, <tensor>]
[$tensor]
$tensors
$tensors + [<tensor>]
[t + 1 for t in $tensors]
list($tensor.unbind(0))
list($tensor.split(2))
[<tensor> for _ in range(2)]
[t for t in ($tensor, <tensor>) if <bool>]
list($dict.values())
[fn(<tensor>) for fn in [helper, torch.neg]]
list(map(torch.neg, $tensors))
[(t := <tensor>), t]
list(tgen($tensor, 2))
""",
    "dict": """
4|{'a': <tensor>}
{'a': <tensor>, 'b': <int>}
$dict
{**$dict, 'c': <int>}
$dict | {'b': <tensor>}
dict(a=<tensor>, n=<int>)
dict(zip('ab', [<tensor>, <int>]))
{k: v for k, v in $dict.items()}
{i: <int> for i in $list}
collections.OrderedDict(a=<tensor>)
collections.defaultdict(list, {'a': <tensor>})
collections.Counter('aab')
Mapping({'a': <tensor>})
vars($obj)
dict($dict)
copy.copy($dict)
dict.fromkeys('ab', <tensor>)
types.SimpleNamespace(a=<tensor>).__dict__
""",
    "set": """
{<int>, 1}
set($list)
frozenset($list)
{i for i in $list}
{1, 2} | {<int>}
{1, 2} & {<int>}
$dict.keys() & {'a'}
""",
    "tuple": """
(<int>, <tensor>)
(<int>, *$list)
tuple($list)
Point(<int>, <tensor>)
Record(<tensor>, <int>)
()
divmod(<int>, 2)
$tensor.shape
(<any>, <any>)
""",
    "fn": """
4|$fn
2|helper
torch.neg
torch.relu
torch.Tensor.abs
LIN
NET
lambda t: t + <int>
lambda t: t * <tensor>
lambda t, k=<int>: t - k
functools.partial(helper, n=<int>)
functools.partial(torch.add, <tensor>)
$obj.run
$obj
Callable(<int>)
operator.neg
decorated
cached
functools.wraps(helper)(lambda t: t - 1)
staticmethod(helper)
type($obj).make
operator.methodcaller('abs')
[helper, torch.neg][<bool>]
(helper if <bool> else torch.neg)
""",
    "cls": """
$cls
type($obj)
Callable
Record
""",
    "obj": """
6|$obj
3|$cls(<tensor>, <int>)
Record(<tensor>, <int>)
types.SimpleNamespace(t=<tensor>, n=<int>, run=helper)
Callable(<int>)
copy.copy($obj)
$cls(n=<int>, t=<tensor>)
Slotted(<tensor>, <int>)
$obj + <int>
""",
    "any": """
3|$any
<tensor>
<int>
<float>
<bool>
<str>
<list>
<dict>
<set>
<tuple>
<obj>
<fn>
None
...
NotImplemented
b'ab'
1j
slice(<int>, None)
range(<int>)
torch.float32
torch.tensor(<int>)
torch.ones(2)
torch.ones(4, dtype=torch.float64)
torch.ones(4, device='meta')
torch.arange(4)
int
Oops
iter($list)
gen(2)
Decimal('1.5')
Color.RED
(<any>,)
[<any>]
{1: <any>}
""",
    "exc": """
3|Oops
ValueError
KeyError
Exception
RuntimeError
TypeError
(KeyError, IndexError)
(AttributeError, TypeError, ValueError)
LookupError
ArithmeticError
BaseException
""",
    # An operation on whatever there is: most of them raise.
    "risky": """
<any> + <any>
<any> - <any>
<any> * <any>
<any> / <any>
<any> // <any>
<any> % <any>
<any> ** <any>
<any> @ <any>
<any> & <any>
<any> | <any>
<any> ^ <any>
<any> << <any>
<any> >> <any>
<any> < <any>
<any> <= <any>
<any> == <any>
<any> != <any>
<any> >= <any>
<any> in <any>
<any> not in <any>
<any>[<any>]
<any>[<any>:<any>]
<any>.t
<any>.n
<any>.missing
<any>(<any>)
<any>()
<any>(*<any>)
<any>(**<any>)
<any>(<any>, k=<any>)
-<any>
+<any>
(~<any>)
not <any>
abs(<any>)
len(<any>)
iter(<any>)
next(<any>)
list(<any>)
dict(<any>)
set(<any>)
tuple(<any>)
sorted(<any>)
sum(<any>)
min(<any>)
max(<any>, <any>)
hash(<any>)
int(<any>)
float(<any>)
complex(<any>)
bool(<any>)
str(<any>)[:3]
repr(<any>)[:1]
round(<any>)
divmod(<any>, <any>)
pow(<any>, <any>)
isinstance(<any>, <any>)
issubclass(<any>, <any>)
getattr(<any>, <any>)
getattr(<any>, 'n', <any>)
hasattr(<any>, 'n')
range(<any>)
enumerate(<any>)
list(zip(<any>, <any>))
list(map(<any>, <any>))
list(filter(<any>, <any>))
operator.index(<any>)
operator.length_hint(<any>)
operator.attrgetter('n')(<any>)
operator.itemgetter(0)(<any>)
functools.reduce(<any>, <any>)
functools.partial(<any>, <any>)()
f"{<any>:5}"
'%d' % <any>
''.join(<any>)
[*<any>]
{**<any>}
{<any>}
{<any>: 1}
chr(<any>)
math.sqrt(<any>)
math.prod(<any>)
any(<any>)
all(<any>)
reversed(<any>)
vars(<any>)
type(<any>)(<any>)
callable(<any>)
slice(<any>).indices(3)
itertools.chain(<any>, <any>)
list(itertools.islice(<any>, <any>))
torch.add(<any>, <any>)
torch.matmul(<any>, <any>)
torch.cat(<any>)
torch.stack(<any>)
torch.where(<any>, <any>, <any>)
torch.tensor(<any>)
torch.zeros(<any>)
torch.nn.functional.linear(<any>, <any>)
torch.nn.functional.relu(<any>)
LIN(<any>)
NET(<any>)
$tensor.view(<any>)
$tensor.reshape(<any>)
$tensor.to(<any>)
$tensor.sum(<any>)
$tensor.expand(<any>)
$tensor.add_(<any>)
$tensor.mul_(<any>)
$tensor.copy_(<any>)
$tensor.index_add_(0, <any>, <any>)
$tensor.double() @ LIN.weight
LIN($tensor.double())
LIN($tensor[:3])
$tensor[torch.tensor([9])]
$tensor[9]
$tensor[:, 0]
torch.nn.functional.embedding(torch.tensor([9]), torch.ones(2, 2))
torch.linalg.inv(torch.zeros(2, 2))
torch.nn.functional.one_hot(torch.tensor([-1]))
$tensor.view(3, 3)
$tensor.item()
int($tensor)
bool($tensor)
$tensor.backward()
$tensor.numpy().sum()
(LIN($tensor).sum()).backward()
$tensor + torch.ones(3)
torch.ones(4, device='meta') + $tensor
$list.remove(<any>)
$list.index(<any>)
$list.pop(<any>)
$list.insert(<any>, <any>)
$list.extend(<any>)
$list.sort(key=<any>)
$dict.pop(<any>)
$dict.update(<any>)
$dict.setdefault(<any>, <any>)
$dict.popitem()
$dict.move_to_end('a')
$set.add(<any>)
$set.remove(<any>)
$set | <any>
<str>.join(<any>)
<str>.split(<any>)
<str>.format(<any>)
<str>.encode(<any>)
$obj[<any>]
$obj(<any>)
$obj.missing
$obj.run(<any>)
$obj < <any>
$obj | <any>
super($cls, $obj).run(<tensor>)
object.__getattribute__($obj, 'n')
type($obj).__dict__['run']
$cls.__mro__[1].__name__
$cls.__call__(<tensor>, <int>)
$fn.__call__(<tensor>)
$fn.__name__
$fn.__defaults__
$fn.__get__(<any>)
""",
}

STATEMENTS = """
8|@tensor = <tensor>

3|@int = <int>

2|@list = <list>

2|@tensors = <tensors>

2|@dict = <dict>

@set = <set>

@str = <str>

@float = <float>

2|@obj = <obj>

2|@fn = <fn>

2|@any = <any>

!tensor = <tensor>

!int = <int>

!any = <any>

!int += <int>

!tensor += <tensor>

!tensor *= <number>

!list += <list>

!str += <str>

!obj += <int>

!obj -= <any>

!obj |= <any>

!any += <any>

$tensor.add_(<int>)

$tensor.mul_(0.5)

$tensor.copy_(<tensor>)

$tensor.zero_()

$tensor.clamp_(-3, 3)

$tensor[<int> % 4] = <int>

$tensor[1:3] = <tensor>[:2]

$tensor[$tensor > 0] = 0

$tensor[...] = <tensor>

$tensor.tag = <any>

$tensor.data = <tensor>.detach()

$tensor.requires_grad_()

BUF.add_(<int>)

BUF.copy_(<tensor>)

BUF[<int> % 4] += 1

NET.calls += 1

$list.append(<int>)

$list.append(<any>)

$list.insert(0, <int>)

$list.extend(<list>)

$list.reverse()

$list.sort()

$list.clear()

$list[:1] = <list>

del $list[1:]

del $list[:]

if $list:
    $list[0] = <int>

if $list:
    $list.pop()

if len($list) < 6:
    $list.extend($list)

$tensors.append(<tensor>)

$tensors[:] = <tensors>

$dict['a'] = <tensor>

$dict['b'] = <any>

$dict.update(b=<tensor>)

$dict.update({'c': <int>, 'a': <tensor>})

$dict.setdefault('d', <int>)

$dict.pop('b', None)

$dict.clear()

$dict.setdefault('l', []).append(<int>)

$dict |= {'e': <int>}

$set.add(<int>)

$set.discard(<int>)

$set.update(<list>)

$set &= {1, 2}

$obj.t = <tensor>

$obj.n += <int>

$obj.n = <int>

$obj.extra = <any>

$obj.t += <int>

$obj['k'] = <any>

del $obj['k']

del $obj.extra

setattr($obj, 'k', <any>)

delattr($obj, 'extra')

object.__setattr__($obj, 'n', <int>)

$obj.__dict__['z'] = <any>

$obj.__dict__.update(z=<int>)

$obj.__class__ = $cls

$obj.run = helper

type($obj).total = <int>

$cls.total += 1

$cls.run = lambda self, v: v + <int>

$cls.seen.append(<int>)

global TOTAL
TOTAL += <int>

TOTALS.append(<any>)

SHARED['k'] = <any>

SHARED['t'] = <tensor>

SHARED.setdefault('items', []).append(<int>)

2|LOG.append(<any>)

2|LOG.append(<int>)

LOG.append($tensor.tolist())

LOG.append(sys.exc_info()[0])

print(<str>)

print(<int>, <str>, sep='-')

@tensor, @int = <tensor>, <int>

@int, *@list = <list> + [1]

*@list, @int = [1, <int>]

(@int, @int), @tensor = (<int>, 2), <tensor>

!tensor:a, !tensor:b = $:b, $:a

@tensor = @tensor = <tensor>

@int, @int = <any>

for !int in <list>:
    <loop>

del !any

del !tensor:a
$:a = <tensor>

helper($tensor, <int>)

$fn(<tensor>)

writer(<int>)

@list = [writer(i) for i in range(2)]

@tensors = [<tensor> for i in range(2) if (q := i) >= 0]

@any = [v for v in <any>]

@any = {k: v for k, v in <any>}

5|if <bool>:
    <block>

3|if <bool>:
    <block>
else:
    <block>

if <bool>:
    <block>
elif <bool>:
    <block>
else:
    <block>

if $tensor.sum() > <int>:
    <block>
else:
    <block>

3|for @int in range(<int> % 4):
    <loop>

2|for @tensor in $tensors[:3]:
    <loop>

for @int, @tensor in enumerate($tensors[:2]):
    <loop>

for @int in $list[:4]:
    <loop>
else:
    <block>

for @tensor in $tensor:
    <loop>

for @any in <any>:
    LOG.append(1)
    if len(LOG) > 40:
        break
    <loop>

for @str in list($dict):
    <loop>

for @any, @any in $dict.items():
    <loop>

for @int in $list:
    if len($list) > 5:
        break
    $list.append(<int>)
    <loop>

for @any in $dict:
    LOG.append(1)
    $dict.pop('a', None)
    if len(LOG) > 40:
        break

for @any in $dict:
    $dict['new' + str(len($dict))] = <int>
    if len($dict) > 6:
        break

for @any in $set:
    $set.add(<int>)
    if len($set) > 6:
        break

for @any in list($dict.values()):
    $dict.clear()
    <loop>

for @int in gen(<int> % 4):
    <loop>

for @tensor in tgen($tensor, 3):
    <loop>
    if <bool>:
        break

for @any in $obj:
    LOG.append(2)
    if len(LOG) > 40:
        break
    <loop>

for @int in iter(lambda: next(counter) % 3, 0):
    <loop>

for @int, @int in zip($list, itertools.count(<int>)):
    <loop>

for !int in range(2):
    for @int in range(2):
        if <bool>:
            continue
        <loop>
    else:
        <block>

@int:w = 0
while $:w < 3:
    $:w += 1
    <loop>

@int:w = 0
while True:
    $:w += 1
    if $:w > 2 or <bool>:
        break
    <loop>

4|try:
    LOG.append(<risky>)
except Exception as e:
    LOG.append((type(e).__name__, str(e)))

3|try:
    <block>
    @any = <risky>
    <block>
except <exc> as e:
    LOG.append((type(e).__name__, type(e.__context__).__name__, str(e)))
    <block>

2|try:
    $tensor.add_(1)
    @any = <risky>
except Exception as e:
    LOG.append(type(e).__name__)
else:
    <block>
finally:
    <block>

try:
    BUF.add_(1)
    LOG.append('before')
    @tensor = LIN(<any>)
except RuntimeError as e:
    LOG.append(str(e))
    <block>

try:
    raise <exc>
except <exc>:
    <block>

try:
    <block>
    raise Oops(<any>)
except Oops as e:
    LOG.append(e.args)
    <block>
finally:
    <block>

try:
    try:
        <block>
        @any = <risky>
    except <exc> as e:
        raise Oops('second') from e
    finally:
        LOG.append('inner')
except Exception as e:
    LOG.append((type(e).__name__, type(e.__cause__).__name__, type(e.__context__).__name__))

try:
    try:
        @any = <risky>
    finally:
        <block>
except Exception:
    LOG.append(sys.exc_info()[0].__name__)

try:
    try:
        <block>
        raise <exc>
    except <exc>:
        <block>
        raise
except BaseException as e:
    LOG.append(type(e).__name__)

with noted('w') as @int:
    <block>

with Note('n', <bool>):
    <block>
    if <bool>:
        raise Oops('in with')

with Note('m', True), noted('k'):
    <block>
    @any = <risky>

with contextlib.suppress(Exception):
    <block>
    @any = <risky>

with torch.no_grad():
    <block>

with torch.enable_grad():
    <block>

with contextlib.ExitStack() as stack:
    stack.enter_context(noted('s'))
    stack.callback(LOG.append, <int>)
    <block>

with $obj as @any:
    <block>

match <any>:
    case int() | float():
        <block>
    case [a, *rest]:
        LOG.append(rest)
        <block>
    case {'a': v, **more}:
        LOG.append(len(more))
        <block>
    case Record(t=v, n=1):
        <block>
    case Point(a, b):
        <block>
    case str() as s if s:
        <block>
    case None | True:
        <block>
    case _:
        <block>

match $obj:
    case Callable(n=v):
        LOG.append(v)
    case object(t=v, n=k) if <bool>:
        LOG.append(k)
        <block>
    case _:
        <block>

match ($int, $str):
    case (0 | 1, _):
        <block>
    case (v, 'a' | 'ab'):
        LOG.append(v)
    case (v, w):
        <block>

2|def @fn(t):
    <body t:tensor>
    return <tensor>

def @fn(t, n=<int>, *rest, k=<int>, **more):
    LOG.append((n, len(rest), k, sorted(more)))
    <body t:tensor n:int k:int>
    return t + n

def @fn(t):
    nonlocal !int:n
    $:n += 1
    return t + $:n

def @fn(t):
    def inner(u):
        <body u:tensor t:tensor>
        return u + t
    return inner(t) + inner(<tensor>)

@deco
def @fn(t):
    <body t:tensor>
    return t

def @fn(t, acc=[]):
    acc.append(<int>)
    return t + len(acc)

def @fn(t):
    try:
        return t + 1
    finally:
        LOG.append('finally')
        <block>

def g0(a, n=2):
    for i in range(n):
        <body a:tensor n:int>
        got = yield a
        LOG.append(got is None)
    return n
@any:r = g0(<tensor>)
LOG.append(next($:r))
LOG.append($:r.send(1))

def g1(a):
    try:
        yield a
        yield a * 2
    except Oops as e:
        LOG.append(e.args)
        yield a - 1
    finally:
        LOG.append('closed')
@any:r = g1(<tensor>)
LOG.append(next($:r))
LOG.append($:r.throw(Oops(1)))

def g2(a):
    r = yield from gen(2)
    LOG.append(r)
    yield a
@list = list(g2(<int>))

class Local:
    total = <int>
    def __init__(self, t=None, n=1):
        self.t, self.n = t, n
    def run(self, v):
        <body v:tensor>
        return v * self.n
@obj = Local(<tensor>, <int>)

class Local($cls):
    k = <int>
    def run(self, v):
        LOG.append('local')
        return super().run(v) + <int>
@obj = Local(<tensor>, <int>)

class Local:
    LOG.append('class body')
    vals = [i for i in range(2)]
    for i in vals:
        pass
    __match_args__ = ('t', 'n')
    @property
    def t(self):
        return <tensor>
    @staticmethod
    def make(v):
        return v
    @classmethod
    def n(cls):
        return cls.vals
LOG.append(Local().n())
@any = Local()

@dataclasses.dataclass
class Data:
    t: object
    n: int = <int>
    l: list = dataclasses.field(default_factory=list)
    def __post_init__(self):
        self.l.append(self.n)
@any:d = Data(<tensor>)
LOG.append(($:d.n, $:d.l, dataclasses.replace($:d, n=3) == $:d if <bool> else 0))

@tensor:r = <tensor>.detach().requires_grad_()
($:r * <tensor>).sum().backward()
LOG.append($:r.grad)

@tensor:r = <tensor>.detach().requires_grad_()
@tensor = torch.autograd.grad(($:r * 2).sum(), $:r)[0]

LIN(<tensor>).sum().backward()

LIN.weight.grad = None

with torch.no_grad():
    LIN.weight.add_(<int>)

@tensor:h = <tensor>.detach().requires_grad_()
@any = $:h.register_hook(lambda g: LOG.append('hook') or g * 2)
($:h * 2).sum().backward()
LOG.append($:h.grad)

def work():
    LOG.append(threading.current_thread() is threading.main_thread())
    SHARED['w'] = <tensor>
@any:t = threading.Thread(target=work)
$:t.start()
$:t.join()

@tensor = torch.rand(4) + <tensor>

@tensor = torch.nn.functional.dropout(<tensor>, 0.5, <bool>)

@int = random.randint(0, 3)

torch.manual_seed(<int> % 100)

assert <bool>, 'asserted'

if <bool>:
    raise Oops(<str>)

if <bool>:
    return <tensor>

@any:r = weakref.ref($obj)
LOG.append($:r() is None)

@obj:d = Dying(<int>)
$:d = None
LOG.append('behind')

@list:d = [Dying(1), <int>]
$:d[0] = 2
LOG.append('behind')

import math as m
LOG.append(m.floor(<float>))

from os import path as p
LOG.append(p.basename('a/b'))

@int = (lambda *a, **k: len(a) + len(k))(*$list, **$dict)

@any = locals().get('x')

exec('LOG.append(1)')

@int = eval('1 + 2')

sys.setrecursionlimit(sys.getrecursionlimit())

LOG.append(rec($tensor, <int> % 5))

@any = inspect.signature($fn)

@tensors:l = <tensors>
$:l.append($:l)
LOG.append(len($:l))

@list:l = [3, 1, <int>]
$:l.sort(key=lambda v: LOG.append(len($:l)) or -v)

@any:i = iter($list)
LOG.append(next($:i, None))
$list.append(<int>)
LOG.append(list($:i))

@any:i = iter($dict)
LOG.append(next($:i, None))
$dict['zz'] = 1
LOG.append(list($:i))

@any:p = functools.lru_cache(lambda v: LOG.append(v) or v + 1)
LOG.append(($:p(1), $:p(1), $:p.cache_info().hits))

await_free(<int>)
"""

# Methods of odd classes: name and parameters, with the values that make sense; oddities come from everywhere.
METHODS = {
    "__add__(self, o)": "type(self)(self.t + 1, self.n)|self.n|NotImplemented|o",
    "__radd__(self, o)": "self.t + 1|NotImplemented|o",
    "__iadd__(self, o)": "self|NotImplemented|self.n",
    "__sub__(self, o)": "self|NotImplemented",
    "__isub__(self, o)": "self|None",
    "__mul__(self, o)": "self.t * 2|NotImplemented",
    "__rmul__(self, o)": "self.t|NotImplemented",
    "__matmul__(self, o)": "self.t * o|NotImplemented",
    "__or__(self, o)": "self|NotImplemented",
    "__ior__(self, o)": "self|NotImplemented",
    "__neg__(self)": "-self.t|self",
    "__invert__(self)": "self.n",
    "__abs__(self)": "self.t.abs()|1",
    "__eq__(self, o)": "self.n == getattr(o, 'n', o)|NotImplemented|self is o|1|self.t",
    "__ne__(self, o)": "NotImplemented|self is not o|0",
    "__lt__(self, o)": "self.n < getattr(o, 'n', 1)|NotImplemented",
    "__le__(self, o)": "True|NotImplemented",
    "__hash__(self)": "self.n|1|hash('a')",
    "__bool__(self)": "self.n > 0|True|False|1",
    "__len__(self)": "3|self.n % 3|0|-1|'a'",
    "__contains__(self, o)": "True|o == self.n|None|self.t",
    "__iter__(self)": "iter([self.n, 1])|iter((self.t, self.t))|self|(i for i in range(2))|None",
    "__next__(self)": "self.step()|1",
    "__getitem__(self, k)": "self.__dict__[k]|k|self.t[k]|[4, 5][k]",
    "__setitem__(self, k, v)": "self.__dict__.__setitem__(k, v)|None",
    "__delitem__(self, k)": "self.__dict__.pop(k, None)|None",
    "__call__(self, t=None, *r, **k)": "t|self.t|t + self.n|None",
    "__getattr__(self, name)": "self.missed(name)|len(name)|self.t",
    "__getattribute__(self, name)": "object.__getattribute__(self, name)|super().__getattribute__(name)",
    "__setattr__(self, name, v)": "object.__setattr__(self, name, v)|super().__setattr__(name, v)",
    "__delattr__(self, name)": "self.__dict__.pop(name, None)|super().__delattr__(name)",
    "__repr__(self)": "'odd'|f'odd {self.n}'|1",
    "__str__(self)": "'str'|repr(self.n)",
    "__format__(self, spec)": "spec + 'f'|str(self.n)",
    "__enter__(self)": "self|self.t|self.n",
    "__exit__(self, *a)": "True|False|None|self.n",
    "__index__(self)": "self.n|1|'a'",
    "__int__(self)": "self.n|2",
    "__float__(self)": "1.5",
    "__del__(self)": "LOG.append('del')",
    "__copy__(self)": "self|type(self)(self.t, self.n)",
    "__get__(self, i, o=None)": "self|self.n",
    "__reversed__(self)": "iter([2, 1])",
    "__missing__(self, k)": "k",
    "__instancecheck__(self, o)": "True",
    "__class_getitem__(cls, k)": "k|cls",
    "__init_subclass__(cls, **k)": "LOG.append(cls.__name__)",
    "__set_name__(self, o, n)": "None",
    "__torch_function__(cls, f, types, args=(), kwargs=None)": "1|NotImplemented",
    "step(self)": "self.count_down()",
}

BASES = ["", "", "", "(Base)", "(Base)", "(dict)", "(list)", "(Mixin, Base)", "(tuple)", "(int)", "(str)", "(torch.nn.Module)", "(Exception)",
         "(metaclass=Meta)", "(collections.UserDict)", "(collections.OrderedDict)", "(Generic)"]  # fmt: skip
