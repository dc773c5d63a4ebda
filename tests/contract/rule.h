// Rules of docs/api.md that the product does not keep yet. tests/contract/rules.md lists them with
// the reason. A test reports such a rule, and fails for every other broken rule.
// Thread: any.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <string>

namespace mobula::contract {

// Text of the last column of the rule's row; empty for a rule that the product keeps.
inline std::string known_difference(const std::string& id) {
  std::ifstream table(MOBULA_SOURCE_DIR "/tests/contract/rules.md");
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("| " + id + " |")) continue;
    const auto end = line.rfind(" |");
    const auto begin = line.rfind("| ", end - 1) + 2;
    return begin < end ? line.substr(begin, end - begin) : std::string();
  }
  ADD_FAILURE() << "tests/contract/rules.md has no rule " << id;
  return {};
}

// Expects that `keeps` returns true and does not throw.
inline void expect_rule(const std::string& id, const std::function<bool()>& keeps) {
  std::string seen = "it does not hold";
  bool holds = false;
  try {
    holds = keeps();
  } catch (const std::exception& error) {
    seen = std::string("it threw: ") + error.what();
  }
  const std::string difference = known_difference(id);
  if (holds) {
    if (!difference.empty())
      std::cout << "rule " << id << " holds now: remove its known difference from rules.md\n";
  } else if (difference.empty()) {
    ADD_FAILURE() << "rule " << id << ": " << seen;
  } else {
    std::cout << "known difference, rule " << id << ": " << difference << "\n";
  }
}

}  // namespace mobula::contract
