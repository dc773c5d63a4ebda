// A table of the stages of a call, for `mobula bench --profile`. Starts its own cluster.
// Thread: the main thread.
#pragma once

#include <string>
#include <vector>

namespace mobula::bench {

struct ProfileRow {
  std::string kind;   // kind of call
  std::string stage;  // "all": the complete call
  std::string what;
  double median_us = 0;
  double p90_us = 0;
  int calls = 0;  // counted calls
};

std::vector<ProfileRow> profile(int calls);
void print_profile(const std::vector<ProfileRow>& rows);

}  // namespace mobula::bench
