# nimble_floor(name [ROOMS folder...] [FLOORS lower...] [PUBLIC lib...]
#              [PRIVATE lib...])
#   library nimble_<name> of all cpp/nimble/<folder>/*.cc, on top of lower
#   floors; without ROOMS the folder is <name>.
#   A floor of headers only becomes an INTERFACE library.
function(nimble_floor name)
  cmake_parse_arguments(PARSE_ARGV 1 _f "" "" "ROOMS;FLOORS;PUBLIC;PRIVATE")
  if(NOT _f_ROOMS)
    set(_f_ROOMS ${name})
  endif()
  list(TRANSFORM _f_FLOORS PREPEND nimble_)
  list(TRANSFORM _f_ROOMS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/cpp/nimble/")
  list(TRANSFORM _f_ROOMS APPEND "/*.cc")
  file(GLOB _sources CONFIGURE_DEPENDS ${_f_ROOMS})
  set(_target nimble_${name})
  if(NOT _sources)
    add_library(${_target} INTERFACE)
    target_include_directories(${_target} INTERFACE cpp)
    target_link_libraries(${_target} INTERFACE ${_f_FLOORS} ${_f_PUBLIC}
                                               Threads::Threads)
    return()
  endif()
  add_library(${_target} STATIC ${_sources})
  target_include_directories(${_target} PUBLIC cpp)
  target_link_libraries(${_target} PUBLIC ${_f_FLOORS} ${_f_PUBLIC}
                                          Threads::Threads
                                   PRIVATE ${_f_PRIVATE})
  target_compile_definitions(
    ${_target} PRIVATE NIMBLE_TARGET_CLONES=${NIMBLE_TARGET_CLONES})
  nimble_warnings(${_target})
  nimble_unity(${_target} ${_sources})
  if(NIMBLEPY_PCH)
    target_precompile_headers(${_target} REUSE_FROM nimble_pch)
  endif()
endfunction()

# nimble_checked_floors(target): of an inline function the linker keeps the first
# it meets, which is then one of the floors', with UBSan's checks, and not one of
# the target, which is compiled without.
function(nimble_checked_floors target)
  if(NOT NIMBLEPY_SANITIZE OR APPLE)
    return()
  endif()
  set(_floors base io types encoding key key_chunk format index reader serve)
  list(TRANSFORM _floors REPLACE "(.+)" "$<TARGET_FILE:nimble_\\1>")
  list(JOIN _floors "," _floors)
  target_link_options(${target} PRIVATE
    "LINKER:--whole-archive,${_floors},--no-whole-archive")
endfunction()

# nimble_schemas(target): compiles every schemas/*.fbs into the build tree;
# users of the target write #include "<schema>_generated.h".
function(nimble_schemas target)
  set(_gen "${CMAKE_CURRENT_BINARY_DIR}/generated")
  set(_dir "${CMAKE_CURRENT_SOURCE_DIR}/schemas")
  file(GLOB _schemas CONFIGURE_DEPENDS "${_dir}/*.fbs")
  set(_headers "")
  foreach(_fbs IN LISTS _schemas)
    get_filename_component(_n "${_fbs}" NAME_WE)
    set(_h "${_gen}/${_n}_generated.h")
    # depends on all schemas: they include one another
    add_custom_command(OUTPUT "${_h}"
      COMMAND "${NIMBLE_FLATC_EXECUTABLE}" --cpp --cpp-std c++17
              --scoped-enums --warnings-as-errors -I "${_dir}" -o "${_gen}"
              "${_fbs}"
      DEPENDS ${_schemas} "${NIMBLE_FLATC_EXECUTABLE}"
      COMMENT "flatc ${_n}.fbs" VERBATIM)
    list(APPEND _headers "${_h}")
  endforeach()
  add_library(${target} INTERFACE)
  if(_headers)
    add_custom_target(${target}_headers DEPENDS ${_headers})
    add_dependencies(${target} ${target}_headers)
  endif()
  target_include_directories(${target} SYSTEM INTERFACE "${_gen}")
  target_link_libraries(${target} INTERFACE nimble::flatbuffers)
endfunction()
