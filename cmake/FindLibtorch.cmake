# Defines Libtorch::Libtorch: PyTorch's C++ library, from Debian's libtorch-dev or the directory of
# a wheel (CMAKE_PREFIX_PATH). PyTorch's own package file would require all libraries that PyTorch
# was built with.
find_path(LIBTORCH_INCLUDE_DIR ATen/DLConvertor.h)
find_library(LIBTORCH_CPU_LIBRARY torch_cpu)
find_library(LIBTORCH_C10_LIBRARY c10)
mark_as_advanced(LIBTORCH_INCLUDE_DIR LIBTORCH_CPU_LIBRARY LIBTORCH_C10_LIBRARY)
if(LIBTORCH_INCLUDE_DIR AND LIBTORCH_CPU_LIBRARY)
  # clang++ 14 does not compile the headers of 1.13 as C++20; g++ 12 does.
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES "${LIBTORCH_INCLUDE_DIR}")
  set(CMAKE_REQUIRED_FLAGS "-std=c++20")
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  check_cxx_source_compiles("#include <ATen/ATen.h>
      int main() { return 0; }" LIBTORCH_COMPILES)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_FLAGS)
  unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch 
    REQUIRED_VARS LIBTORCH_CPU_LIBRARY LIBTORCH_C10_LIBRARY LIBTORCH_INCLUDE_DIR LIBTORCH_COMPILES)
if(Libtorch_FOUND AND NOT TARGET Libtorch::Libtorch)
  add_library(Libtorch::Libtorch INTERFACE IMPORTED)
  target_include_directories(Libtorch::Libtorch INTERFACE "${LIBTORCH_INCLUDE_DIR}")
  target_link_libraries(Libtorch::Libtorch INTERFACE "${LIBTORCH_CPU_LIBRARY}" "${LIBTORCH_C10_LIBRARY}")
endif()
