# First step of `cmake --install`: fails before anything is copied if a program was not built.
# MOBULA_BUILD: the build directory.
set(missing "")
foreach(file IN ITEMS bin/mobula bin/mobula-bench lib/libmobula.so)
  if(NOT EXISTS "${MOBULA_BUILD}/${file}")
    list(APPEND missing "${file}")
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " names)
  message(FATAL_ERROR "install from ${MOBULA_BUILD}: ${names} not built, nothing is installed; run `./dev install PREFIX`, "
                      "or first `cmake --build ${MOBULA_BUILD} --target installed`")
endif()
