// Tests named in tests/ray/parity.md exist, and the page lists every test here that has the name of
// a test of Ray.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace mobula::internal::ray {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

using Names = std::set<std::string>;

// "Suite.Name" of each test under tests/.
Names tests_of_the_tree() {
  static const std::regex test(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\))");
  Names names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(MOBULA_SOURCE_DIR "/tests")) {
    if (entry.path().extension() != ".cc") continue;
    const auto text = text_of(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), test), end; at != end; ++at) {
      names.insert((*at)[1].str() + "." + (*at)[2].str());
    }
  }
  return names;
}

// Names in backquotes in the second column of the tables of the page.
Names tests_of_the_page() {
  static const std::regex quoted(R"(`(\w+\.\w+)`)");
  std::istringstream page(text_of(MOBULA_SOURCE_DIR "/tests/ray/parity.md"));
  Names names;
  for (std::string line; std::getline(page, line);) {
    const auto first = line.find('|', 1), second = line.find('|', first + 1);
    if (!line.starts_with("|") || first == std::string::npos || second == std::string::npos)
      continue;
    const auto cell = line.substr(first, second - first);
    for (std::sregex_iterator at(cell.begin(), cell.end(), quoted), end; at != end; ++at) {
      names.insert((*at)[1].str());
    }
  }
  return names;
}

TEST(RayParity, ThePageNamesTestsThatAreThere) {
  const auto tests = tests_of_the_tree();
  const auto named = tests_of_the_page();
  EXPECT_GT(named.size(), 100u);
  for (const auto& each : named) EXPECT_TRUE(tests.contains(each)) << each;
}

TEST(RayParity, PortedTestsStandOnThePage) {
  const auto named = tests_of_the_page();
  const auto* all = ::testing::UnitTest::GetInstance();
  int ported = 0;
  for (int i = 0; i < all->total_test_suite_count(); ++i) {
    const auto* suite = all->GetTestSuite(i);
    const std::string name = suite->name();
    if (!name.starts_with("test_") || name.find('/') != std::string::npos) continue;
    for (int j = 0; j < suite->total_test_count(); ++j) {
      ++ported;
      const auto test = name + "." + suite->GetTestInfo(j)->name();
      EXPECT_TRUE(named.contains(test)) << test;
    }
  }
  EXPECT_GT(ported, 60);
}

}  // namespace
}  // namespace mobula::internal::ray
