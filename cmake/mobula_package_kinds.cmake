# Read by cpack before each kind of package: an archive can be unpacked in any directory.
if(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_PACKAGING_INSTALL_PREFIX "")
endif()
