#include "cli/exit_code.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/output/color.h"
#include "cli/output/log_lines.h"

namespace mobula::internal::cli {

namespace {

void say(const std::string& label, std::string line) {
  while (!line.empty() && line.back() == '\n') line.pop_back();
  for (auto& c : line) c = c == '\n' ? ' ' : c;
  line = printable(line);  // parts of it may be foreign text
  std::fprintf(stderr, "%s %s\n", label.c_str(), line.c_str());
}

}  // namespace

int complain(const Failure& why) { return complain(why, exit_code_of(why)); }

int complain(const Failure& why, int code) {
  say(error_label(), why.text);
  return code;
}

int complain_of_output(const std::string& lost) {
  const std::string why = errno == EPIPE ? "no reader" : std::strerror(errno);
  if (errno == EPIPE && lost.empty()) return exit_failed;
  return complain(failure(ErrorCode::resource_exhausted,
                          "standard output: " + why + (lost.empty() ? "" : "; " + lost)));
}

void warn(const std::string& text) { say(warning_label(), text); }

}  // namespace mobula::internal::cli
