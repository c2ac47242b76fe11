#include "known/dynamic.h"

#include "base/stack_room.h"

#include <algorithm>
#include <cstring>

namespace stator::known {

namespace {

// The same for equal keys in every process: what was learned by one is known to the next (runtime/learned.h). Objects
// without such a number have their address, which nothing in another process fits.
uint64_t numberOf(PyObject* key) {
  if (PyLong_CheckExact(key)) {
    int overflow = 0;
    return static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(key, &overflow));
  }
  // A class of a function's body is held by a reference of each capture's own.
  PyObject* object = PyWeakref_Check(key) ? PyWeakref_GET_OBJECT(key) : key;
  if (!PyUnicode_CheckExact(object))
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(object));
  const auto* bytes = static_cast<const char*>(PyUnicode_DATA(key));
  size_t left = static_cast<size_t>(PyUnicode_GET_LENGTH(key)) * PyUnicode_KIND(key);
  uint64_t number = left;
  for (; left > 0; left -= std::min<size_t>(left, 8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, std::min<size_t>(left, 8));
    bytes += std::min<size_t>(left, 8);
    number = (number ^ word) * 0x9fb21c651e98df25u;
    number ^= number >> 29;
  }
  return number;
}

}  // namespace

uint64_t sourceKey(const sources::Source& source) {
  needStack();
  uint64_t key = source.base != nullptr ? sourceKey(*source.base) : 0x9e3779b97f4a7c15u;
  auto mix = [&](uint64_t word) { key = (key ^ word) * 0xd6e8feb86659fd93u, key ^= key >> 32; };
  mix(static_cast<uint64_t>(source.kind));
  mix(static_cast<uint64_t>(source.index));
  if (source.key) mix(numberOf(source.key.get()));
  return key;
}

}  // namespace stator::known
