"""torch.func: a transform's function becomes a graph module, and the transform of it a node of the graph."""

import torch
from torch._functorch.vmap import _broadcast_to_and_flatten, _process_batched_inputs
from torch.utils._pytree import tree_flatten, tree_unflatten

from stator import _transforms

from .higher_order import Flat
from .subgraphs import call, capture_transformed, refuse


def broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Of torch's pytrees: the values of `tree`, each as often as there are leaves below its place in the structure.
    None: no fit."""
    if is_leaf is not None:
        refuse("leaves of a pytree by a function")
    return _broadcast(tree, tree_unflatten([0] * treespec.num_leaves, treespec))


def _broadcast(tree, full):
    if type(tree) is tuple or type(tree) is list:
        if type(full) is not type(tree) or len(full) != len(tree):
            return None
        pairs = list(zip(tree, full))
    elif type(tree) is dict:
        if type(full) is not dict or set(tree) != set(full):
            return None
        pairs = [(tree[key], full[key]) for key in full]
    else:
        return [tree] * len(tree_flatten(full)[0])
    flat = []
    for own, part in pairs:
        values = _broadcast(own, part)
        if values is None:
            return None
        flat += values
    return flat


def _one_of(tensor, dim):
    if tensor.shape[dim] > 0:
        return tensor.select(dim, 0)
    return tensor.new_empty([size for i, size in enumerate(tensor.shape) if i != dim])


def vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    _, dims, leaves, _ = _process_batched_inputs(in_dims, args, func)
    # Keyword arguments are given whole, whatever torch's documentation says of them.
    named, _ = tree_flatten(kwargs)
    dims = list(dims) + [None for _ in named]
    body = Flat(func, args, kwargs)
    dims = [dims[place] for place in body.places]
    samples = [tensor if dim is None else _one_of(tensor, dim) for tensor, dim in zip(body.tensors, dims)]
    wrapped = tuple([None if dim is None else False for dim in dims])
    module, extras = capture_transformed(("vmap_body",), (body,), body.tensors, tuple(samples), False, wrapped)
    if not body.all_tensors():
        refuse("vmap over a function that gives other values than tensors")
    out = _broadcast_to_and_flatten(out_dims, body.output_spec)
    if out is None:
        refuse("out_dims that do not fit the results of the function")
    dims = (*dims, *[None for _ in extras])
    results = call(_transforms.vmap, module, dims, tuple(out), randomness, chunk_size, *body.tensors, *extras)
    return body.rebuild(results)


def _differentiated(args, argnums):
    """Positions, among the tensors of (args, {}), of those that belong to the arguments with these numbers; and their
    structure."""
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    chosen = [number % len(args) if -len(args) <= number < len(args) else len(args) for number in chosen]
    positions, at, structures = [], 0, {}
    for number, arg in enumerate(args):
        leaves, spec = tree_flatten(arg)
        own = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                own.append(at)
                at += 1
        structures[number] = own, spec, len(leaves)
    specs = []
    for number in chosen:
        if number not in structures:
            refuse("argnums beyond the arguments")
        own, spec, count = structures[number]
        if len(own) != count:
            refuse("gradients with respect to what is no tensor")
        positions += own
        specs.append((spec, count))
    return positions, specs


def _differentiable(name, body, positions, pure=False):
    wrapped = tuple([place in positions for place in range(len(body.tensors))])
    return capture_transformed((name,), (body,), body.tensors, body.tensors, pure, wrapped)


def _shaped(tensors, specs, argnums):
    rest = iter(tensors)
    results = [tree_unflatten([next(rest) for _ in range(count)], spec) for spec, count in specs]
    return results[0] if isinstance(argnums, int) else tuple(results)


def grad_and_value_impl(func, argnums, has_aux, args, kwargs):
    positions, specs = _differentiated(args, argnums)
    seen = []

    def scalar_first(*given, **named):
        output = func(*given, **named)
        if has_aux:
            output, aux = output
            leaves, spec = tree_flatten(aux)
            seen.append((leaves, spec))
        else:
            leaves = []
        if not isinstance(output, torch.Tensor) or output.dim() != 0:
            refuse("the gradient of what is no scalar tensor")
        return (output, *[leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])

    body = Flat(scalar_first, args, kwargs)
    module, extras = _differentiable("grad_body", body, positions)
    results = call(_transforms.grad_and_value, module, tuple(positions), *body.tensors, *extras)
    grads = _shaped(results[: len(positions)], specs, argnums)
    value = results[len(positions)]
    if not has_aux:
        return grads, value
    leaves, spec = seen[0]
    rest = iter(results[len(positions) + 1 :])
    aux = tree_unflatten([next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec)
    return grads, (value, aux)


def grad_impl(func, argnums, has_aux, args, kwargs):
    grads, rest = grad_and_value_impl(func, argnums, has_aux, args, kwargs)
    return (grads, rest[1]) if has_aux else grads


def _outputs_first(func, has_aux, name):
    """The function with a flat result, outputs and then aux; and a list that gets (outputs, their spec, that of aux)
    when it is called."""
    seen = []

    def outputs_first(*given):
        output = func(*given)
        aux = ()
        if has_aux:
            if not isinstance(output, tuple) or len(output) != 2:
                refuse(name + " of a function without aux")
            output, aux = output
        leaves, spec = tree_flatten(output)
        others, others_spec = tree_flatten(aux)
        for leaf in [*leaves, *others]:
            if not isinstance(leaf, torch.Tensor):
                refuse(name + " of a function that gives other values than tensors")
        seen.append((len(leaves), spec, others_spec))
        return (*leaves, *others)

    return outputs_first, seen


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    if strict or not isinstance(primals, tuple):
        refuse("jvp with these options")
    outputs_first, seen = _outputs_first(func, has_aux, "jvp")
    body = Flat(outputs_first, primals, {})
    directions, _ = tree_flatten(tangents)
    if len(body.tensors) != len(body.leaves) or len(directions) != len(body.tensors):
        refuse("jvp with other arguments than tensors")
    module, extras = _differentiable("jvp_body", body, ())
    count, spec, others_spec = seen[0]
    results = call(_transforms.jvp, module, count, len(directions), *body.tensors, *directions, *extras)
    outputs = tree_unflatten(list(results[:count]), spec)
    products = tree_unflatten(list(results[count : 2 * count]), spec)
    if has_aux:
        return outputs, products, tree_unflatten(list(results[2 * count :]), others_spec)
    return outputs, products


def vjp(func, *primals, has_aux=False):
    """The outputs, and a function that computes the products when it gets its vectors: from the inputs again, since the
    graph has no place for autograd's own state."""
    outputs_first, seen = _outputs_first(func, has_aux, "vjp")
    body = Flat(outputs_first, primals, {})
    if len(body.tensors) != len(body.leaves):
        refuse("vjp with other arguments than tensors")
    specs = [tree_flatten(primal) for primal in primals]
    module, extras = _differentiable("vjp_body", body, range(len(body.tensors)), pure=True)
    count, spec, others_spec = seen[0]
    results = call(_transforms.vjp_outputs, module, count, len(body.tensors), *body.tensors, *extras)
    outputs = tree_unflatten(list(results[:count]), spec)

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        return _transforms.product(func, has_aux, primals, (module, count, body.tensors, extras, specs), cotangents)

    if has_aux:
        return outputs, vjp_fn, tree_unflatten(list(results[count:]), others_spec)
    return outputs, vjp_fn


