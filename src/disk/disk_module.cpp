#include "disk/disk_module.h"

#include "base/boundary.h"
#include "disk/artifact_file.h"
#include "disk/digest.h"
#include "disk/kernel.h"
#include "disk/machine.h"

namespace stator::disk {

namespace {

void needKey(const char* key) {
  if (std::string_view(key).size() == 64 &&
      std::string_view(key).find_first_not_of("0123456789abcdef") == std::string_view::npos)
    return;
  PyErr_SetString(PyExc_ValueError, "a key has 64 hexadecimal digits");
  throw PythonError();
}

Ref<> textOrNone(const std::string& text) {
  return text.empty() ? newRef(Py_None) : orThrow(PyUnicode_FromString(text.c_str()));
}

Ref<> answer(const ReadResult& found) {
  if (!found.parts) return textOrNone(found.problem);
  Ref<> parts = orThrow(PyList_New(static_cast<Py_ssize_t>(found.parts->size())));
  for (size_t i = 0; i < found.parts->size(); ++i) {
    const std::string& part = (*found.parts)[i];
    PyList_SET_ITEM(
        parts.get(), static_cast<Py_ssize_t>(i),
        orThrow(PyBytes_FromStringAndSize(part.data(), static_cast<Py_ssize_t>(part.size())))
            .release());
  }
  return parts;
}

Parts partsOf(PyObject* list) {
  Parts parts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(PyList_GET_ITEM(list, i), &bytes, &size) < 0) throw PythonError();
    parts.emplace_back(bytes, static_cast<size_t>(size));
  }
  return parts;
}

// disk_read(folder, key) -> [bytes, ...], a text that says what is wrong with the file, or None if there is none
PyObject* read(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* folder = nullptr;
    const char* key = nullptr;
    if (!PyArg_ParseTuple(args, "ss", &folder, &key)) throw PythonError();
    needKey(key);
    return answer(readArtifact(folder, key));
  });
}

// disk_read_file(path, key) -> the same for a file anywhere, which counts as no use of it
PyObject* readAt(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* path = nullptr;
    const char* key = nullptr;
    if (!PyArg_ParseTuple(args, "ss", &path, &key)) throw PythonError();
    needKey(key);
    return answer(readFile(path, key));
  });
}

// disk_write(folder, key, [bytes, ...], limit) -> None, or a text that says why not
PyObject* write(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* folder = nullptr;
    const char* key = nullptr;
    PyObject* list = nullptr;
    unsigned long long limit = 0;
    if (!PyArg_ParseTuple(args, "ssO!K", &folder, &key, &PyList_Type, &list, &limit))
      throw PythonError();
    needKey(key);
    const std::string problem = writeArtifact(folder, key, partsOf(list));
    if (problem.empty()) trimFolder(folder, limit);
    return textOrNone(problem);
  });
}

// disk_write_file(path, key, [bytes, ...]) -> the same for a file anywhere
PyObject* writeAt(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* path = nullptr;
    const char* key = nullptr;
    PyObject* list = nullptr;
    if (!PyArg_ParseTuple(args, "ssO!", &path, &key, &PyList_Type, &list)) throw PythonError();
    needKey(key);
    return textOrNone(writeFile(path, key, partsOf(list)));
  });
}

// disk_trim(folder, limit)
PyObject* trim(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* folder = nullptr;
    unsigned long long limit = 0;
    if (!PyArg_ParseTuple(args, "sK", &folder, &limit)) throw PythonError();
    trimFolder(folder, limit);
    return newRef(Py_None);
  });
}

// disk_kernel(bytes, folder) -> a function, or a text that says why not
PyObject* kernel(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* bytes = nullptr;
    Py_ssize_t size = 0;
    const char* folder = nullptr;
    if (!PyArg_ParseTuple(args, "y#s", &bytes, &size, &folder)) throw PythonError();
    std::string problem;
    Ref<> made = loadKernel({bytes, static_cast<size_t>(size)}, folder, problem);
    return made ? made : orThrow(PyUnicode_FromString(problem.c_str()));
  });
}

PyObject* digest(PyObject*, PyObject* bytes) {
  return guarded([&] {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) throw PythonError();
    return orThrow(PyUnicode_FromString(hex(sumOf({data, static_cast<size_t>(size)})).c_str()));
  });
}

PyObject* machine(PyObject*, PyObject*) { return PyUnicode_FromString(processor().c_str()); }

}  // namespace

PyMethodDef disk_methods[] = {
    {"disk_read", read, METH_VARARGS,
     "disk_read(folder, key): parts of an artifact; None: there is none; a text: what is wrong"},
    {"disk_write", write, METH_VARARGS,
     "disk_write(folder, key, parts, limit): None, or a text that says why not"},
    {"disk_read_file", readAt, METH_VARARGS,
     "disk_read_file(path, key): the same for a file anywhere, whoever it belongs to"},
    {"disk_write_file", writeAt, METH_VARARGS,
     "disk_write_file(path, key, parts): the same for a file anywhere"},
    {"disk_trim", trim, METH_VARARGS,
     "disk_trim(folder, limit): drops what was used least lately until the rest takes at most "
     "`limit` bytes"},
    {"disk_kernel", kernel, METH_VARARGS,
     "disk_kernel(bytes, folder): the function of a compiled kernel, or a text that says why not"},
    {"disk_digest", digest, METH_O, "disk_digest(bytes): SHA-256, as hexadecimal digits"},
    {"disk_machine", machine, METH_NOARGS, "The processor's kind and what it can do."},
    {nullptr}};

}  // namespace stator::disk
