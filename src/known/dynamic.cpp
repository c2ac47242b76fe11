#include "known/dynamic.h"

#include "base/stack_room.h"

namespace stator::known {

uint64_t sourceKey(const sources::Source& source) {
  needStack();
  uint64_t key = source.base != nullptr ? sourceKey(*source.base) : 0x9e3779b97f4a7c15u;
  auto mix = [&](uint64_t word) { key = (key ^ word) * 0xd6e8feb86659fd93u, key ^= key >> 32; };
  mix(static_cast<uint64_t>(source.kind));
  mix(static_cast<uint64_t>(source.index));
  if (source.key) {
    const Py_hash_t hash =
        PyUnicode_CheckExact(source.key.get())
            ? PyObject_Hash(source.key.get())
            : static_cast<Py_hash_t>(reinterpret_cast<intptr_t>(source.key.get()));
    mix(static_cast<uint64_t>(hash));
  }
  return key;
}

}  // namespace stator::known
