# Compiler settings shared by every target.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
# Editable and test builds: as fast as a release, with assert() in force.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g1")

find_program(NIMBLE_CCACHE ccache)
if(NIMBLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${NIMBLE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${NIMBLE_CCACHE})
endif()

# Headers of the standard library are a third of the time to compile a file.
# Without them where ccache keeps whole objects, and in releases, which so prove
# that every file includes what it uses.
set(_pch ON)
if(CMAKE_CXX_COMPILER_LAUNCHER OR CMAKE_BUILD_TYPE STREQUAL "Release")
  set(_pch OFF)
endif()
option(NIMBLEPY_PCH "Precompile headers, compile some bindings as one" ${_pch})

# For builds that nobody edits in: those under sanitizers and CI's. The one that
# people edit in proves that every file compiles alone.
set(_unity OFF)
if(NIMBLEPY_SANITIZE)
  set(_unity ON)
endif()
option(NIMBLEPY_UNITY "Compile the files of each folder as one" ${_unity})

if(NIMBLEPY_SANITIZE)
  # -O1: instrumented -O3 code compiles twice as long and runs little faster
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
  # Left out: checks of every member access that ASan makes as well. They are a
  # third of the code, and of the time to compile it.
  add_compile_options(-fsanitize=${NIMBLEPY_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined
                      -fno-sanitize=null,object-size,vptr)
  if(NOT NIMBLEPY_FUZZ)
    # Nor whether the address of what is far outside wraps around: a sixth of
    # the code. ASan sees the access, and the build that fuzzes looks.
    add_compile_options(-fno-sanitize=pointer-overflow)
  endif()
  add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
  add_link_options(-fsanitize=${NIMBLEPY_SANITIZE})
  # the resolvers of clones run before the sanitizer's runtime is up
  set(NIMBLEPY_MULTIVERSION OFF)
  # in instrumented code gcc warns of what is not so (members of vector<bool> in
  # pybind11, said to be uninitialized); the build without it looks for warnings
  set(NIMBLEPY_WERROR OFF)
endif()

# What is shipped. Only there: _FORTIFY_SOURCE wants optimisation, and sanitizers
# look closer. The linker's half is in NimbleModule.cmake; tools/check_wheel.py
# looks whether all of it arrived. Not -fcf-protection: no Linux checks branch
# targets of user code, and shadow stacks need no code.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT NIMBLEPY_SANITIZE)
  include(CheckCXXCompilerFlag)
  add_compile_options(-fstack-protector-strong -U_FORTIFY_SOURCE
                      -D_FORTIFY_SOURCE=3)
  check_cxx_compiler_flag(-fstack-clash-protection NIMBLE_HAVE_STACK_CLASH)
  if(NIMBLE_HAVE_STACK_CLASH)
    add_compile_options(-fstack-clash-protection)
  endif()
endif()

set(NIMBLE_TARGET_CLONES 0)
if(NIMBLEPY_MULTIVERSION)
  include(CheckCXXSourceCompiles)
  # Older clangs accept the attribute and never pick the clone; they also
  # reject the builtin, which is how this check tells them apart.
  check_cxx_source_compiles("
    __attribute__((target_clones(
        \"default\", \"arch=x86-64-v3\", \"arch=x86-64-v4\")))
    int f(const int* p, int n) {
      int s = 0;
      for (int i = 0; i < n; ++i) s += p[i];
      return s;
    }
    int main() {
      int a[3] = {1, 2, 3};
      return f(a, 3) - 6 + __builtin_cpu_supports(\"x86-64-v3\");
    }" NIMBLE_HAVE_TARGET_CLONES)
  if(NIMBLE_HAVE_TARGET_CLONES)
    set(NIMBLE_TARGET_CLONES 1)
  endif()
endif()

# nimble_precompile(target [header...]): these, and those of the standard
# library that nearly every file includes.
function(nimble_precompile target)
  if(NOT NIMBLEPY_PCH)
    return()
  endif()
  set(_headers "")
  foreach(_h IN ITEMS ${ARGN} algorithm array atomic cstring functional map
                      memory mutex optional span string string_view
                      unordered_map utility variant vector)
    list(APPEND _headers "$<$<COMPILE_LANGUAGE:CXX>:<${_h}$<ANGLE-R>>")
  endforeach()
  target_precompile_headers(${target} PRIVATE ${_headers})
endfunction()

# nimble_unity(target source...): compiles the sources of each folder as one,
# where nothing is compiled twice. It takes half to two thirds of the time.
function(nimble_unity target)
  if(NOT NIMBLEPY_UNITY)
    return()
  endif()
  foreach(_source IN LISTS ARGN)
    get_filename_component(_folder "${_source}" DIRECTORY)
    file(RELATIVE_PATH _folder "${CMAKE_CURRENT_SOURCE_DIR}" "${_folder}")
    set_source_files_properties("${_source}" PROPERTIES UNITY_GROUP "${_folder}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                                             UNITY_BUILD_MODE GROUP)
  # a name of one file is nothing to a local one of another, and what has no name
  # outside its file is no worse for being included
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-shadow -Wshadow=local -Wno-subobject-linkage>
    $<$<NOT:$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-shadow>)
endfunction()

# Test code is compiled more often than it is run. UBSan has nothing to look for
# in it, and would be a third of it.
function(nimble_test_code target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-O1>)
  if(NIMBLEPY_SANITIZE AND NOT NIMBLEPY_FUZZ)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

function(nimble_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -Wconversion -Wshadow>
    # gcc 12 warns so of strings of the library that a precompiled header holds
    $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<BOOL:${NIMBLEPY_PCH}>>:-Wno-stringop-overflow>
    $<$<BOOL:${NIMBLEPY_WERROR}>:-Werror>)
endfunction()
