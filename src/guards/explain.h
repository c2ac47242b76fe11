// Guards in the user's terms.
#pragma once

#include "guards/program.h"

#include <string>

namespace stator::guards {

// An object by its value where its repr runs no user code, otherwise by its name or type; never by its address.
std::string show(PyObject* value);
std::string repr(PyObject* object);                 // at most 200 characters
std::string typeName(PyTypeObject* type);           // without its module
std::string qualifiedTypeName(PyTypeObject* type);  // builtins and __main__ go without saying
std::string withArticle(const std::string& name);   // a Model, an Entry
std::string utf8(PyObject* text);
std::string differs(const std::string& what, const std::string& was, const std::string& is);
// Whether the guard holds for what its source leads to now, as far as the value tells; false for kinds of which it does
// not.
bool holdsFor(const Guard& guard, PyObject* seen);
// One guard as a Python expression: `type(L['self']) is Model`, `L['n'] == 3`.
std::string describe(const Guard& guard, PyCodeObject* code);
// Why `failed` did not hold: `L['self'].scale: was 2, is 3`.
std::string explainFailure(const GuardProgram::Impl& program, const Op& failed,
                           const GuardProgram::Impl::Origin& origin, const sources::Roots& roots);

}  // namespace stator::guards
