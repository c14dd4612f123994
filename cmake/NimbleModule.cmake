# The Python extension nimblepy._core: everything in cpp/nimble/bindings.
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR
    "nimblepy: the Python headers are missing for ${Python_EXECUTABLE}.\n"
    "  Debian/Ubuntu:  apt-get install python3-dev\n")
endif()
set(PYBIND11_FINDPYTHON ON)
if(NOT pybind11_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(pybind11 3.0 CONFIG REQUIRED)

file(GLOB_RECURSE _bindings CONFIGURE_DEPENDS cpp/nimble/bindings/*.cpp)
pybind11_add_module(_core MODULE NO_EXTRAS ${_bindings})
target_link_libraries(_core PRIVATE nimble_serve)
nimble_warnings(_core)
nimble_precompile(_core pybind11/pybind11.h pybind11/numpy.h pybind11/stl.h)
if(NIMBLEPY_PCH)
  # What pybind11's templates become is mostly the same in every file: some files
  # that share no name are compiled as one. The others have names in common.
  set(_values values/arrow_bridge values/errors values/key_batch
              values/python_file values/python_keys values/python_rows
              values/python_values)
  set(_files module register_file register_index_rewriter
             register_inspect register_projection register_writer)
  set(_readers values/point_key quick_get register_lookup register_point_reader
               register_range_reader)
  foreach(_group IN ITEMS values files readers)
    list(TRANSFORM _${_group} PREPEND
         "${CMAKE_CURRENT_SOURCE_DIR}/cpp/nimble/bindings/")
    list(TRANSFORM _${_group} APPEND ".cpp")
    set_source_files_properties(${_${_group}} PROPERTIES UNITY_GROUP ${_group})
  endforeach()
  set_target_properties(_core PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endif()
if(NIMBLEPY_SANITIZE)
  # pybind11's templates with UBSan's checks take twice as long to compile, and
  # no byte of a file is decoded here
  target_compile_options(_core PRIVATE -fno-sanitize=undefined)
  nimble_checked_floors(_core)
elseif(NIMBLEPY_UNITY AND CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  # CI's build, of whose speed nothing is measured: the loops are the floors'
  target_compile_options(_core PRIVATE -O1)
endif()

if(APPLE)
  target_link_options(_core PRIVATE -Wl,-exported_symbol,_PyInit__core)
elseif(UNIX)
  # Only the entry point is visible: no clash with pyarrow's own zstd.
  set(_map "${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.map")
  target_link_options(_core PRIVATE -Wl,--version-script=${_map}
                      -Wl,--as-needed -Wl,-z,now -Wl,-z,relro
                      -Wl,-z,noexecstack)
  set_target_properties(_core PROPERTIES LINK_DEPENDS "${_map}")
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT NIMBLEPY_SANITIZE)
  pybind11_strip(_core)
endif()
install(TARGETS _core LIBRARY DESTINATION nimblepy COMPONENT python)
