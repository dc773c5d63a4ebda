# The three functions through which every directory declares its targets.
#
#   mobula_library(<directory> [SOURCES file...] [HEADERS file...] [LINKS item...])
#     The code of one directory: target `mobula_<directory>`, with _ for /. It contains all headers next to and
#     below the CMakeLists.txt unless HEADERS names them. Without SOURCES it is header-only.
#
#   mobula_test(<name> SOURCES file... [LINKS item...] [TIMEOUT seconds] [LABELS label...]
#               [OWN_MAIN] [SERIAL] [WHOLE])
#     A GoogleTest program whose tests run under ctest, with gtest's main unless OWN_MAIN.
#     WHOLE: one test of ctest runs all tests in one process with one cluster, without the
#     environment's address, token, and state directory.
#     SERIAL: no other test runs at the same time. MOBULA_SOURCE_DIR and MOBULA_BINARY_DIR are
#     defined as strings in its sources.
#
#   mobula_program(<name> SOURCES file... [LINKS item...])
#     An executable, built into bin/ of the build directory.
#
# An item of LINKS is a directory ("base", "head/core") or an imported target ("fmt::fmt", "cppzmq").
# The table in docs/architecture.md lists the allowed links. tools/check_layers.py checks these calls
# against it.
include(GoogleTest)

# All programs with the label `unit`: the sanitizer builds compile and run them.
add_custom_target(unit_tests)

function(mobula_target_of directory result)
  string(REPLACE "/" "_" name "mobula_${directory}")
  set(${result} "${name}" PARENT_SCOPE)
endfunction()

# Resolves items of LINKS to targets, and records targets that must exist at the end of configuration.
function(mobula_resolve_links result)
  set(resolved "")
  foreach(item IN LISTS ARGN)
    if(NOT item MATCHES "::" AND NOT TARGET "${item}")
      mobula_target_of("${item}" item)
      set_property(GLOBAL APPEND PROPERTY MOBULA_LINKED "${item}")
    endif()
    list(APPEND resolved "${item}")
  endforeach()
  set(${result} "${resolved}" PARENT_SCOPE)
endfunction()

# Code under tests/ may include headers from there, such as "sim/world.h".
function(mobula_include_roots result)
  set(roots "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/tests")
    list(APPEND roots "${PROJECT_SOURCE_DIR}/tests")
  endif()
  set(${result} "${roots}" PARENT_SCOPE)
endfunction()

# The headers of a directory, except those of subdirectories with their own targets.
function(mobula_headers_below directory result)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${directory}/*.h")
  file(GLOB_RECURSE lists CONFIGURE_DEPENDS "${directory}/*/CMakeLists.txt")
  foreach(list IN LISTS lists)
    cmake_path(GET list PARENT_PATH other)
    list(FILTER headers EXCLUDE REGEX "^${other}/")
  endforeach()
  set(${result} "${headers}" PARENT_SCOPE)
endfunction()

# The headers that no source includes first.
function(mobula_headers_to_verify result)
  set(alone "")
  foreach(header IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REGEX REPLACE "[.]h$" ".cc" source "${header}")
    set(first "")
    if(EXISTS "${source}" AND header MATCHES "^${PROJECT_SOURCE_DIR}/(.*)$")
      set(own "#include \"${CMAKE_MATCH_1}\"")
      file(STRINGS "${source}" first REGEX "^#include" LIMIT_COUNT 1)
    endif()
    if(first STREQUAL "" OR NOT first STREQUAL own)
      list(APPEND alone "${header}")
    endif()
  endforeach()
  set(${result} "${alone}" PARENT_SCOPE)
endfunction()

# Compiles every header alone: `ninja verify_headers`, not part of `all`.
add_custom_target(verify_headers)
function(mobula_verify_alone target)
  set(sources "")
  foreach(header IN LISTS ARGN)
    string(REGEX REPLACE "^${PROJECT_SOURCE_DIR}/((include|tests)/)?" "" path "${header}")
    set(source "${PROJECT_BINARY_DIR}/alone/${path}.cc")
    # The second include checks the include guard.
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <${path}>\n#include <${path}>\n")
    list(APPEND sources "${source}")
  endforeach()
  add_library(${target}_alone OBJECT EXCLUDE_FROM_ALL ${sources})
  set_target_properties(${target}_alone PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(${target}_alone PRIVATE ${target})
  mobula_use_precompiled(${target}_alone)
  add_dependencies(verify_headers ${target}_alone)
endfunction()

function(mobula_library directory)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;LINKS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mobula_library(${directory}): unexpected '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  mobula_target_of("${directory}" target)
  mobula_include_roots(roots)
  mobula_resolve_links(links ${arg_LINKS})
  if(NOT arg_HEADERS)
    mobula_headers_below("${CMAKE_CURRENT_SOURCE_DIR}" arg_HEADERS)
  endif()

  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(MOBULA_UNITY_SOURCES)
      set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${MOBULA_UNITY_SOURCES})
    endif()
    mobula_use_precompiled(${target})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${roots})
  target_link_libraries(${target} ${scope} mobula_options ${links})
  if(arg_HEADERS)
    # The base directories are the roots, not the directory itself: in a base directory, a header named
    # time.h would replace <time.h>.
    target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HEADERS})
    mobula_headers_to_verify(alone ${arg_HEADERS})
    if(alone)
      mobula_verify_alone(${target} ${alone})
    endif()
  endif()
  # External libraries, for the one library that users link.
  list(FILTER links EXCLUDE REGEX "^mobula_")
  set_property(TARGET ${target} PROPERTY MOBULA_EXTERNAL_LINKS "${links}")
endfunction()

function(mobula_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mobula_program(${name}): unexpected '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  mobula_include_roots(roots)
  mobula_resolve_links(links ${arg_LINKS})
  add_executable(${name} ${arg_SOURCES})
  mobula_use_precompiled(${name})
  target_include_directories(${name} PRIVATE ${roots})
  target_link_libraries(${name} PRIVATE mobula_options ${links})
  set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
      INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endfunction()

function(mobula_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_MAIN;SERIAL;WHOLE" "TIMEOUT" "SOURCES;LINKS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mobula_test(${name}): unexpected '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  mobula_include_roots(roots)
  mobula_resolve_links(links ${arg_LINKS})
  add_executable(${name} ${arg_SOURCES})
  mobula_use_precompiled(${name} TESTS)
  if(MOBULA_SANITIZE)
    # Tests compile in half the time, and the library that they check keeps its optimization.
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_include_directories(${name} PRIVATE ${roots})
  target_compile_definitions(${name} PRIVATE
      MOBULA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MOBULA_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE mobula_options ${links} GTest::gmock GTest::gtest)
  if(NOT arg_OWN_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  if("unit" IN_LIST arg_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  if(arg_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set(unset "")
    foreach(variable ADDRESS KEY_FILE TOKEN TOKEN_FILE CLUSTER)
      list(APPEND unset "MOBULA_${variable}=unset:")
    endforeach()
    set_tests_properties(${name} PROPERTIES ${properties} ENVIRONMENT_MODIFICATION "${unset}")
    return()
  endif()
  # PRE_TEST: ctest lists the program's tests when it starts, not during the build.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      TEST_PREFIX "${name}." PROPERTIES ${properties})
endfunction()
