# Puts FILES into the package folder DESTINATION. Where that is not the source package itself (sanitizer builds), the source package's
# entries are linked there first, so that DESTINATION's parent works as a PYTHONPATH entry.
file(MAKE_DIRECTORY ${DESTINATION})
if(NOT DESTINATION STREQUAL SOURCE)
  file(GLOB entries RELATIVE ${SOURCE} ${SOURCE}/*)
  list(FILTER entries EXCLUDE REGEX "^(_core.*\\.so|_build_info\\.py|__pycache__)$")
  foreach(entry ${entries})
    file(CREATE_LINK ${SOURCE}/${entry} ${DESTINATION}/${entry} SYMBOLIC)
  endforeach()
endif()
foreach(built ${FILES})
  get_filename_component(name ${built} NAME)
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${built} ${DESTINATION}/${name}
    RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
  if(differs)
    file(COPY_FILE ${built} ${DESTINATION}/${name}.new)
    file(RENAME ${DESTINATION}/${name}.new ${DESTINATION}/${name})
  endif()
endforeach()
