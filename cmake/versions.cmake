# Which versions of CPython and torch the source tree knows. Frames are CPython's internals, and libtorch's C++ interface changes with each
# minor, so that anything else is refused here and not by a wall of errors.
set(STATOR_PYTHONS 3.11 3.12 3.13)
set(STATOR_TORCHES 2.11 2.12 2.13)

set(python_minor ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
if(NOT python_minor IN_LIST STATOR_PYTHONS)
  message(FATAL_ERROR "Stator knows CPython ${STATOR_PYTHONS}, and ${Python_EXECUTABLE} is ${Python_VERSION}.")
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import sys, sysconfig; print(sys.implementation.name, sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
  OUTPUT_VARIABLE python_kind OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT python_kind STREQUAL "cpython 0")
  message(FATAL_ERROR "Stator is for CPython with its interpreter lock, and ${Python_EXECUTABLE} is another implementation or a free-threaded build.")
endif()

function(stator_check_torch version)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${version}")
  if(NOT minor IN_LIST STATOR_TORCHES)
    message(FATAL_ERROR "Stator knows torch ${STATOR_TORCHES}, and ${Python_EXECUTABLE} has ${version}.")
  endif()
endfunction()
