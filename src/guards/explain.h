// Guards in the user's terms.
#pragma once

#include "guards/program.h"

#include <string>

namespace stator::guards {

// An object by its value where its repr runs no user code, otherwise by its name or type; never by its address.
std::string show(PyObject* value);
// One guard as a Python expression: `type(L['self']) is Model`, `L['n'] == 3`.
std::string describe(const Guard& guard, PyCodeObject* code);
// Why `failed` did not hold: `L['self'].scale: was 2, is 3`.
std::string explainFailure(const GuardProgram::Impl& program, const Op& failed,
                           const GuardProgram::Impl::Origin& origin, const sources::Roots& roots);

}  // namespace stator::guards
