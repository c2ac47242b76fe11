#include "python/watchers.h"

#include "python/objects.h"

uint64_t stator_assignments = 0;

#if PY_MINOR_VERSION >= 12

static void (*tell)(PyObject* dict, int goes) = NULL;
static int watcher = -1;

static int on_event(PyDict_WatchEvent event, PyObject* dict, PyObject* key, PyObject* value) {
  (void)key;
  (void)value;
  tell(dict, event == PyDict_EVENT_DEALLOCATED);
  return 0;
}

// One table of CPython's with a setter that is ours now, and the setter that it had. The tables are shared by all types
// that have not their own.
typedef struct Setter {
  PyGetSetDef* table;
  setter original;
} Setter;
static Setter class_setter, dict_setter, bare_dict_setter;

static int set_and_count(Setter* which, PyObject* object, PyObject* value, void* closure) {
  stator_assignments++;
  int result = which->original(object, value, closure);
  stator_assignments++;
  return result;
}
static int set_class(PyObject* object, PyObject* value, void* closure) {
  return set_and_count(&class_setter, object, value, closure);
}
static int set_dict(PyObject* object, PyObject* value, void* closure) {
  return set_and_count(&dict_setter, object, value, closure);
}
static int set_bare_dict(PyObject* object, PyObject* value, void* closure) {
  return set_and_count(&bare_dict_setter, object, value, closure);
}

static PyGetSetDef* table_of(PyTypeObject* type, const char* name) {
  PyObject* found = PyDict_GetItemString(stator_type_dict(type), name);
  return found != NULL && Py_TYPE(found) == &PyGetSetDescr_Type
             ? ((PyGetSetDescrObject*)found)->d_getset
             : NULL;
}

static int replace(Setter* which, PyGetSetDef* table, setter by) {
  if (table == NULL || table->set == NULL) return 0;
  if (table->set == by) return 1;
  which->table = table;
  which->original = table->set;
  table->set = by;
  return 1;
}

// `slots`: of a class that has a dict and no weak references, whose table is another one.
static int replace_dict_setter(Setter* which, PyObject* slots, setter by) {
  PyObject* body = PyDict_New();
  PyObject* made = NULL;
  if (body != NULL && (slots == NULL || PyDict_SetItemString(body, "__slots__", slots) == 0))
    made = PyObject_CallFunction((PyObject*)&PyType_Type, "s()O", "WithDict", body);
  int done = made != NULL && replace(which, table_of((PyTypeObject*)made, "__dict__"), by);
  Py_XDECREF(made);
  Py_XDECREF(body);
  return done;
}

static int replace_setters(void) {
  PyObject* slots = Py_BuildValue("(s)", "__dict__");
  int done = slots != NULL &&
             replace(&class_setter, table_of(&PyBaseObject_Type, "__class__"), set_class) &&
             replace_dict_setter(&dict_setter, NULL, set_dict) &&
             replace_dict_setter(&bare_dict_setter, slots, set_bare_dict);
  Py_XDECREF(slots);
  return done;
}

int stator_watch_start(void (*changed)(PyObject* dict, int goes)) {
  if (watcher >= 0) return 1;
  tell = changed;
  if (!replace_setters()) {
    PyErr_Clear();
    return 0;
  }
  watcher = PyDict_AddWatcher(on_event);
  if (watcher < 0) PyErr_Clear();
  return watcher >= 0;
}

void stator_watch_dict(PyObject* dict) {
  if (PyDict_Watch(watcher, dict) < 0) PyErr_Clear();
}

void stator_unwatch_dict(PyObject* dict) {
  if (PyDict_Unwatch(watcher, dict) < 0) PyErr_Clear();
}

int stator_has_watched_setters(PyTypeObject* type) {
  PyObject* bases = type->tp_mro;
  if (bases == NULL) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    PyTypeObject* base = (PyTypeObject*)PyTuple_GET_ITEM(bases, i);
    const PyGetSetDef* dicts = table_of(base, "__dict__");
    const PyGetSetDef* classes = table_of(base, "__class__");
    if (dicts != NULL && dicts->set != set_dict && dicts->set != set_bare_dict) return 0;
    if (classes != NULL && classes->set != set_class) return 0;
  }
  return 1;
}

#else

int stator_watch_start(void (*changed)(PyObject* dict, int goes)) {
  (void)changed;
  return 0;
}
void stator_watch_dict(PyObject* dict) { (void)dict; }
void stator_unwatch_dict(PyObject* dict) { (void)dict; }
int stator_has_watched_setters(PyTypeObject* type) {
  (void)type;
  return 0;
}

#endif
