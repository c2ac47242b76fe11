// Types and objects of torch and the standard library that the tracer has to recognise; resolved once, at the first
// capture.
#pragma once

#include "base/python.h"

namespace stator::known {

bool initKnownTypes();  // false with a Python error set

PyTypeObject* tensorType();             // torch.Tensor
PyTypeObject* parameterType();          // torch.nn.Parameter
PyTypeObject* moduleType();             // torch.nn.Module
bool isLayerClass(PyTypeObject* type);  // of torch's own layers; containers are none
PyTypeObject* deviceType();             // torch.device
PyTypeObject* sizeType();               // torch.Size
PyTypeObject* dequeType();
PyTypeObject* generatorType();
PyTypeObject* partialType();  // functools.partial
PyTypeObject* enumType();     // enum.Enum
PyTypeObject* lruCacheType();
PyTypeObject* compiledFunctionType();  // functools._lru_cache_wrapper
PyTypeObject* defaultDictType();
PyTypeObject* mappingProxyType();
PyTypeObject* itemGetterType();  // operator.itemgetter
PyTypeObject* attrGetterType();
PyTypeObject* methodCallerType();

bool isGraphModule(PyObject* object);  // a torch.fx.GraphModule
inline bool isModule(PyObject* object) { return PyObject_TypeCheck(object, moduleType()); }
inline bool isDeque(PyObject* object) { return PyObject_TypeCheck(object, dequeType()); }
bool isDictView(PyObject* object);  // keys, values or items of a dict or OrderedDict
bool isEnumMember(PyObject* object);
bool isNamedTuple(PyObject* object);  // a tuple subclass with _fields, or a struct sequence
bool isStructSequence(PyObject* object);
// Tensor, Parameter, Buffer, or a subclass without __torch_function__/__torch_dispatch__ of its own
bool hasOwnDispatch(PyTypeObject* type);  // a tensor type with __torch_dispatch__
bool isPlainTensorType(PyTypeObject* type);
// a built-in method bound to an object that is neither a module nor a class
bool isBoundBuiltin(PyObject* object);
bool isTypingObject(PyObject* object);
// an immutable value of a C type that runs no user code: compiled pattern, decimal, date ...
bool isOpaqueConstant(PyObject* object);
// How a DTensor lies on its mesh; a value that nobody changes
bool isPlacement(PyObject* object);
bool isPlacementType(PyTypeObject* type);
// constants, types, enum members, functions: hash and equality run no user code
bool isStaticKey(PyObject* key);
PyTypeObject* itertoolsType(const char* name);

// Has a __torch_function__ that torch would ask.
bool isOverloadedType(PyTypeObject* type);

}  // namespace stator::known