def _product(func, has_aux, primals, parts, cotangents):
    module, count, tensors, extras, specs = parts
    vectors, _ = tree_flatten(cotangents)
    if len(vectors) != count:
        refuse("vectors that do not fit the outputs of vjp's function")
    rest = iter(call(_transforms.vjp, module, count, len(tensors), *tensors, *extras, *vectors))
    return tuple([tree_unflatten([next(rest) for _ in leaves], own) for leaves, own in specs])


def _jacobian(which, func, argnums, has_aux, args, kwargs):
    if has_aux:
        refuse("a Jacobian with aux")
    positions, specs = _differentiated(args, argnums)
    body = Flat(func, args, kwargs)
    module, extras = _differentiable("jac_body", body, () if which is _transforms.jacfwd else positions)
    if not body.all_tensors():
        refuse("a Jacobian of other values than tensors")
    results = call(which, module, tuple(positions), *body.tensors, *extras)
    count = len(positions)
    rows = [_shaped(results[i * count : (i + 1) * count], specs, argnums) for i in range(len(body.outputs))]
    return tree_unflatten(rows, body.output_spec)


def jacrev(func, argnums=0, has_aux=False, *, chunk_size=None, _preallocate_and_copy=False):
    def wrapper(*args, **kwargs):
        return _transforms.jacobian(_transforms.jacrev, func, argnums, has_aux, args, kwargs)

    return wrapper


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    def wrapper(*args, **kwargs):
        return _transforms.jacobian(_transforms.jacfwd, func, argnums, has_aux, args, kwargs)

    return wrapper


def hessian(func, argnums=0):
    return jacfwd(jacrev(func, argnums), argnums)
