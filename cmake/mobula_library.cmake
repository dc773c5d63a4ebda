# The one library that users link, its public headers, and the contents of an installation.
#
# The library is shared, because the table of a job's registered functions must exist once per process,
# and because `mobula::init` finds the `mobula` program relative to this library.
include(CMakePackageConfigHelpers)

set(MOBULA_LIBRARY_DIRECTORIES
    base base/model protocol protocol/session transport transport/tensor store/core store device device/gpu tensor
    tensor/exchange/core tensor/exchange tensor/collective/core tensor/collective
    client/core client/executor/core client client/executor client/console client/init
    tune/core tune/store tune/api tune/runtime)

file(GLOB_RECURSE MOBULA_PUBLIC_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/mobula/*.h")
if(MOBULA_PUBLIC_HEADERS)
  add_library(mobula_public_headers INTERFACE)
  target_link_libraries(mobula_public_headers INTERFACE mobula_options)
  target_sources(mobula_public_headers INTERFACE FILE_SET HEADERS
      BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${MOBULA_PUBLIC_HEADERS})
  mobula_verify_alone(mobula_public_headers ${MOBULA_PUBLIC_HEADERS})
endif()

add_library(mobula_shared SHARED)
add_library(Mobula::mobula ALIAS mobula_shared)
foreach(directory IN LISTS MOBULA_LIBRARY_DIRECTORIES)
  mobula_target_of("${directory}" target)
  if(NOT TARGET ${target})
    message(STATUS "Mobula::mobula lacks '${directory}'")
    continue()
  endif()
  get_target_property(kind ${target} TYPE)
  if(NOT kind STREQUAL "INTERFACE_LIBRARY")
    # The objects instead of the archive: an archive would drop objects without references from
    # inside.
    target_sources(mobula_shared PRIVATE $<TARGET_OBJECTS:${target}>)
  endif()
  get_target_property(externals ${target} MOBULA_EXTERNAL_LINKS)
  target_link_libraries(mobula_shared PRIVATE ${externals})
endforeach()
target_link_libraries(mobula_shared PRIVATE $<BUILD_INTERFACE:mobula_options> INTERFACE Threads::Threads)
target_compile_features(mobula_shared INTERFACE cxx_std_20)
if(NOT MOBULA_SANITIZE)
  # A directory missing from the list above fails here instead of in a user's program.
  target_link_options(mobula_shared PRIVATE -Wl,--no-undefined)
endif()
# Binds calls between the library's own functions directly, not through the symbol table that a
# program may override.
target_link_options(mobula_shared PRIVATE -Wl,-Bsymbolic-functions)
target_include_directories(mobula_shared INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(mobula_shared PROPERTIES
    OUTPUT_NAME mobula EXPORT_NAME mobula LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# Tune is a part of the library; the target names it in programs that use <mobula/tune.h>.
add_library(mobula_with_tune INTERFACE)
add_library(Mobula::tune ALIAS mobula_with_tune)
target_link_libraries(mobula_with_tune INTERFACE mobula_shared)
set_target_properties(mobula_with_tune PROPERTIES EXPORT_NAME tune)
install(TARGETS mobula_with_tune EXPORT MobulaTargets)

install(TARGETS mobula_shared EXPORT MobulaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/mobula" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
if(TARGET mobula)
  install(TARGETS mobula RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(MOBULA_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Mobula")
install(EXPORT MobulaTargets NAMESPACE Mobula:: DESTINATION "${MOBULA_PACKAGE_DIR}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/MobulaConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/MobulaConfig.cmake" INSTALL_DESTINATION "${MOBULA_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/MobulaConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/MobulaConfig.cmake" "${PROJECT_BINARY_DIR}/MobulaConfigVersion.cmake"
        DESTINATION "${MOBULA_PACKAGE_DIR}")
