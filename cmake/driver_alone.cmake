# The driver without torch (tests/frames/alone.cpp), as a package `stator` of its own under <build>/package: one for each CPython, made and
# tested by tools/frames.py.
stator_room(base)
stator_room(python DEPS base)
stator_room(bytecode DEPS base python)

file(GLOB driver_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/runtime/concrete*.cpp)
foreach(name active driver driver_module hook)
  list(APPEND driver_sources ${CMAKE_SOURCE_DIR}/src/runtime/${name}.cpp)
endforeach()
Python_add_library(_core MODULE WITH_SOABI ${driver_sources} ${CMAKE_SOURCE_DIR}/tests/frames/alone.cpp
  $<TARGET_OBJECTS:stator_base> $<TARGET_OBJECTS:stator_python> $<TARGET_OBJECTS:stator_bytecode>)
stator_compile_settings(_core)
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/package/stator)
if(STATOR_SANITIZE)
  target_link_options(_core PRIVATE ${STATOR_SANITIZE_FLAGS})
endif()
file(WRITE ${CMAKE_BINARY_DIR}/package/stator/__init__.py "")
