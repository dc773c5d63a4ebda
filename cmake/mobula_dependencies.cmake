# All dependencies of Mobula, each from a package of Debian (tools/packages.txt). GPU libraries are
# opened at run time, and no build needs them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(cppzmq REQUIRED)                                      # cppzmq
# The package msgpackc-cxx contains msgpack-config.cmake on Debian 12. Later releases name both the
# package and the target msgpack-cxx.
find_package(msgpackc-cxx CONFIG QUIET CONFIGS msgpack-config.cmake)
if(NOT TARGET msgpackc-cxx)
  find_package(msgpack-cxx CONFIG REQUIRED)
  add_library(msgpackc-cxx INTERFACE IMPORTED)
  target_link_libraries(msgpackc-cxx INTERFACE msgpack-cxx)
endif()
find_package(fmt REQUIRED)                                         # fmt::fmt
find_package(spdlog REQUIRED)                                      # spdlog::spdlog
find_package(CLI11 REQUIRED)                                       # CLI11::CLI11
find_package(nlohmann_json REQUIRED)                               # nlohmann_json::nlohmann_json
find_package(SQLite3 REQUIRED)                                     # SQLite::SQLite3
find_package(OpenSSL REQUIRED)                                     # OpenSSL::Crypto, OpenSSL::SSL
find_package(yaml-cpp REQUIRED)                                    # yaml-cpp::yaml-cpp
if(NOT TARGET yaml-cpp::yaml-cpp)  # before release 0.8
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)            # PkgConfig::HWLOC
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)       # PkgConfig::HTTPLIB
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)       # PkgConfig::SODIUM
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)        # PkgConfig::LIBEDIT
if(BUILD_TESTING)
  find_package(GTest REQUIRED)                                     # GTest::gtest_main, GTest::gmock
endif()
