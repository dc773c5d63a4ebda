# The compile and link options of every target of the project, as one target: no option is global.
add_library(mobula_options INTERFACE)
target_compile_features(mobula_options INTERFACE cxx_std_20)
target_compile_definitions(mobula_options INTERFACE MSGPACK_NO_BOOST)
# Contracted multiply-adds would round differently per compiler, and change the traces of the
# simulator.
target_compile_options(mobula_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
    -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(mobula_options INTERFACE -Wthread-safety)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # With optimization, g++ 12 reports both warnings inside std::string and std::optional.
  target_compile_options(mobula_options INTERFACE
      $<$<NOT:$<CONFIG:Debug>>:-Wno-restrict> $<$<NOT:$<CONFIG:Debug>>:-Wno-maybe-uninitialized>)
  # g++ also reports members that a designated initializer omits on purpose. clang++ reports only
  # omissions in positional lists.
  target_compile_options(mobula_options INTERFACE -Wno-missing-field-initializers)
  # g++ also reports a local of a lambda that has the name of a local around it, even without a
  # capture. clang++ reports all others.
  target_compile_options(mobula_options INTERFACE -Wno-shadow)
endif()
if(MOBULA_WERROR)
  target_compile_options(mobula_options INTERFACE -Werror)
endif()
if(MOBULA_SANITIZE)
  target_compile_options(mobula_options INTERFACE
      -fsanitize=${MOBULA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mobula_options INTERFACE -fsanitize=${MOBULA_SANITIZE})
  if(MOBULA_SANITIZE MATCHES "undefined")
    # AddressSanitizer reports these accesses too. The checks cost a fifth of the compile time.
    target_compile_options(mobula_options INTERFACE -fno-sanitize=null,object-size,vptr)
  endif()
endif()
if(MOBULA_FAST_LINKER)
  find_program(MOBULA_MOLD mold)
  if(MOBULA_MOLD)
    target_link_options(mobula_options INTERFACE -fuse-ld=mold)
  endif()
endif()
# Binds symbols at program start: a fork server does it once for all processes that it forks.
target_link_options(mobula_options INTERFACE -Wl,-z,now)
target_link_libraries(mobula_options INTERFACE Threads::Threads)
