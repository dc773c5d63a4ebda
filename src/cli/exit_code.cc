#include "cli/exit_code.h"

#include <cstdio>

namespace mobula::internal::cli {

int complain(const Failure& why) { return complain(why, exit_code_of(why)); }

int complain(const Failure& why, int code) {
  std::string line = why.text;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  for (auto& c : line) c = c == '\n' ? ' ' : c;
  std::fprintf(stderr, "mobula: %s\n", line.c_str());
  return code;
}

}  // namespace mobula::internal::cli
