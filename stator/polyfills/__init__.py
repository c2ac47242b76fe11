"""Python functions that are traced in place of built-in ones which call back into Python, or look into objects.

Each module is loaded when a trace first needs one of its functions (interpret/core/tables.cpp).
"""
