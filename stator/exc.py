"""Exceptions that Stator raises. Where TorchDynamo has a counterpart, the class has its name and takes its
constructor's arguments, so that code which catches or raises it by name works with either.

`StatorError` is the base; `TorchDynamoException` is the same class under the name that users know.
"""

import difflib
import enum
import functools

from stator import _torch_versions

__all__ = [
    "AccuracyError",
    "ArgsMismatchError",
    "AttributeMutationError",
    "BackendCompilerFailed",
    "CondOpArgsMismatchError",
    "ConstraintViolation",
    "DataDependentBranch",
    "FailOnRecompileLimitHit",
    "IncorrectUsage",
    "InfiniteGeneratorError",
    "InternalError",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "ObservedException",
    "PackageError",
    "RankLost",
    "RanksDiverged",
    "RecompileError",
    "RecompileLimitExceeded",
    "ResetRequired",
    "RestartAnalysis",
    "ShortenTraceback",
    "SkipFrame",
    "StatorError",
    "StepUnsupported",
    "TorchDynamoException",
    "TorchRuntimeError",
    "UncapturedHigherOrderOpError",
    "UnsafeScriptObjectError",
    "Unsupported",
    "UserError",
    "UserErrorType",
]


def nearest(name, known):
    """The known name that the given one was most likely meant to be, or None."""
    found = difflib.get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.6)
    return found[0] if found else None


def _restore(cls, args):
    # Not through the constructor, whose arguments are not what BaseException keeps.
    error = cls.__new__(cls)
    BaseException.__init__(error, *args)
    return error


# CPython lets a class change its bases (_held_classes.py) where the first one is a class made in Python, and stays.
class _RuntimeError(RuntimeError):
    pass


class _Exception(Exception):
    pass


class StatorError(_RuntimeError):
    """Base of all errors that Stator itself raises."""

    def __init__(self, *args, **kwargs):
        # Not the next class's: after stator.install() that is TorchDynamo's, with arguments of its own.
        RuntimeError.__init__(self, *args, **kwargs)
        self.frame_exec_strategy = None

    def __reduce__(self):
        # Frames do not pickle, and an exception that crossed a process has no use for them.
        state = {k: v for k, v in self.__dict__.items() if k != "first_useful_frame"}
        return _restore, (type(self), self.args), state


TorchDynamoException = StatorError


class InternalError(StatorError):
    """Stator is wrong. Reaches the user only under STATOR_STRICT=1; otherwise the call runs eagerly and one warning
    tells of it."""


InternalTorchDynamoError = InternalError


class _WithStack(StatorError):
    def __init__(self, msg, real_stack=None):
        super().__init__(msg)
        self.msg = msg
        self.real_stack = real_stack


class Unsupported(StatorError):
    """Something could not be captured where a break is not allowed (fullgraph=True, error_on_graph_break)."""

    def __init__(self, msg, gb_type="", skip_frame=False, *, case_name=None, real_stack=None):
        super().__init__(msg)
        self.msg = msg
        self.gb_type = gb_type
        self.skip_frame = skip_frame
        self.case_name = case_name
        self.real_stack = real_stack
        self.category = None
        self.logged = False


class ArgsMismatchError(Unsupported):
    """A captured call does not fit its function's signature."""


class AttributeMutationError(Unsupported):
    """An attribute was written that capture cannot follow."""


class RanksDiverged(StatorError):
    """Ranks that should capture one program capture different ones (config.enable_compiler_collectives)."""


class RankLost(StatorError):
    """A rank did not come to an exchange within config.compiler_collectives_timeout; the message names it."""


class RecompileLimitExceeded(Unsupported):
    """fullgraph=True, and the function has more variants than config.recompile_limit allows."""


class TorchRuntimeError(_WithStack):
    """A tensor operation failed while its result was inferred, as it would fail when run."""


class UncapturedHigherOrderOpError(_WithStack):
    """A higher-order operator (torch.cond, ...) whose body could not be captured whole."""


class StepUnsupported(_WithStack):
    """A break that the program asked for."""

    def __init__(self, msg, real_stack=None):
        super().__init__(msg, real_stack)
        self.logged = False


class UserErrorType(enum.Enum):
    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


_EXAMPLES = "https://pytorch.org/docs/main/generated/exportdb/index.html#"


class UserError(Unsupported if _torch_versions.USER_ERRORS_ARE_UNSUPPORTED else StatorError):  # type: ignore[misc]
    """Fine in eager, but asks of capture what it does not do; the message says what to do instead."""

    def __init__(self, error_type, msg, case_name=None):
        if case_name is not None:
            msg = f"{msg}\nAn example: {_EXAMPLES}{case_name.replace('_', '-')}"
        super().__init__(msg)
        self.error_type = error_type
        self.msg = self.message = msg
        self.real_stack = None
        self.skip_frame = False
        self.logged = False


class DataDependentBranch(UserError, Unsupported):
    """A branch on what only the data tell, where a break is not allowed. TorchDynamo's is one of these two, by what was
    asked."""

    def __init__(self, msg):
        super().__init__(UserErrorType.DYNAMIC_CONTROL_FLOW, msg)


