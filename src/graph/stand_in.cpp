// Every slot that C code could touch raises and sets the flag. Exempt are the hash (by identity: stand-ins may be
// keys), and garbage collection. repr answers, for debuggers, but sets the flag too: a program that printed it would
// print something else than eager.
#include "graph/stand_in.h"

#include "base/fields.h"
#include "graph/graph.h"
#include "sources/short_lived.h"
#include "symbolic/sym_int.h"

namespace stator::graph {

namespace {

// Under the GIL like all Python state; one flag for the process suffices, since a capture never gives up the GIL inside
// a native call that it then tests for a leak without having seen its own flag first.
bool leaked = false;

void leak(const char* slot) {
  leaked = true;
  PyErr_Format(PyExc_RuntimeError,
               "stator: native code touched a stand-in (%s); this is an internal error", slot);
}

PyObject* raiseObject(const char* slot) {
  leak(slot);
  return nullptr;
}
int raiseInt(const char* slot) {
  leak(slot);
  return -1;
}

#define STATOR_UNARY(name) [](PyObject*) -> PyObject* { return raiseObject(name); }
#define STATOR_BINARY(name) [](PyObject*, PyObject*) -> PyObject* { return raiseObject(name); }
#define STATOR_TERNARY(name) \
  [](PyObject*, PyObject*, PyObject*) -> PyObject* { return raiseObject(name); }

PyNumberMethods makeNumber() {
  PyNumberMethods m = {};
  m.nb_add = STATOR_BINARY("+");
  m.nb_subtract = STATOR_BINARY("-");
  m.nb_multiply = STATOR_BINARY("*");
  m.nb_remainder = STATOR_BINARY("%");
  m.nb_divmod = STATOR_BINARY("divmod");
  m.nb_power = STATOR_TERNARY("**");
  m.nb_negative = STATOR_UNARY("unary -");
  m.nb_positive = STATOR_UNARY("unary +");
  m.nb_absolute = STATOR_UNARY("abs");
  m.nb_bool = [](PyObject*) -> int { return raiseInt("bool"); };
  m.nb_invert = STATOR_UNARY("~");
  m.nb_lshift = STATOR_BINARY("<<");
  m.nb_rshift = STATOR_BINARY(">>");
  m.nb_and = STATOR_BINARY("&");
  m.nb_xor = STATOR_BINARY("^");
  m.nb_or = STATOR_BINARY("|");
  m.nb_int = STATOR_UNARY("int");
  m.nb_float = STATOR_UNARY("float");
  m.nb_inplace_add = STATOR_BINARY("+=");
  m.nb_inplace_subtract = STATOR_BINARY("-=");
  m.nb_inplace_multiply = STATOR_BINARY("*=");
  m.nb_inplace_remainder = STATOR_BINARY("%=");
  m.nb_inplace_power = STATOR_TERNARY("**=");
  m.nb_inplace_lshift = STATOR_BINARY("<<=");
  m.nb_inplace_rshift = STATOR_BINARY(">>=");
  m.nb_inplace_and = STATOR_BINARY("&=");
  m.nb_inplace_xor = STATOR_BINARY("^=");
  m.nb_inplace_or = STATOR_BINARY("|=");
  m.nb_floor_divide = STATOR_BINARY("//");
  m.nb_true_divide = STATOR_BINARY("/");
  m.nb_inplace_floor_divide = STATOR_BINARY("//=");
  m.nb_inplace_true_divide = STATOR_BINARY("/=");
  m.nb_index = STATOR_UNARY("index");
  m.nb_matrix_multiply = STATOR_BINARY("@");
  m.nb_inplace_matrix_multiply = STATOR_BINARY("@=");
  return m;
}

PySequenceMethods makeSequence() {
  PySequenceMethods m = {};
  m.sq_length = [](PyObject*) -> Py_ssize_t { return raiseInt("len"); };
  m.sq_concat = STATOR_BINARY("concat");
  m.sq_repeat = [](PyObject*, Py_ssize_t) -> PyObject* { return raiseObject("repeat"); };
  m.sq_item = [](PyObject*, Py_ssize_t) -> PyObject* { return raiseObject("item"); };
  m.sq_ass_item = [](PyObject*, Py_ssize_t, PyObject*) -> int {
    return raiseInt("item assignment");
  };
  m.sq_contains = [](PyObject*, PyObject*) -> int { return raiseInt("in"); };
  m.sq_inplace_concat = STATOR_BINARY("in-place concat");
  m.sq_inplace_repeat = [](PyObject*, Py_ssize_t) -> PyObject* {
    return raiseObject("in-place repeat");
  };
  return m;
}

PyMappingMethods makeMapping() {
  PyMappingMethods m = {};
  m.mp_length = [](PyObject*) -> Py_ssize_t { return raiseInt("len"); };
  m.mp_subscript = STATOR_BINARY("subscript");
  m.mp_ass_subscript = [](PyObject*, PyObject*, PyObject*) -> int {
    return raiseInt("subscript assignment");
  };
  return m;
}

PyAsyncMethods makeAsync() {
  PyAsyncMethods m = {};
  m.am_await = STATOR_UNARY("await");
  m.am_aiter = STATOR_UNARY("aiter");
  m.am_anext = STATOR_UNARY("anext");
  return m;
}

PyNumberMethods number_methods = makeNumber();
PySequenceMethods sequence_methods = makeSequence();
PyMappingMethods mapping_methods = makeMapping();
PyAsyncMethods async_methods = makeAsync();

PyObject* getAttribute(PyObject*, PyObject* name) {
  leaked = true;
  PyErr_Format(PyExc_RuntimeError,
               "stator: native code touched a stand-in (attribute %R); this is an internal error",
               name);
  return nullptr;
}

int setAttribute(PyObject*, PyObject*, PyObject*) { return raiseInt("attribute assignment"); }

PyObject* compare(PyObject*, PyObject*, int) { return raiseObject("comparison"); }

PyObject* describe(PyObject* self) {
  leaked = true;
  const Node* node = asStandIn(self)->node;
  return PyUnicode_FromFormat("<stator stand-in %%%d>", node != nullptr ? node->index : -1);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(asStandIn(self)->apparent_type);
  return 0;
}

int clear(PyObject* self) {
  clearField(asStandIn(self)->apparent_type);
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
}

PyTypeObject makeType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "stator._core.StandIn";
  type.tp_basicsize = sizeof(StandIn);
  type.tp_dealloc = deallocate;
  type.tp_as_async = &async_methods;
  type.tp_repr = describe;
  type.tp_as_number = &number_methods;
  type.tp_as_sequence = &sequence_methods;
  type.tp_as_mapping = &mapping_methods;
  type.tp_hash = reinterpret_cast<hashfunc>(_Py_HashPointer);
  type.tp_call = STATOR_TERNARY("call");
  type.tp_str = STATOR_UNARY("str");
  type.tp_getattro = getAttribute;
  type.tp_setattro = setAttribute;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                  Py_TPFLAGS_IMMUTABLETYPE;
  type.tp_doc = "Stands for a tensor or a symbolic scalar while a program is captured.";
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_richcompare = compare;
  type.tp_iter = STATOR_UNARY("iter");
  type.tp_iternext = STATOR_UNARY("next");
  return type;
}

}  // namespace

PyTypeObject StandInType = makeType();

Ref<> makeStandIn(Node* node, const shapes::TensorMeta* meta, PyObject* apparent_type) {
  auto* self = PyObject_GC_New(StandIn, &StandInType);
  if (self == nullptr) return nullptr;
  self->node = node;
  self->meta = meta;
  self->apparent_type = Ref<>::create(apparent_type).release();
  auto* object = reinterpret_cast<PyObject*>(self);
  // A class of a function's body may take part in a cycle. Others are not tracked: who goes through gc.get_objects()
  // asks each for its class.
  if (sources::isShortLived(apparent_type)) PyObject_GC_Track(object);
  return Ref<>::steal(object);
}

bool initStandInType() { return PyType_Ready(&StandInType) == 0 && symbolic::initSymIntType(); }

bool takeLeakFlag() {
  bool was = leaked;
  leaked = false;
  const bool of_int = symbolic::takeSymIntLeakFlag();
  return was || of_int;
}

}  // namespace stator::graph
