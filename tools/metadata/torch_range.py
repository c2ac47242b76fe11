"""For scikit-build-core: a wheel depends on the torch minor that it is built with, and on no other."""

import importlib.metadata


def torch_range(version):
    major, minor = map(int, version.split("+")[0].split(".")[:2])
    return f"torch>={major}.{minor},<{major}.{minor + 1}"


def dynamic_metadata(field, settings=None, project=None):
    if field != "dependencies":
        raise RuntimeError(f"only dependencies come from here, not {field}")
    return [torch_range(importlib.metadata.version("torch"))]


def get_requires_for_dynamic_metadata(settings=None):
    return []
