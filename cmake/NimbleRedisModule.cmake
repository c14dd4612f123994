# nimble_redis.so: the module for Redis and Valkey. It shares nothing with the
# Python extension, so it brings its own C++ library.
file(GLOB _redis CONFIGURE_DEPENDS cpp/nimble/serve/module/*.cc)
add_library(nimble_redis MODULE ${_redis})
target_link_libraries(nimble_redis PRIVATE nimble_serve)
nimble_warnings(nimble_redis)
nimble_unity(nimble_redis ${_redis})
nimble_precompile(nimble_redis)
set_target_properties(nimble_redis PROPERTIES PREFIX "" SUFFIX ".so")
if(APPLE)
  target_link_options(nimble_redis PRIVATE
    -Wl,-exported_symbol,_RedisModule_OnLoad
    -Wl,-exported_symbol,_RedisModule_OnUnload -Wl,-dead_strip)
elseif(UNIX)
  set(_redis_map "${CMAKE_CURRENT_SOURCE_DIR}/cmake/redis_exports.map")
  target_link_options(nimble_redis PRIVATE
    -Wl,--version-script=${_redis_map} -static-libstdc++ -static-libgcc
    -Wl,--gc-sections -Wl,--as-needed -Wl,-z,now -Wl,-z,relro
    -Wl,-z,noexecstack)
  set_target_properties(nimble_redis PROPERTIES LINK_DEPENDS "${_redis_map}")
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  pybind11_strip(nimble_redis)
endif()
# Redis loads only modules that may be executed, and CMake on Debian installs
# libraries without that permission.
install(TARGETS nimble_redis LIBRARY DESTINATION nimblepy COMPONENT python
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
                    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
