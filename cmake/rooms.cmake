# A room is a folder of src/ and one object library. DEPS names the rooms whose headers it may include;
# tools/check_rooms.py reads these calls and fails on any other include. TORCH: the room sees torch's headers.
# -Wno-restrict: GCC 12 sees overlaps in std::string's operator+ that are not there (its bug 105651).
set(STATOR_WARNINGS -Wall -Wextra -Werror -Wno-restrict -Wno-unused-parameter -Wno-missing-field-initializers -Wno-cast-function-type)
set(STATOR_ROOMS "" CACHE INTERNAL "")

function(stator_room name)
  cmake_parse_arguments(ROOM "TORCH" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
  set(STATOR_ROOMS ${STATOR_ROOMS} ${name} CACHE INTERNAL "")
  if(NOT sources)
    add_library(stator_${name} INTERFACE)
    return()
  endif()
  add_library(stator_${name} OBJECT ${sources})
  target_include_directories(stator_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(stator_${name} SYSTEM PRIVATE ${Python_INCLUDE_DIRS} ${STATOR_TORCH_DIR}/include)
  target_compile_options(stator_${name} PRIVATE ${STATOR_WARNINGS})
  target_compile_definitions(stator_${name} PRIVATE FMT_HEADER_ONLY=1
    STATOR_TORCH_VERSION="${STATOR_TORCH_VERSION}")
  if(ROOM_TORCH)
    target_include_directories(stator_${name} SYSTEM PRIVATE ${STATOR_TORCH_DIR}/include/torch/csrc/api/include)
  endif()
  if(STATOR_SANITIZE)
    target_compile_options(stator_${name} PRIVATE -fsanitize=address,undefined -fno-omit-frame-pointer -g)
  endif()
endfunction()

# All rooms together make the extension module; its place in the source tree is stator/, so that a checkout can be imported.
function(stator_extension)
  set(objects "")
  foreach(room ${STATOR_ROOMS})
    get_target_property(type stator_${room} TYPE)
    if(type STREQUAL "OBJECT_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:stator_${room}>)
    endif()
  endforeach()
  Python_add_library(_core MODULE WITH_SOABI ${objects})
  target_link_directories(_core PRIVATE ${STATOR_TORCH_DIR}/lib)
  target_link_libraries(_core PRIVATE torch_python torch_cpu c10)
  set_target_properties(_core PROPERTIES LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/stator
    BUILD_RPATH ${STATOR_TORCH_DIR}/lib INSTALL_RPATH "$ORIGIN/../torch/lib")
  if(STATOR_SANITIZE)
    target_link_options(_core PRIVATE -fsanitize=address,undefined)
  endif()
  install(TARGETS _core LIBRARY DESTINATION stator)
endfunction()
