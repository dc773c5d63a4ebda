// A table of the stages of a call's way, for `mobula bench --profile`. Starts a cluster of its own.
#pragma once

#include <string>
#include <vector>

namespace mobula::bench {

struct ProfileRow {
  std::string kind;   // of call
  std::string stage;  // "all": the whole way
  std::string what;
  double median_us = 0;
  double p90_us = 0;
  int calls = 0;  // that were counted
};

std::vector<ProfileRow> profile(int calls);
void print_profile(const std::vector<ProfileRow>& rows);

}  // namespace mobula::bench
