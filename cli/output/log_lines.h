// Lines of a log for display: whole lines, filtered by a pattern or a tail, without terminal
// controls. A very long line is split.
// Thread: owner.
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

// Replaces control characters except tabs by \xNN, and removes escape sequences of colors and
// cursors. Other valid UTF-8 is unchanged.
std::string printable(std::string_view line);

// Returns the number of continuation bytes after a first byte of UTF-8; 0 for other bytes.
int bytes_after(unsigned char c);

class LogLines {
 public:
  static constexpr std::size_t max_line = 64 * 1024;
  static constexpr std::size_t max_tail_bytes = 64u << 20;  // for a tail

  struct Options {
    std::string pattern{};   // extended POSIX regular expression; empty: all lines
    bool raw = false;        // unchanged bytes
    std::int64_t tail = -1;  // lines; negative: all
  };
  // `sink` receives a line with its end and returns whether to continue. invalid_argument for a
  // wrong pattern.
  static Result<LogLines> create(Options options, std::function<bool(const std::string&)> sink);

  // Returns false when the sink is done.
  bool take(std::string_view bytes);
  // Ends the initial part: a tail is printed and later lines follow it. An incomplete last line is
  // printed too unless more `follows`.
  bool settle(bool follows);

 private:
  struct Pattern;
  LogLines(Options options, std::function<bool(const std::string&)> sink)
      : options_(std::move(options)), sink_(std::move(sink)) {}
  bool give(std::string_view line);

  Options options_;
  std::function<bool(const std::string&)> sink_;
  // Shared, so that this is movable; the type is local to the .cc.
  std::shared_ptr<Pattern> pattern_;
  std::string partial_;
  bool settled_ = false;
  std::deque<std::string> tail_;
  std::size_t tail_bytes_ = 0;
};

}  // namespace mobula::internal::cli
