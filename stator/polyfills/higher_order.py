"""torch's operators that take functions: the functions become graph modules, the operators nodes of the graph."""

import torch
from torch._higher_order_ops.associative_scan import generic_associative_scan
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from stator import _torch_versions, _transforms

from .subgraphs import call, call_like, capture, capture_with_sizes, is_open, refuse, set_meta

_cond_op = torch.ops.higher_order.cond
_while_loop_op = torch.ops.higher_order.while_loop
_scan_op = torch.ops.higher_order.scan
_associative_scan_op = torch.ops.higher_order.associative_scan
_SCAN_RESTORES_DIM = _torch_versions.scan_restores_dim()
_map_op = torch.ops.higher_order.map_impl
_flex_attention_op = torch.ops.higher_order.flex_attention
_checkpoint_op = torch.ops.higher_order.tag_activation_checkpoint


class Flat:
    """A function over tensors alone: the other arguments stand as they are in a copy of the arguments' structure."""

    def __init__(self, function, args, kwargs, results=tuple):
        self.function = function
        self.leaves, self.spec = tree_flatten((args, kwargs))
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple([self.leaves[place] for place in self.places])
        self.results = results
        self.outputs = None
        self.output_spec = None

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = tree_unflatten(leaves, self.spec)
        self.outputs, self.output_spec = tree_flatten(self.function(*args, **kwargs))
        return self.results([output for output in self.outputs if isinstance(output, torch.Tensor)])

    def all_tensors(self):
        for output in self.outputs:
            if not isinstance(output, torch.Tensor):
                return False
        return True

    def rebuild(self, tensors):
        """The function's own result, with these tensors in the places of those that it gave."""
        rest = iter(tensors)
        filled = [next(rest) if isinstance(output, torch.Tensor) else output for output in self.outputs]
        return tree_unflatten(filled, self.output_spec)


def _whole(name, function, args, kwargs, pure):
    """The call as a function without arguments of its own: it takes what it uses, in the order of the first use."""
    body = Flat(function, args, kwargs)

    def run():
        return body(*body.tensors)

    return body, *capture_with_sizes((name,), (run,), (), (), pure)


def _any_requires_grad(args):
    for arg in args:
        if isinstance(arg, torch.Tensor) and arg.requires_grad:
            return True
    return False


def checkpoint(function, *args, **kwargs):
    options = {}
    own = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
    for name in own:
        if name in kwargs:
            options[name] = kwargs.pop(name)
    context_fn = kwargs.pop("context_fn", None)
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    if options.get("use_reentrant", True) is not False and not _any_requires_grad(args):
        refuse("a reentrant checkpoint of arguments without gradients, which gives none to others either")
    body, module, used = _whole("wrap_body", function, args, kwargs, True)
    if context_fn is not None:
        set_meta(module, "_checkpoint_context_fn", context_fn)
    results = call(_checkpoint_op, module, *used, **options)
    return body.rebuild(results)


