# tests/cpp/<room>/*.cpp with GoogleTest and all rooms, as one extension module that tools/cpp_tests.py loads. A module and not a program:
# it needs no libpython, finds the environment's torch, and runs under the very interpreter that stator is built for.
set(STATOR_GTEST_DIR "" CACHE PATH "Folder with GoogleTest's src/gtest-all.cc")
foreach(place ${STATOR_GTEST_DIR} /usr/src/googletest/googletest /usr/src/gtest ${CMAKE_SOURCE_DIR}/build/googletest)
  if(EXISTS ${place}/src/gtest-all.cc)
    set(gtest_dir ${place})
    break()
  endif()
endforeach()
if(NOT gtest_dir)
  message(STATUS "GoogleTest not found: no C++ unit tests (tools/get_googletest.py brings it)")
  return()
endif()

add_library(stator_gtest OBJECT EXCLUDE_FROM_ALL ${gtest_dir}/src/gtest-all.cc)
target_include_directories(stator_gtest SYSTEM PRIVATE ${gtest_dir} ${gtest_dir}/include)
target_compile_options(stator_gtest PRIVATE -w)

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cpp/*.cpp)
Python_add_library(stator_cpp_tests MODULE EXCLUDE_FROM_ALL ${test_sources} $<TARGET_OBJECTS:stator_gtest>)
stator_compile_settings(stator_cpp_tests)
stator_link_rooms(stator_cpp_tests)
target_include_directories(stator_cpp_tests SYSTEM PRIVATE ${gtest_dir}/include)
set_target_properties(stator_cpp_tests PROPERTIES PREFIX "" SUFFIX ".so" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
