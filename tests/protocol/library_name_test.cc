#include "protocol/program/library_name.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

TEST(LibraryName, ReadsSoname) {
  EXPECT_EQ(library_name(MOBULA_VERSIONED_LIBRARY), "libmobula_versioned_library.so.1");
}

TEST(LibraryName, NoLibrary_HasNoName) {
  EXPECT_EQ(library_name("/proc/self/exe"), "");
  EXPECT_EQ(library_name("/etc/passwd"), "");
  EXPECT_EQ(library_name("/dev/null"), "");
  EXPECT_EQ(library_name("/not/there"), "");
}

}  // namespace
}  // namespace mobula::internal
