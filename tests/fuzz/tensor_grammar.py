"""What the tensor programs of tensors.py are made of: a production a line.

In a production `<t>` is a tensor that is bound there, `<e>` an expression that gives one, `<n>` a number, `<a|b>` one of these texts, `<new>` and `<other>` are
new names; ` ;; ` is the end of a line. One that begins with `~` is left out where a backend computes otherwise than eager by torch's own limits.
"""

NUMBERS = r"""
COUNT
len(items)
st.n
m.steps
len(LOG) % 3
<t>.dim()
<t>.size(0)
len(cfg)
k[0]
cfg.get('p', 2)
sum(items)
int(flag)
(n + 1)
v.n
m.scale
1.5
len(v)
count
next(it, 5)
0.5
(w := <n>)
"""

EXPRESSIONS = r"""
(<e> + <e>)
(<e> * <n>)
(<e> - <e>)
<t>.relu()
<t>.clone()
<t>.detach()
<t>[:2].repeat(2)
<t>.view(-1)[:4]
torch.where(<t> > <n>, <e>, <e>)
torch.cat([<e>[:2], <t>[2:]])
m(<e>)
m.lin(<e>)
BUF + <e>
m.seen + <e>
st.t * <n>
v(<e>)
(v + <e>).t
(<e> + v).t
safe(bad, <e>, k=<n>)
safe(guarded, <t>, <n>)
safe(lambda t: t.view(3), <e>)
<t>.flip(0)
<t>.sum() + <e>
torch.stack([<e>, <e>]).sum(0)
<t>.masked_fill(<t> > 0, <n>)
torch.maximum(<e>, <e>)
<e>.to(torch.float32)
<t>.expand(2, 4)[<0|1>]
torch.ones(4)
torch.full((4,), <n>).float()
h(<e>, <n>)
h(*[<e>, <n>])
h(**{'t': <e>, 'n': <n>})
(lambda t, *r, q=<n>: t + q)(<e>)
fs[<n> % len(fs)](<e>)
functools.reduce(operator.add, [<e>, <e>])
sum(x for x in [<e>, <e>])
[x + <n> for x in (<e>, <e>)][<0|-1|1>]
Auto.apply(<e>, <n>)
m.emb(torch.tensor([<0|1|2|5>]))[0]
F.linear(<e>, torch.eye(4))
cfg.get('t', <e>)
TABLE.setdefault(<'q'|2|n>, <e>)
st.push(<n>).t
next(tgen(<e>, 2))
list(tgen(<e>, 2))[-1]
v.total + <e>
torch.rand(4).gt(<e>).float()
F.dropout(<e>, 0.5, training=<True|m.training|flag>)
torch.randn_like(<t>).sign()
torch.randperm(4).float() + <e>
(random.random() > 0.5) * <e>
m.drop(<e>)
torch.bernoulli(torch.full((4,), 0.5)) * <e>
<t>.double().sum().float() + <e>
<t>.unsqueeze(0).squeeze(0)
<t>.index_select(0, torch.tensor([3, 2, 1, 0]))
torch.clamp(<e>, -3, 3)
-<e>
(<n> - <e>)
<t>.cumsum(0)
<t>.roll(<1|2>)
"""

