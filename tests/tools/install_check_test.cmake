# The first step of an installation rejects a build directory without a program, and names the
# remedy.
# cmake -DROOT=... -DWORK=... -P install_check_test.cmake

function(check expected)
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DMOBULA_BUILD=${WORK}" -P "${ROOT}/cmake/mobula_install_check.cmake"
                  RESULT_VARIABLE status ERROR_VARIABLE output)
  if(expected STREQUAL "succeeds" AND NOT status EQUAL 0)
    message(FATAL_ERROR "a complete build is refused:\n${output}")
  elseif(expected STREQUAL "fails" AND (status EQUAL 0 OR NOT output MATCHES "bin/mobula-bench" OR NOT output MATCHES "dev install"))
    message(FATAL_ERROR "an incomplete build is not refused as expected:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(WRITE "${WORK}/bin/mobula" "")
file(WRITE "${WORK}/lib/libmobula.so" "")
check(fails)
file(WRITE "${WORK}/bin/mobula-bench" "")
check(succeeds)
