// Symbolic ints as values of the trace, as nodes of the graph and as conditions.
#pragma once

#include "interpret/core/captured.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

// symbolic ints (symbolic/sym_int.h)
// as a value of the trace: a SymInt, or a plain int
Ref<> symInt(Tracer& tracer, symbolic::Dim dim);
// as an argument of the graph: a stand-in, or a plain int
Ref<> symNode(Tracer& tracer, symbolic::Dim dim);
// a graph argument with stand-ins in place of SymInts
Ref<> lowered(Tracer& tracer, PyObject* argument);
// the number that it is now, and has to be from here on; symbolic::Undecided where there is none yet
Ref<> concrete(Tracer& tracer, PyObject* symbol);
// the same for all SymInts in it, in place; false: there were none
bool makeConcrete(Tracer& tracer, PyObject* container, int depth = 0);
void limitConditions(Tracer& tracer);
// A graph that is exported serves all sizes and has no plan around it: a size that the program gives out is an output of the graph, a
// comparison of sizes a bool of the graph until the program asks for its truth, and every symbol an input. Of this thread's captures.
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
const symbolic::Expr* addSymbol(Tracer& tracer, const sources::Source* source, int64_t hint,
                                symbolic::Range range);
// ok with null: a constant
Out intFromOutside(Tracer& tracer, PyObject* raw, const sources::Source* source);
// a tuple of ints that was another one at the last capture
bool tupleChanged(Tracer& tracer, PyObject* raw, const sources::Source* source);
// file:line in function
std::string placeOf(const graph::Location* location);
// conditions become guards; throws PythonError if a demand is not met
void finishSymbols(Tracer& tracer, Captured& captured);
graph::Node* addSymbolInput(Tracer& tracer, size_t symbol);
void addMissingSymbolInputs(Tracer& tracer);
// A function (name of a source, number of dims or -1 for an int) -> (dynamic dims, unbacked dims), for sources that are asked for by name; null: none are.
void setDynamicSources(Ref<> asks);
void shapeFromOutside(Tracer& tracer, PyObject* raw, const sources::Source* source,
                      tensor::TensorGuard& guard, shapes::TensorMeta& meta);

}  // namespace stator::interpret
