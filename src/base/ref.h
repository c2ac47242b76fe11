// Ownership of Python objects as types: `Ref` owns one reference, a pointer owns none.
// There is no conversion from a Ref to a pointer: `get()` in an argument shows who keeps the object alive.
// Relies on the GIL being held wherever a Ref is copied or dies.
#pragma once

#include "base/python.h"

#include <cstddef>
#include <utility>

namespace stator {

template <class T = PyObject>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(const Ref& other) : ptr_(other.ptr_) { incref(); }
  Ref(Ref&& other) noexcept : ptr_(std::exchange(other.ptr_, nullptr)) {}
  ~Ref() { decref(); }
  Ref& operator=(const Ref& other) {
    Ref copy(other);
    swap(copy);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    Ref moved(std::move(other));
    swap(moved);
    return *this;
  }

  // Takes over the reference that the caller owns (what most CPython calls return).
  static Ref steal(T* ptr) {
    Ref ref;
    ref.ptr_ = ptr;
    return ref;
  }
  static Ref steal(PyObject* ptr)
    requires(!std::is_same_v<T, PyObject>)
  {
    return steal(reinterpret_cast<T*>(ptr));
  }
  // Makes a reference of its own to what is only borrowed.
  static Ref create(T* ptr) {
    Ref ref;
    ref.ptr_ = ptr;
    ref.incref();
    return ref;
  }

  T* get() const { return ptr_; }
  T* operator->() const { return ptr_; }
  explicit operator bool() const { return ptr_ != nullptr; }
  PyObject* object() const { return reinterpret_cast<PyObject*>(ptr_); }
  T* release() { return std::exchange(ptr_, nullptr); }
  void reset() { Ref().swap(*this); }
  void swap(Ref& other) noexcept { std::swap(ptr_, other.ptr_); }

 private:
  void incref() { Py_XINCREF(object()); }
  void decref() { Py_XDECREF(object()); }
  T* ptr_ = nullptr;
};

// Short for Ref<>::create in argument lists.
inline Ref<> newRef(PyObject* ptr) { return Ref<>::create(ptr); }
inline Ref<> stealRef(PyObject* ptr) { return Ref<>::steal(ptr); }

}  // namespace stator
