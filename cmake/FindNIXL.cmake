# Defines NIXL::nixl, NVIDIA's transfer library, if its headers and library are found: under
# MOBULA_NIXL_ROOT (a cache or environment variable), in a prefix of CMAKE_PREFIX_PATH, or in the
# system's paths. NIXL_INCLUDE_DIR and NIXL_LIBRARY may name the two directly: Python's packages
# contain the library without headers.
set(MOBULA_NIXL_ROOT "$ENV{MOBULA_NIXL_ROOT}" CACHE PATH "Where NIXL is installed")
find_path(NIXL_INCLUDE_DIR nixl.h HINTS "${MOBULA_NIXL_ROOT}" PATH_SUFFIXES include include/nixl)
find_library(NIXL_LIBRARY nixl HINTS "${MOBULA_NIXL_ROOT}" PATH_SUFFIXES lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
# Descriptors are in a separate library in the same directory.
cmake_path(GET NIXL_LIBRARY PARENT_PATH nixl_folder)
find_library(NIXL_BUILD_LIBRARY nixl_build HINTS "${nixl_folder}" NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NIXL REQUIRED_VARS NIXL_LIBRARY NIXL_BUILD_LIBRARY NIXL_INCLUDE_DIR)
mark_as_advanced(NIXL_INCLUDE_DIR NIXL_LIBRARY NIXL_BUILD_LIBRARY)
if(NIXL_FOUND AND NOT TARGET NIXL::nixl)
  add_library(NIXL::nixl UNKNOWN IMPORTED)
  set_target_properties(NIXL::nixl PROPERTIES
      IMPORTED_LOCATION "${NIXL_LIBRARY}"
      INTERFACE_LINK_LIBRARIES "${NIXL_BUILD_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${NIXL_INCLUDE_DIR}"
      # The library finds its own dependencies through its run path.
      INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined")
endif()
