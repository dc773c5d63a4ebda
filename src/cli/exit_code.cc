#include "cli/exit_code.h"

#include <cstdio>

#include "cli/log_lines.h"

namespace mobula::internal::cli {

int complain(const Failure& why) { return complain(why, exit_code_of(why)); }

int complain(const Failure& why, int code) {
  std::string line = why.text;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  for (auto& c : line) c = c == '\n' ? ' ' : c;
  line = printable(line);  // some of it may come from elsewhere
  std::fprintf(stderr, "mobula: %s\n", line.c_str());
  return code;
}

}  // namespace mobula::internal::cli