FAILING = r"""
m.lin(<t>.double())
m(<t>.double())
m.risky(<t>.double(), <n>)
<t>.view(3)
<t>.view(3, <n>)
torch.cat([<t>, <t>.view(2, 2)])
<t> @ torch.ones(3)
<t>[7]
<t>[torch.tensor([0, 9])]
m.emb(torch.tensor([0, 7]))
m.emb(torch.tensor([<n>, 1]))
<t>.add_(torch.ones(3))
<t>.add_(1j)
<t>.long().add_(<t>)
torch.ones(4, device='meta') + <t>
<t>.add_(torch.ones(4, device='meta'))
torch.linalg.inv(torch.zeros(2, 2))
torch.zeros(-1)
int(<t>)
bool(<t>)
<t>.item()
torch.stack([<t>, <t>[:2]])
<t>.backward()
(<t> * 2).backward()
<t>.gather(0, torch.tensor([0, 8]))
<t>.scatter_(0, torch.tensor([9]), 1.0)
<t>.index_add_(0, torch.tensor([7]), torch.ones(1))
<t>.long() // 0
(<t>.long() % 0).float()
F.nll_loss(torch.zeros(2, 3), torch.tensor([0, 5]))
F.cross_entropy(torch.zeros(2, 3), torch.tensor([0, -7]))
torch.multinomial(<t> - 10, 2)
torch.linalg.cholesky(-torch.eye(2))
torch.bernoulli(<t> + 5)
<t>.masked_scatter_(torch.ones(4, dtype=torch.bool), torch.ones(2))
<t>.index_put_((torch.tensor([8]),), torch.tensor(1.0))
<t>.unflatten(0, (3, 3))
<t>.expand(3)
<t>.transpose(0, 2)
<t>.squeeze(5)
<t>.sum(3)
<t>.foo
<t>.foo()
torch.add(<t>)
torch.add(<t>, <t>, beta=1)
<t>.reshape(<n>, 7)
F.linear(<t>, torch.ones(3, 3))
F.conv1d(<t>, <t>)
m.bn(<t>)
<t> + 'x'
<t> + None
<t>['k']
len(<t>.sum())
[1, 2][<n> + 5]
cfg['missing']
cfg[<n>]
st.missing
m.missing
1 / 0
n / (n - n)
bad(<t>)
bad(<t>, <t>, k=<n>)
guarded(<t>.view(1, 4)[:, :3])
v * 'x'
v['x']
v[9]
<t>.requires_grad_().add_(1)
torch.ones(4, requires_grad=True).mul_(2)
torch.autograd.grad(<t>.sum(), <t>)
torch.autograd.grad(<t>.sum(), torch.ones(4, requires_grad=True))
torch.empty(2, out=<t>, dtype=torch.int64)
torch.add(<t>, <t>, out=torch.ones(4, dtype=torch.int64))
torch.mm(<t>, <t>)
torch.as_strided(<t>, (9,), (3,))
<t>.copy_(torch.ones(5))
<t>.fill_(torch.ones(2))
<t>.expand(2, 4).add_(1)
torch.split(<t>, [1, 1])
torch.chunk(<t>, 0)
next(iter([]))
items[99]
int('x')
float(<t>)
<t>.type(torch.qint8)
<t>.numpy() + <t>.requires_grad_().numpy()
torch.where(<t>, <t>, 0)
<t>.bool() - True
-(<t> > 0)
torch.arange(0, 1, 0)
torch.tensor([[1], [1, 2]])
torch.tensor([1, 'a'])
torch.full((4,), 'a')
<t>.to('cuda:9')
<t>.to(torch.foo)
m.load_state_dict({'x': <t>})
m.get_parameter('zz')
setattr(m.lin, 'weight', <t>)
m.register_buffer('seen', 3)
m.lin.weight.mul_(2)
m.lin.weight[0].add_(<t>)
random.choice([])
torch.randint(5, 2, (4,))
torch.normal(<t>, -1.0)
<t>.uniform_(2, 1)
F.dropout(<t>, 1.5)
<t>.resize_(2, 4)
<t>.set_(1)
<t>.grad.add_(1)
<t>.t_().view(9)
safe(int, <t>) + <t>
raise_(Oops, <t>)
assert_(<t>.sum() > 1000)
list(tgen(<t>, 'x'))
[q.view(3) for q in (<t>, <t>)]
{q: <t>[q] for q in range(9)}
max(<t>, <t>)
sorted([<t>, <t>])
<t> in [<t>]
{**cfg, **<t>}
h(*<n>)
h(<t>, <n>, zz=1)
h()
"""