class _IndexByTensors(TorchFunctionMode):
    """Indices that are tensors of one element stay tensors, where eager code would read them."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all(isinstance(index, torch.Tensor) for index in indices):
                return torch.ops.aten.index(args[0], list(indices))
        return func(*args, **(kwargs or {}))


def flex_attention(
    hop, query, key, value, score_mod, block_mask, scale, kernel_options, score_extras=(), mask_extras=()
):
    """The call of the operator: its two functions see single elements and their indices."""
    index = query.new_empty((), dtype=torch.int)
    places = (index, index.clone(), index.clone(), index.clone())
    score = query.new_empty(())
    if score_extras or mask_extras:
        refuse("flex_attention's operator with its buffers given")
    score_operands = (score, *places)
    with _IndexByTensors():
        score_module, score_buffers = capture(("score_mod",), (score_mod,), score_operands, score_operands, True)
        mask_module, mask_buffers = capture(("mask_fn",), (block_mask[-1],), places, places, True)
    mask = (*block_mask[:-1], mask_module)
    return call(
        _flex_attention_op, query, key, value, score_module, mask, scale, kernel_options, score_buffers, mask_buffers
    )


def wrap(hop, function, *args, **kwargs):
    """torch._higher_order_ops.wrap: a call of a function as one node, which does nothing but compute."""
    body, module, used = _whole("wrap_body", function, args, kwargs, True)
    return body.rebuild(call(hop, module, *used))


def cond(pred, true_fn, false_fn, operands=()):
    if not isinstance(operands, (tuple, list)):
        refuse("operands of torch.cond that are no tuple")
    if isinstance(pred, (bool, int, float)) and not is_open(pred):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not is_open(pred) and (not isinstance(pred, torch.Tensor) or pred.numel() != 1):
        refuse("a condition of torch.cond that is no tensor of one element")
    yes, no = Flat(true_fn, operands, {}), Flat(false_fn, operands, {})
    names = ("cond_true", "cond_false")
    true_module, false_module, extras = capture_with_sizes(names, (yes, no), yes.tensors, yes.tensors, True)
    if yes.output_spec != no.output_spec or not yes.all_tensors() or not no.all_tensors():
        refuse("branches of torch.cond with other results than tensors of one structure")
    results = call(_cond_op, pred, true_module, false_module, yes.tensors + extras)
    return yes.rebuild(results)


def _first(tensors):
    return tensors[0]


def while_loop(cond_fn, body_fn, carried_inputs):
    test, body = Flat(cond_fn, carried_inputs, {}, _first), Flat(body_fn, carried_inputs, {})
    if len(test.tensors) != len(test.leaves):
        refuse("a while_loop that carries other values than tensors")
    test_module, body_module, extras = capture(("cond_fn", "body_fn"), (test, body), test.tensors, test.tensors, True)
    if not body.all_tensors() or len(body.outputs) != len(body.tensors):
        refuse("a while_loop whose body gives other values than tensors")
    results = call_like(_while_loop_op, _transforms.one_round, test_module, body_module, test.tensors, extras)
    return body.rebuild(results)


def _moved(leaves, dim, reverse):
    moved = [torch.movedim(leaf, dim, 0) if dim != 0 else leaf for leaf in leaves]
    return [torch.flip(leaf, [0]) for leaf in moved] if reverse else moved


def _moved_back(leaf, dim, reverse):
    if reverse:
        leaf = leaf.flip([0])
    return torch.movedim(leaf, 0, dim) if dim != 0 and dim < leaf.ndim else leaf


def _scanned_dim(leaves, dim):
    if not leaves:
        refuse("a scan over nothing")
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor) or not -leaf.ndim <= dim < leaf.ndim or leaf.shape[dim] == 0:
            refuse("a scan over what has no such dim")
    return dim % leaves[0].ndim


class _Specs:
    """The structures that a body gave."""

    carried = made = None


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    first, first_spec = tree_flatten(init)
    leaves, spec = tree_flatten(xs)
    dim = _scanned_dim(leaves, dim)
    for leaf in first:
        if not isinstance(leaf, torch.Tensor):
            refuse("a scan that starts from other values than tensors")
    leaves = _moved(leaves, dim, reverse)
    count = len(first)
    seen = _Specs()

    def body(*tensors):
        carry, out = combine_fn(
            tree_unflatten(list(tensors[:count]), first_spec), tree_unflatten(list(tensors[count:]), spec)
        )
        carried, carried_spec = tree_flatten(carry)
        made, made_spec = tree_flatten(out)
        seen.carried, seen.made = carried_spec, made_spec
        return [*carried, *made]

    samples = (*first, *[leaf.select(0, 0) for leaf in leaves])
    module, extras = capture(("scan_combine_fn",), (body,), (*first, *leaves), samples, True)
    results = call(_scan_op, module, list(first), leaves, list(extras))
    stacked = [_moved_back(leaf, dim if _SCAN_RESTORES_DIM else 0, reverse) for leaf in results[count:]]
    return tree_unflatten(list(results[:count]), seen.carried), tree_unflatten(stacked, seen.made)


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    leaves, spec = tree_flatten(xs)
    dim = _scanned_dim(leaves, dim)
    leaves = _moved(leaves, dim, reverse)
    count = len(leaves)

    def combine(*tensors):
        pair = tree_unflatten(list(tensors[:count]), spec), tree_unflatten(list(tensors[count:]), spec)
        return list(tree_flatten(combine_fn(*pair))[0])

    if combine_mode == "generic":
        results = generic_associative_scan(torch.vmap(combine), leaves)
    elif combine_mode == "pointwise" and leaves[0].device.type in ("cuda", "xpu"):
        samples = tuple([leaf.select(0, 0) for leaf in leaves])
        module, extras = capture(
            ("associative_scan_combine_fn",), (combine,), (*leaves, *leaves), samples + samples, True
        )
        results = call(_associative_scan_op, module, leaves, extras)
    else:
        refuse("associative_scan with this combine_mode")
    return tree_unflatten([_moved_back(leaf, dim, reverse) for leaf in results], spec)


def map_over(f, xs, *args):
    leaves, spec = tree_flatten(xs)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor) or leaf.ndim == 0 or leaf.shape[0] == 0:
            refuse("map over what has no first dim")

    def one(*tensors):
        return f(tree_unflatten(list(tensors), spec), *args)

    body = Flat(one, tuple(leaves), {})
    module, extras = capture(("map_body",), (body,), body.tensors, tuple([leaf.select(0, 0) for leaf in leaves]), True)
    if not body.all_tensors():
        refuse("map with other results than tensors")
    return body.rebuild(call(_map_op, module, leaves, list(extras)))


# ---- the operators behind the functions


def trace_wrapped(operator, *args, fn, **kwargs):
    """A function that AOTAutograd did not look into, in a graph of compiled autograd's: here it is looked into."""
    return fn(*args, **kwargs)


def call_now(fn, args, kwargs=None):
    return fn(*args, **(kwargs or {}))


def call_with(fn, *args):
    return fn(*args)


def cond_op(hop, pred, true_fn, false_fn, operands=()):
    return cond(pred, true_fn, false_fn, operands)


def while_loop_op(hop, cond_fn, body_fn, carried_inputs, additional_inputs=()):
    if not additional_inputs:
        return while_loop(cond_fn, body_fn, carried_inputs)

    def test(*carried):
        return cond_fn(*carried, *additional_inputs)

    def body(*carried):
        return body_fn(*carried, *additional_inputs)

    return while_loop(test, body, carried_inputs)


def scan_op(hop, combine_fn, init, xs, additional_inputs=()):
    count = len(init)

    def combine(carry, x):
        results = combine_fn(*carry, *x, *additional_inputs)
        return list(results[:count]), list(results[count:])

    carried, made = scan(combine, list(init), list(xs))
    return [*carried, *made]


def associative_scan_op(hop, combine_fn, xs, additional_inputs=()):
    def combine(left, right):
        return combine_fn(*left, *right, *additional_inputs)

    return associative_scan(combine, list(xs), 0)


def map_impl_op(hop, f, xs, pos_args=()):
    def one(x, *rest):
        return f(*x, *rest)

    return map_over(one, list(xs), *pos_args)


def out_dtype_op(hop, op, output_dtype, *args):
    return call(hop, op, output_dtype, *args)