class ConstraintViolation(UserError):
    """A size that is marked dynamic is made static by the program, or violates the range it is marked with.

    Whoever catches torch's own ConstraintViolationError catches it too.
    """

    def __new__(cls, *args):
        if cls is ConstraintViolation:
            cls = _constraint_violation()
        return super().__new__(cls, *args)

    def __init__(self, msg):
        super().__init__(UserErrorType.CONSTRAINT_VIOLATION, msg)


@functools.cache
def _constraint_violation():
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    return type("ConstraintViolation", (ConstraintViolation, ConstraintViolationError), {"__module__": __name__})


class ShortenTraceback(StatorError):
    """An error whose traceback is of use only from `first_useful_frame` on."""

    def __init__(self, *args, first_useful_frame=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.first_useful_frame = first_useful_frame

    def remove_dynamo_frames(self):
        traceback = self.__traceback__
        while traceback is not None and traceback.tb_frame is not self.first_useful_frame:
            traceback = traceback.tb_next
        return self if traceback is None else self.with_traceback(traceback)


class BackendCompilerFailed(ShortenTraceback):
    """The backend raised; its error is `inner_exception` and the cause."""

    def __init__(self, backend_fn, inner_exception, first_useful_frame=None):
        name = getattr(backend_fn, "compiler_name", None) or getattr(backend_fn, "__name__", None)
        self.backend_name = name or type(backend_fn).__name__
        self.inner_exception = inner_exception
        text = f"backend={self.backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}"
        if "InvalidCxxCompiler" in text:
            text += (
                "\n  What to do: install a C++ compiler, or name one with CXX=...; `stator doctor` tries it. "
                'Without one, backend="aot_eager" or "eager" runs the graphs as they are.'
            )
        super().__init__(text, first_useful_frame=first_useful_frame)


class AccuracyError(StatorError):
    """A compiled graph's results differ from eager's (config.repro_level = 4); `minifier_path` is the script that shows
    it, or None."""

    def __init__(self, msg="", minifier_path=None):
        super().__init__(msg)
        self.minifier_path = minifier_path


class InvalidBackend(StatorError):
    def __init__(self, name, known=()):
        text = f"Invalid backend: {name!r}"
        if known:
            text += f"; known are {', '.join(sorted(known))}"
            if near := nearest(name, known):
                text += f". Did you mean {near!r}?"
        super().__init__(text)
        self.backend_name = name


class ResetRequired(StatorError):
    """Never raised here: compiled functions with different backends live side by side."""

    def __init__(self):
        super().__init__("Call stator.reset() before changing the backend.")


class RecompileError(StatorError):
    """A recompilation under config.error_on_recompile or the stance fail_on_recompile."""


class FailOnRecompileLimitHit(_Exception):
    """config.recompile_limit was hit under fullgraph=True or config.fail_on_recompile_limit_hit."""


class IncorrectUsage(_Exception):
    """An API of Stator was used in a way that cannot work."""


class SkipFrame(StatorError):
    """Raised by a backend: run this code eagerly from now on. Not an error, not a break."""


class InfiniteGeneratorError(StatorError):
    """A generator that capture had to exhaust went past the trace's limits."""


class CondOpArgsMismatchError(StatorError):
    """The branches of torch.cond do not agree in arguments or results."""


class UnsafeScriptObjectError(StatorError):
    """A script object that cannot be put into a graph."""


class UnknownPropertiesDuringBackwardTrace(StatorError):
    """What a backward hook would see is not known while its graph is made."""


class PackageError(StatorError):
    """A saved compilation does not fit this program."""


class ResumePrologueTracingError(StatorError):
    """Never raised here: there are no resume functions. For code that catches it."""


# TorchDynamo's tracer speaks to itself in the classes below. Stator's does not; they are here for backends and tests
# that name them.
class RestartAnalysis(StatorError):
    def __init__(self, *args, restart_reason=None):
        super().__init__(*args)
        self.restart_reason = restart_reason


class SpeculationRestartAnalysis(RestartAnalysis):
    pass


class AutogradGradRestartAnalysis(RestartAnalysis):
    pass


class RequiresGradRestartAnalysis(RestartAnalysis):
    pass


class UnspecializeRestartAnalysis(RestartAnalysis):
    pass


class CompileCollectiveRestartAnalysis(RestartAnalysis):
    pass


class TensorifyScalarRestartAnalysis(RestartAnalysis):
    pass


class ObservedException(StatorError):
    """An exception that the traced program raises."""

    def __init__(self, *args, real_stack=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.real_stack = real_stack


class ObservedUserStopIteration(ObservedException):
    def __init__(self, *args, real_stack=None, **kwargs):
        super().__init__("StopIteration left the traced program", real_stack=real_stack)
        self.value = args[0] if args else None


class ObservedLookupError(ObservedException):
    pass


class ObservedIndexError(ObservedLookupError):
    pass


class ObservedKeyError(ObservedLookupError):
    pass


class ObservedGeneratorExit(ObservedException):
    pass


class ObservedAttributeError(ObservedException):
    pass


class ObservedRuntimeError(ObservedException):
    pass


class ObservedNotImplementedError(ObservedException):
    pass


class ObservedTypeError(ObservedException):
    pass
