# Fuzz targets (tests/fuzz, docs/internals/fuzzing.md): a library of objects that nimble_tests
# replays, and under clang (NIMBLEPY_FUZZ) the libFuzzer program nimble_fuzz.
file(GLOB _fuzz CONFIGURE_DEPENDS tests/fuzz/*.cc)
list(FILTER _fuzz EXCLUDE REGEX "(fuzzer|replay_test|damage_main)\\.cc$")
add_library(nimble_fuzz_targets OBJECT ${_fuzz})
target_include_directories(nimble_fuzz_targets PUBLIC tests tests/cpp)
target_link_libraries(nimble_fuzz_targets PUBLIC nimble_serve)
nimble_warnings(nimble_fuzz_targets)
target_compile_options(nimble_fuzz_targets PRIVATE -Wno-conversion
                                                   -Wno-sign-conversion)
nimble_test_code(nimble_fuzz_targets)
nimble_precompile(nimble_fuzz_targets)
# where tests find the inputs that are in the repository
target_compile_definitions(nimble_fuzz_targets INTERFACE
                           NIMBLE_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
# Calls of checksum64() go through checksum_edges.cc, which can so watch them.
set(_checksum _ZN6nimble10checksum64ESt4spanIKhLm18446744073709551615EE)
if(NOT APPLE)
  target_link_options(nimble_fuzz_targets INTERFACE LINKER:--wrap=${_checksum})
endif()

# seeds are made by what the unit tests make files and segments with
set(_makers tests/cpp/reader/columns.cc tests/cpp/types/random_array.cc
    tests/cpp/encoding/encoding_conformance.cc tests/cpp/encoding/sample.cc
    tests/cpp/encoding/filter_conformance.cc)
# Damaged files by the million; ./dev fuzz files.
add_executable(nimble_damage EXCLUDE_FROM_ALL tests/fuzz/damage_main.cc ${_makers})
target_link_libraries(nimble_damage PRIVATE nimble_fuzz_targets)

if(NIMBLEPY_FUZZ)
  add_executable(nimble_fuzz tests/fuzz/fuzzer.cc ${_makers})
  target_link_libraries(nimble_fuzz PRIVATE nimble_fuzz_targets)
  target_link_options(nimble_fuzz PRIVATE -fsanitize=fuzzer)
endif()
