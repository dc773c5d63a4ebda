# With MOBULA_PRECOMPILE and clang++, headers that nearly every source includes are compiled once: the library's for all
# targets, and GoogleTest's for tests. Only external headers are precompiled. The build without precompilation (gcc)
# and verify_headers prove that a source includes what it needs.
#
#   mobula_use_precompiled(<target> [TESTS])
option(MOBULA_PRECOMPILE "Precompile the standard library's headers and GoogleTest's (clang++ only)" OFF)
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(MOBULA_PRECOMPILE OFF)
endif()

function(mobula_precompile name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINKS")
  file(WRITE "${PROJECT_BINARY_DIR}/precompiled/${name}.cc" "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/precompiled/${name}.cc")
  target_link_libraries(${name} PRIVATE mobula_options ${arg_LINKS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

if(MOBULA_PRECOMPILE)
  # Libraries and programs share one precompiled file only if their compile options are equal. A time
  # stamp in the file would defeat the compiler cache.
  target_compile_options(mobula_options INTERFACE -fPIC "SHELL:-Xclang -fno-pch-timestamp")
  if(MOBULA_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${MOBULA_CCACHE}")
  endif()
  set(common <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <deque> <filesystem> <fstream> <functional> <map> <memory>
      <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant>
      <vector> <fmt/format.h> <nlohmann/json.hpp>)
  mobula_precompile(mobula_precompiled HEADERS ${common})
  mobula_precompile(mobula_precompiled_tests HEADERS ${common} <gmock/gmock.h> <gtest/gtest.h>
      LINKS GTest::gmock GTest::gtest)
  if(MOBULA_SANITIZE)
    target_compile_options(mobula_precompiled_tests PRIVATE -O0)
  endif()
endif()

function(mobula_use_precompiled target)
  if(NOT MOBULA_PRECOMPILE)
    return()
  endif()
  set(from mobula_precompiled)
  if("TESTS" IN_LIST ARGN)
    set(from mobula_precompiled_tests)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${from})
endfunction()
