# Configures a small tree in WORK with cmake/mobula_checks.cmake of ROOT. Configuration must fail
# exactly if a source is in no target.
# cmake -DGENERATOR=... -DROOT=... -DWORK=... -P unlisted_source_test.cmake

file(REMOVE_RECURSE "${WORK}")
file(WRITE "${WORK}/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.25)
project(Small LANGUAGES NONE)
set(BUILD_TESTING ON)
set(MOBULA_ROOMS head)
add_subdirectory(tests)
include(${ROOT}/cmake/mobula_checks.cmake)
")
file(WRITE "${WORK}/tests/CMakeLists.txt" "add_custom_target(listed SOURCES listed_test.cc)")
file(WRITE "${WORK}/tests/listed_test.cc" "")
file(WRITE "${WORK}/tests/outside/app.cc" "")

function(configure expected)
  execute_process(COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${WORK}" -B "${WORK}/build"
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(expected STREQUAL "succeeds" AND NOT status EQUAL 0)
    message(FATAL_ERROR "Configuration failed although every source is listed:\n${output}")
  endif()
  if(NOT expected STREQUAL "succeeds" AND (status EQUAL 0 OR NOT output MATCHES "${expected}"))
    message(FATAL_ERROR "Expected a failure that names ${expected}; status ${status}:\n${output}")
  endif()
endfunction()

configure(succeeds)
file(WRITE "${WORK}/tests/head/forgotten_test.cc" "")
configure("tests/head/forgotten_test.cc")
file(REMOVE "${WORK}/tests/head/forgotten_test.cc")
file(WRITE "${WORK}/head/forgotten.cc" "")
configure("head/forgotten.cc")
