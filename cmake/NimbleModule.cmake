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

file(GLOB _bindings CONFIGURE_DEPENDS cpp/nimble/bindings/*.cpp
     cpp/nimble/bindings/*.cc)
pybind11_add_module(_core MODULE NO_EXTRAS ${_bindings})
target_link_libraries(_core PRIVATE nimble_reader)
nimble_warnings(_core)
nimble_precompile(_core pybind11/pybind11.h pybind11/numpy.h pybind11/stl.h)
if(NIMBLEPY_SANITIZE)
  # pybind11's templates with UBSan's checks take twice as long to compile, and
  # no byte of a file is decoded here
  target_compile_options(_core PRIVATE -fno-sanitize=undefined)
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
