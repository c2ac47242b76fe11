"""What becomes of a warning, as the C code of warnings finds it out."""

import warnings


def is_no_error(text, category, scope, line):
    """Whether the filters let a warning pass that a line of the module with these globals gives, and nobody has his own
    way to show it."""
    if warnings.showwarning is not warnings._showwarning_orig:
        return False
    module = scope.get("__name__")
    if not isinstance(module, str):
        module = "<string>"
    for action, message, kind, name, number in warnings.filters:
        if number in (0, line) and issubclass(category, kind) and _fits(message, text) and _fits(name, module):
            return action != "error"
    return warnings.defaultaction != "error"


def _fits(pattern, text):
    if pattern is None:
        return True
    return pattern == text if isinstance(pattern, str) else pattern.match(text) is not None
