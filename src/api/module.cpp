// Module init and method table of stator._core; nothing else.
#include "base/python.h"
#include "base/blocks.h"
#include "base/ref.h"
#include "debug/debug_module.h"
#include "disk/disk_module.h"
#include "graph/graph_module.h"
#include "guards/guards_module.h"
#include "interpret/calls/switches.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/trace_traceback.h"
#include "interpret/frames/init.h"
#include "python/itertools.h"
#include "runtime/ahead.h"
#include "runtime/cache.h"
#include "runtime/compiled_function.h"
#include "runtime/differentiated.h"
#include "runtime/driver_module.h"
#include "runtime/kept_captures.h"
#include "runtime/listing.h"
#include "runtime/module_base.h"
#include "runtime/ranks.h"
#include "runtime/watch.h"
#include "symbolic/symbolic_module.h"
#include "tensor/shapes_module.h"

namespace {

PyModuleDef core_module = {PyModuleDef_HEAD_INIT, "stator._core", nullptr, -1, nullptr};

// One table from each room that has doors.
PyMethodDef* const kTables[] = {stator::graph::graph_methods,
                                stator::tensor::shapes_methods,
                                stator::runtime::driver_methods,
                                stator::runtime::cache_methods,
                                stator::interpret::switch_methods,
                                stator::interpret::tracer_methods,
                                stator::runtime::watch_methods,
                                stator::runtime::ranks_methods,
                                stator::runtime::listing_methods,
                                stator::guards::guards_methods,
                                stator::symbolic::symbolic_methods,
                                stator::runtime::kept_methods,
                                stator::disk::disk_methods,
                                stator::block_methods,
                                stator_itertools_methods};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
  // Caches, the evaluator's hook and what is known of types are the process's, and so the main interpreter's.
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError, "stator runs in the main interpreter only");
    return nullptr;
  }
  stator::Ref<> module = stator::stealRef(PyModule_Create(&core_module));
  if (!module) return nullptr;
  for (PyMethodDef* methods : kTables) {
    if (PyModule_AddFunctions(module.get(), methods) != 0) return nullptr;
  }
  if (stator::runtime::addDriverObjects(module.get()) < 0) return nullptr;
  bool ready =
      stator::graph::initTypes() && stator::interpret::initTraceIteratorType() &&
      stator::interpret::initTraceTracebackType() && stator::runtime::initDifferentiatedTypes() &&
      stator::runtime::addCompiledFunction(module.get()) &&
      stator::runtime::addModuleBase(module.get()) && stator::runtime::addCache(module.get()) &&
      stator::runtime::addAhead(module.get()) && stator::debug::addSpecimenType(module.get());
  return ready ? module.release() : nullptr;
}