WRITES = r"""
<t>.add_(<n>)
<t>.mul_(<n>)
<t> += <e>
<t> *= <n>
<t>[<0|1|-1|1:3|::2|...>] = <n>
<t>.copy_(<e>)
<t>.zero_()
BUF.add_(<n>)
BUF.add_(<e>)
BUF[:] = <e>
m.seen.add_(<e>)
m.seen = m.seen + <n>
st.t.mul_(<n>)
st.t = <e>
v += <e>
v[1] = <n>
v.total = <n>
torch.add(<t>, <e>, out=<t>)
<t>.clamp_(-2, 2)
<t>.relu_()
<t>.neg_()
<t>.masked_fill_(<t> > 0, <n>)
<t>.index_fill_(0, torch.tensor([0, 2]), <n>)
<t>.index_add_(0, torch.tensor([0, 0]), <e>[:2])
<t>.fill_(<n>)
<t>.swap = <n>
m.bn(torch.stack([<t>, <e>]))
<t>.data = <e>
<t>.data.add_(<n>)
<t>[<t> > 0] = <n>
<t>.scatter_(0, torch.tensor([1]), <n>)
torch._foreach_add_([<t>, BUF], <1.0|2>)
<t>.sub_(<t>.sum())
F.relu(<t>, inplace=True)
<t>.detach().add_(<n>)
<t>.t_()
<t>.unsqueeze_(0).squeeze_(0)
with_no_grad(m.lin.weight.add_, <n>)
with_no_grad(m.lin.bias.copy_, <e>)
"""

EFFECTS = r"""
LOG.append(<n>)
LOG.append(<t>.shape)
st.n += <n>
cfg['p'] = <n>
cfg.update(t=<t>)
COUNT += 1
count += 1
MODE = MODE + 'b'
items.append(<n>)
st.hist.append(<t>)
m.steps += 1
m.last = <t>
k[0] = <n>
items.pop() if items else None
print(<n>, <t>.dim())
print(<t>.tolist())
del cfg['p']
cfg.pop('t', None)
TABLE[<n>] = <t>
st = dataclasses.replace(st, n=<n>)
fs.append(torch.neg)
fs.insert(0, fs.pop())
st.tag += 'x'
v.n = <n>
setattr(v, 'z', <n>)
del v.z
m.scale *= 2
bump(<n>)
LOG.append(bump(<n>))
items[:] = [i + 1 for i in items]
items += [<n>]
flag = not flag
LOG.append([(j, <t>.dim()) for j in items if j])
BUF = BUF + <n>
TABLE.clear()
next(it, None)
LOG.append(next(it, 'end'))
cfg = {**cfg, 'z': <n>}
m.train(not m.training)
m.extra = <t>
del m.extra
LOG.extend(x.dim() for x in [<t>])
global_set(<n>)
st.hist.clear()
LOG.append(repr(st.n))
LOG.append(f'{<n>} {<t>.shape}')
"""

AUTOGRAD = r"""
(p * <e>).sum().backward()
m(<e>).sum().backward()
p.grad = None
m.zero_grad()
(m.lin(<e>) * p).sum().backward() ;; LOG.append(p.grad)
<new> = torch.autograd.grad((p * <e>).sum(), p)[0]
~<new> = torch.autograd.grad((p * p * <e>).sum(), p, create_graph=True)[0] ;; <new>.sum().backward()
p.register_hook(lambda g: LOG.append(g.dim()))
<new> = p * <e> ;; <new>.retain_grad() ;; <new>.sum().backward() ;; LOG.append(<new>.grad)
with torch.no_grad(): ;;     p.sub_(p.grad if p.grad is not None else 0)
opt.zero_grad() ;; (p * <e>).sum().backward() ;; opt.step()
opt.step()
if p.grad is not None: p.grad.mul_(<n>)
<new> = <e>.detach().requires_grad_() ;; (<new> * 2).sum().backward() ;; LOG.append(<new>.grad)
<t>.requires_grad_()
torch.autograd.backward([(p * <t>).sum()])
LOG.append((p * <t>).requires_grad)
<new> = (p * 2) ;; <new>.add_(<n>) ;; <new>.sum().backward()
<new> = p.exp() if False else p * p ;; p.data.add_(1) ;; <new>.sum().backward()
if p.grad is not None: nn.utils.clip_grad_value_([p], 1.0)
loss = (m(<e>) - <t>).pow(2).sum() ;; loss.backward() ;; loss.backward()
loss = F.mse_loss(m.lin(<e>), <t>, reduction='sum') ;; loss.backward(retain_graph=True) ;; loss.backward()
Auto.apply(p, <n>).sum().backward()
p.requires_grad_(not p.requires_grad)
"""

