// Runs the tests, or the role of a process that a test started by exec.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace mobula::internal {
int import_legacy(const std::string& hex, int ready);
}

int main(int count, char** words) {
  if (count == 4 && std::strcmp(words[1], "--import-legacy") == 0) {
    return mobula::internal::import_legacy(words[2], std::stoi(words[3]));
  }
  testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
