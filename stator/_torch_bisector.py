"""torch's own bisector (`torch._inductor.compiler_bisector`), which runs a program again and again with other backends
and with parts of inductor switched off. What it asks for is in variables, files or the module itself; the module, which
imports inductor, is imported only if one of them is there."""

import os
import tempfile

from stator._loaded import loaded

_NAME = "torch._inductor.compiler_bisector"


def _status_file():
    """What `python -m torch._inductor.compiler_bisector start` leaves in inductor's folder."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if not folder:
        import pwd  # getpass, which torch asks, takes milliseconds to load

        names = (os.environ.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME"))
        try:
            user = next(filter(None, names), None) or pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            user = f"uid_{os.getuid()}"
        folder = os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")
    return os.path.join(folder, "bisect", "bisect_status.txt")


def _bisector():
    """None: nobody has asked for it."""
    module = loaded(_NAME)
    if module is None and "TORCH_BISECT_BACKEND" not in os.environ and not os.path.exists(_status_file()):
        return None
    from torch._inductor.compiler_bisector import CompilerBisector

    return CompilerBisector


def backend_for(asked):
    """The backend that is to be tried now, or the one that was asked for."""
    bisector = _bisector()
    tried = bisector.get_backend() if bisector is not None else None
    if not tried:
        return asked
    if tried == "inductor" and not isinstance(asked, str | None):
        import torch._inductor.config as inductor_config

        if inductor_config.test_configs.bisect_keep_custom_backend_for_inductor:
            return asked
    return tried


def under_way():
    """Whether what is compiled now is compiled in some special way, and has to be compiled anew each time."""
    module = loaded(_NAME)
    return module is not None and module.CompilerBisector.bisection_enabled
