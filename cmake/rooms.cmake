# A room is a folder of src/ and one object library. DEPS names the rooms whose headers it may include;
# tools/check_rooms.py reads these calls and fails on any other include. TORCH: the room sees torch's headers.
# -Wno-restrict: GCC 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105651).
# Warnings are errors for the compiler that the project is developed with; newer ones have new warnings.
set(STATOR_WARNINGS -Wall -Wextra -Wshadow -Werror -Wno-restrict -Wno-unused-parameter -Wno-missing-field-initializers -Wno-cast-function-type)
if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  list(REMOVE_ITEM STATOR_WARNINGS -Werror)
endif()
set(STATOR_ROOMS "" CACHE INTERNAL "")
# vptr checks need the type information of torch's classes, which its libraries hide.
set(STATOR_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)

# Include folders, definitions and flags that every C and C++ file of the project is compiled with.
function(stator_compile_settings target)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(${target} SYSTEM PRIVATE ${Python_INCLUDE_DIRS} ${STATOR_TORCH_DIR}/include)
  target_compile_options(${target} PRIVATE ${STATOR_WARNINGS})
  target_compile_definitions(${target} PRIVATE FMT_HEADER_ONLY=1 STATOR_TORCH_VERSION="${STATOR_TORCH_VERSION}")
  if(STATOR_SANITIZE)
    target_compile_options(${target} PRIVATE ${STATOR_SANITIZE_FLAGS} -fno-omit-frame-pointer -g)
  endif()
  if(STATOR_COUNT_BLOCKS)
    target_compile_options(${target} PRIVATE -fsanitize-coverage=trace-pc)
    target_compile_definitions(${target} PRIVATE STATOR_COUNT_BLOCKS=1)
  endif()
  if(STATOR_COVERAGE)
    # Without inlining: a line belongs to the function that it stands in.
    target_compile_options(${target} PRIVATE -O1 -fno-inline --coverage -fprofile-update=prefer-atomic)
  endif()
endfunction()

function(stator_room name)
  cmake_parse_arguments(ROOM "TORCH" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
  # py311.c and its like are for one version of CPython.
  list(FILTER sources EXCLUDE REGEX "3[0-9][0-9]\\.c(pp)?$")
  file(GLOB versioned CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*3${Python_VERSION_MINOR}.c ${CMAKE_SOURCE_DIR}/src/${name}/*3${Python_VERSION_MINOR}.cpp)
  list(APPEND sources ${versioned})
  string(REPLACE / _ name ${name})  # interpret/core is the target stator_interpret_core
  set(STATOR_ROOMS ${STATOR_ROOMS} ${name} CACHE INTERNAL "")
  if(NOT sources)
    add_library(stator_${name} INTERFACE)
    return()
  endif()
  add_library(stator_${name} OBJECT ${sources})
  stator_compile_settings(stator_${name})
  # Several files as one: headers, torch's above all, are read once for eight. Rooms with names of one file that another has too stay as they are.
  if(STATOR_UNITY AND NOT name MATCHES "^(debug|graph|known|python|regions|shapes)$")
    set_target_properties(stator_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/interpret/frames/values.cpp ${CMAKE_SOURCE_DIR}/src/runtime/compiled_function.cpp
      PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(ROOM_TORCH)
    target_include_directories(stator_${name} SYSTEM PRIVATE ${STATOR_TORCH_DIR}/include/torch/csrc/api/include)
  endif()
endfunction()

# Links all rooms into the Python extension module `target`.
function(stator_link_rooms target)
  foreach(room ${STATOR_ROOMS})
    get_target_property(type stator_${room} TYPE)
    if(type STREQUAL "OBJECT_LIBRARY")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:stator_${room}>)
    endif()
  endforeach()
  target_link_directories(${target} PRIVATE ${STATOR_TORCH_DIR}/lib)
  target_link_libraries(${target} PRIVATE torch_python torch_cpu c10)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX
    BUILD_RPATH ${STATOR_TORCH_DIR}/lib INSTALL_RPATH "$ORIGIN/../torch/lib")
  if(STATOR_SANITIZE)
    target_link_options(${target} PRIVATE ${STATOR_SANITIZE_FLAGS})
  endif()
  if(STATOR_COVERAGE)
    target_link_options(${target} PRIVATE --coverage)
  endif()
endfunction()

# All rooms together make stator._core. A build outside of a wheel puts it and _build_info.py into STATOR_PACKAGE_DIR, by default the
# source tree's stator/, so that a checkout can be imported; the file is replaced by renaming, since a running process may have it mapped.
function(stator_extension)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/no_sources.cpp CONTENT "")  # written only when it differs: no relink at each configure
  Python_add_library(_core MODULE WITH_SOABI ${CMAKE_BINARY_DIR}/no_sources.cpp)
  stator_link_rooms(_core)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_minor "${STATOR_TORCH_VERSION}")
  set(STATOR_TORCH_MINOR ${torch_minor})
  set(STATOR_PYTHON_MINOR ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
  configure_file(${CMAKE_SOURCE_DIR}/cmake/build_info.py.in ${CMAKE_BINARY_DIR}/_build_info.py @ONLY)
  install(TARGETS _core LIBRARY DESTINATION stator)
  install(FILES ${CMAKE_BINARY_DIR}/_build_info.py DESTINATION stator)
  if(SKBUILD)
    return()
  endif()
  set(STATOR_PACKAGE_DIR ${CMAKE_SOURCE_DIR}/stator CACHE PATH "Where a development build puts the extension module")
  add_custom_target(stage ALL
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/stator -DDESTINATION=${STATOR_PACKAGE_DIR}
      "-DFILES=$<TARGET_FILE:_core>;${CMAKE_BINARY_DIR}/_build_info.py" -P ${CMAKE_SOURCE_DIR}/cmake/stage.cmake
    DEPENDS _core COMMENT "Placing stator._core" VERBATIM)
endfunction()
