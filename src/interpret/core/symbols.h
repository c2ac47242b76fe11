// Symbolic ints as values of the trace.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Symbols are small enough that sums and products of a few of them fit into 64 bits.
constexpr int64_t kLargestSymbol = (int64_t{1} << 31) - 1;
// An int that may be one, with its value.
bool isSymbolicSize(PyObject* object, int64_t& value);

// symbolic ints (symbolic/sym_int.h)
// as a value of the trace: a SymInt, or a plain int
Ref<> symInt(Tracer& tracer, symbolic::Dim dim);
// the number that it is now, and has to be from here on; symbolic::Undecided where there is none yet
Ref<> concrete(Tracer& tracer, PyObject* symbol);
// the same for all SymInts in it, in place; false: there were none
bool makeConcrete(Tracer& tracer, PyObject* container, int depth = 0);
// A graph that is exported serves all sizes and has no plan around it: a size that the program gives out is an output
// of the graph, a comparison of sizes a bool of the graph until the program asks for its truth, and every symbol an
// input. Of this thread's captures.
void setForExport(bool is);
bool forExport();
// null: not for symbols
Ref<> symBinary(Tracer& tracer, int operation, PyObject* left, PyObject* right);
// True or False; null: not for symbols
Ref<> openCompare(Tracer& tracer, int operation, const symbolic::Expr* left,
                  const symbolic::Expr* right);
// The same of two values of the trace; null: they are no symbolic ints.
Ref<> openCompare(Tracer& tracer, int operation, PyObject* left, PyObject* right);
Ref<> symCompare(Tracer& tracer, int operation, PyObject* left, PyObject* right);

}  // namespace stator::interpret
