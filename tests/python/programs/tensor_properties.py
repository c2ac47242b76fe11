"""Facts about tensors that programs read: sizes, dtypes, devices, flags, attributes."""

import torch

from tests.python.programs import Case, leaf, mat, program, vec


@program(full=1)
def sizes():
    def f(x):
        return (
            x.shape,
            x.size(),
            x.size(0),
            x.shape[-1],
            x.dim(),
            x.ndim,
            x.numel(),
            len(x),
            x.nelement(),
            x + x.shape[0],
        )

    return Case(f, mat()).changing(mat(2, 5))


@program(full=1)
def size_object_methods():
    def f(x):
        s = x.shape
        return (
            s.numel(),
            s + (1,),
            s[:1],
            list(s),
            tuple(s),
            s == (3, 4),
            s == torch.Size([3, 4]),
            isinstance(s, tuple),
            s.index(4),
            x + sum(s),
            type(s[:1]).__name__,
            hash(s) == hash((3, 4)),
        )

    return Case(f, mat())


@program(full=1)
def arithmetic_on_sizes():
    def f(x):
        b, n = x.shape
        return x.reshape(n // 2, b * 2), b * n % 5 == 2, -b, b**2, max(b, n), min(b, 1), divmod(n, b), float(b) / n

    return Case(f, mat()).changing(mat(2, 6))


@program(full=1)
def dtype_and_device():
    def f(x):
        return (
            x.dtype,
            x.device,
            x.device.type,
            x.dtype is torch.float32,
            x.is_floating_point(),
            x.dtype.is_complex,
            x.element_size(),
            x.itemsize,
            x.layout,
            x.is_cpu,
            x.is_cuda,
            x + 1,
            x.dtype.itemsize,
        )

    return Case(f, vec()).changing(vec().double())


@program(full=1)
def dtype_tables():
    table = {torch.float32: 1, torch.float64: 2, torch.int64: 3}

    def f(x):
        return x + table[x.dtype], torch.finfo(torch.float32).eps, torch.iinfo(torch.int8).max, torch.finfo(x.dtype).min

    return Case(f, vec()).changing(vec().double())


@program(full=1)
def strides():
    def f(x):
        return (
            x.stride(),
            x.stride(0),
            x.t().stride(),
            x.is_contiguous(),
            x.t().is_contiguous(),
            x.storage_offset(),
            x[1].storage_offset(),
            x + 1,
        )

    return Case(f, mat())


@program(max_breaks=0)
def gradient_flags():
    def f(x, w):
        y = w * x
        return (
            x.requires_grad,
            w.requires_grad,
            y.requires_grad,
            w.is_leaf,
            y.is_leaf,
            y.grad_fn is None,
            w.grad is None,
            y.detach().requires_grad,
        )

    return Case(f, vec(), leaf(vec()))


@program()
def grad_fn_name():
    def f(w):
        y = w * 2
        return y.grad_fn.name(), type(y.grad_fn).__name__

    return Case(f, leaf(vec()))


@program(full=1)
def predicates():
    def f(x):
        return (
            torch.is_tensor(x),
            isinstance(x, torch.Tensor),
            torch.is_floating_point(x),
            x.is_sparse,
            x.is_complex(),
            x.is_signed(),
            type(x) is torch.Tensor,
            x.is_meta,
            x.is_quantized,
            x + 1,
            torch.is_complex(x),
            x.is_inference(),
        )

    return Case(f, vec())


@program(full=1)
def transposed_properties():
    def f(x):
        return x.T, x.mT, x.H, x.T.shape, x.real, x.T + 1

    return Case(f, mat())


@program(full=1)
def missing_attributes():
    def f(x):
        return hasattr(x, "nothing"), getattr(x, "nothing", 3), hasattr(x, "shape"), x + 1

    return Case(f, vec())


@program(full=1)
def own_attributes():
    def f(x):
        return x + x.scale, hasattr(x, "scale"), x.__dict__

    x = vec()
    x.scale = 3
    other = vec()
    other.scale = 5
    return Case(f, x).changing(other)


@program(full=1)
def own_attributes_as_dict():
    def f(x):
        own = x.__dict__
        own["more"] = x.scale + 1
        x.last = 7
        del x.scale
        y = x * own["more"]
        return y, x.more, vars(x) is own, sorted(own), hasattr(x, "scale")

    x = vec()
    x.scale = 3
    other = vec()
    other.scale = 5
    return Case(f, x).watching(x).changing(other)


@program(full=1)
def attribute_on_intermediate():
    def f(x):
        y = x + 1
        y.note = [1]
        y.note.append(2)
        return y, y.note

    return Case(f, vec())


@program()
def data_pointer():
    def f(x):
        y = x + 1
        return y.data_ptr() == x.data_ptr(), x.data_ptr() == x.view(-1).data_ptr()

    return Case(f, vec())


@program()
def reads_of_data():
    def f(x):
        return (
            x.sum().item(),
            x.tolist(),
            int(x[0]),
            float(x[1]),
            bool(x[2] > 0),
            x.max().item() + 1,
            x.equal(x),
            torch.allclose(x, x),
        )

    return Case(f, vec())


@program()
def index_protocol():
    def f(x, i):
        return [10, 20, 30][i], x[i], list(range(i + 1)), x + 1

    return Case(f, vec(), torch.tensor(1))


@program(full=1)
def autograd_names():
    def f(x):
        return x.name, x.output_nr, x._base is None, x + 1

    return Case(f, vec())


@program(full=1)
def base_of_view():
    def f(x):
        v = x[1:]
        return v._base is x, x._base, v._is_view(), v + 1

    return Case(f, vec())


@program(full=1)
def promote_and_can_cast():
    def f(x, y):
        dtype = torch.promote_types(x.dtype, y.dtype)
        return x.to(dtype) + y, torch.result_type(x, 1), torch.can_cast(torch.float64, torch.int32)

    return Case(f, vec(), vec().double())


@program(full=1)
def same_shape_checks():
    def f(x, y):
        if x.shape != y.shape:
            raise ValueError(f"{tuple(x.shape)} and {tuple(y.shape)}")
        return x + y

    return Case(f, vec(), vec()).changing(vec(), vec(3))


@program(full=1)
def subclass_plain():
    class Tagged(torch.Tensor):
        pass

    def f(x):
        y = x + 1
        return y, type(y) is type(x), isinstance(y, Tagged)

    return Case(f, vec().as_subclass(Tagged))


@program()
def subclass_with_torch_function():
    calls = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", "?"))
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x):
        return torch.relu(x + 1) * 2

    return Case(f, vec().as_subclass(Logged)).watching(calls)


@program()
def sparse_input():
    def f(x):
        return x.to_dense() + 1, x.is_sparse, x.coalesce().indices()

    return Case(f, mat().relu().to_sparse())


@program(min_ops=1)
def quantised_tensors():
    def f(x, q):
        made = torch.quantize_per_tensor(x, 0.5, 1, torch.quint8)
        numbers = made.dequantize() + q.dequantize()
        return numbers, made.dtype, made.int_repr(), q.is_quantized, q.q_scale(), made[0].dequantize(), x + 1

    return Case(f, mat(), torch.quantize_per_tensor(mat(), 0.25, 0, torch.qint8)).changing(
        mat() + 1, torch.quantize_per_tensor(mat(), 0.5, 2, torch.qint8)
    )


@program(full=1)
def parameter_and_buffer_types():
    def f(p):
        return type(p) is torch.nn.Parameter, isinstance(p, torch.Tensor), p * 2, p.data, type(p * 2) is torch.Tensor

    return Case(f, torch.nn.Parameter(vec()))


@program(full=1)
def meta_device():
    def f(x):
        m = torch.empty(3, 4, device="meta")
        return (m @ m.t()).shape, m.is_meta, x + 1

    return Case(f, vec())