DRAWS = r"""
<t>.bernoulli_(0.5)
torch.manual_seed(<n>)
random.seed(<n>)
LOG.append(random.randint(0, 9))
LOG.append(torch.rand(()).item() > 0.5)
LOG.append(torch.randint(0, 5, (2,)))
<t>.random_(0, 4)
random.shuffle(items)
LOG.append(torch.initial_seed() % 7)
gen.manual_seed(1)
LOG.append(torch.rand(2, generator=gen) > 0.5)
nn.init.constant_(m.lin.bias, <n>)
LOG.append(torch.get_rng_state().sum())
"""

OTHERS = r"""
<new>, *<other> = <t>.unbind(0)
<new>, <other> = <t>.split(2) ;; <new>.add_(1)
<new> = {'u': <e>, **cfg} ;; LOG.append(sorted(<new>, key=str))
LOG.append([w.shape for w in (w2 * 2 for w2 in (<t>, <e>))])
assert <n> < 100, 'large'
if (w3 := <e>).dim() == 1: LOG.append(w3)
<new> = <e> ;; del <new>
<new> = list(<t>) ;; <new>[0].add_(1)
<new> = [<e>] * 2 ;; <new>[0].add_(1) ;; LOG.append(<new>[1])
LOG.append(max([1, 2], key=lambda q: <t>.dim() - q))
<new> = torch.tensor(items + [<n>])
LOG.append(<t>.tolist())
<new> = <t>.sum().item() ;; LOG.append(<new>)
LOG.append(int(<t>[0] > 0))
<new> = iter([<t>, <e>]) ;; next(<new>).add_(1) ;; LOG.append(next(<new>))
if <n> > 2: raise Oops(<n>)
if <t>.sum() > 30: raise ValueError('big')
LOG.append(sorted(items, key=lambda q: -q))
<new> = <t>.numpy(force=True).copy() ;; <new> += 1 ;; LOG.append(<new>.sum())
~m.lin.register_forward_hook(lambda mod, i, o: LOG.append('hook'))
m.lin.weight = nn.Parameter(m.lin.weight + 1)
setattr(st, 'u' + str(<n>), <t>)
LOG.append(vars(st).keys())
<new> = getattr(st, 'u1', <t>)
~LOG.append(<t>._version)
LOG.append(<t>.is_leaf)
LOG.append(<t>.grad_fn is None)
LOG.append((<t> > 0).any())
<new> = <t>.nonzero() ;; LOG.append(<new>.shape)
<new> = <t>[<t> > 0] ;; LOG.append(<new>.numel())
LOG.append(torch.unique(<t>))
<new> = collections.deque([<t>], maxlen=1) ;; <new>.append(<e>) ;; LOG.append(<new>[0])
LOG.append(cached(<n>))
LOG.append(str(<t>.sum()))
LOG.append(f'{<t>}')
<t>, <t> = <t>, <t>
"""

CONDITIONS = r"""
<t>.sum() > <n>
<n> > <n>
flag
MODE == 'a'
<t>.requires_grad
isinstance(<t>, nn.Parameter)
<t>.dtype == torch.float32
cfg.get('t') is not None
v
<n> in v
<t> is <t>
(q := <n>) and q > 1
<t>.grad is None
m.training
not items
<t>.is_leaf
hasattr(v, 'z')
torch.is_grad_enabled()
~<t>._version > 1
<t>.data_ptr() == BUF.data_ptr()
"""
