// Lines of a log on their way to people: whole lines, chosen by a pattern, perhaps the last ones only,
// and without anything that a terminal would obey. Bounded: a longer line comes in pieces. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mobula::internal::cli {

// Control characters but tabs as \xNN, escape sequences for colours and cursors left out. Valid UTF-8
// otherwise stays as it is.
std::string printable(std::string_view line);

// How many bytes follow a first one in UTF-8; 0 for what is no first one.
int bytes_after(unsigned char c);

class LogLines {
 public:
  static constexpr std::size_t max_line = 64 * 1024;
  static constexpr std::size_t max_kept_bytes = 64u << 20;  // of a tail

  struct Options {
    std::string pattern{};   // an extended regular expression of POSIX; empty: all lines
    bool raw = false;        // as they are
    std::int64_t tail = -1;  // lines; negative: all
  };
  // `sink` takes a line with its end, and says whether to go on. invalid_argument for a wrong pattern.
  static Result<LogLines> create(Options options, std::function<bool(const std::string&)> sink);

  // False: the sink wants no more.
  bool take(std::string_view bytes);
  // What there was at first has been taken: a tail is given out, and what comes later follows it. A last
  // line without an end is given out too, if nothing more `follows`.
  bool settle(bool follows);

 private:
  struct Pattern;
  LogLines(Options options, std::function<bool(const std::string&)> sink)
      : options_(std::move(options)), sink_(std::move(sink)) {}
  bool give(std::string_view line);

  Options options_;
  std::function<bool(const std::string&)> sink_;
  std::shared_ptr<Pattern> pattern_;  // shared so that this can be moved: the type is known in the .cc alone
  std::string partial_;
  bool settled_ = false;
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace mobula::internal::cli
