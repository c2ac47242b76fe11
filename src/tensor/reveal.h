// Private fields of torch's classes, where the accessors cost more than the field: an explicit instantiation may name
// them, so `template struct Reveal<Tag, &Class::field>;` defines `revealed(Tag(), object)`, which the tag declares. A
// field that torch renames fails to compile.
#pragma once

namespace stator::tensor {

template <class Tag, auto member>
struct Reveal {
  friend const auto& revealed(Tag, const typename Tag::Owner& object) { return object.*member; }
};

}  // namespace stator::tensor
