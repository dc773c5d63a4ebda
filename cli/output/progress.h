// Progress of long work on a terminal: one line on stderr, rewritten in place and erased at the
// end. Nothing if stderr is not such a terminal, or with --no-progress. No escape sequences if
// NO_COLOR is set.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/time.h"

namespace mobula::internal::cli {

class Progress {
 public:
  explicit Progress(bool wanted);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  // Reports whether the line is visible.
  bool shown() const { return shown_; }

  // Shows the first text immediately, later ones at most every 100 ms; others are dropped.
  void show(const std::string& what);
  void show_bytes(const std::string& what, std::uint64_t have, std::uint64_t all);
  // Erases the line before other output.
  void clear();

 private:
  void draw(const std::string& line);
  bool due() const;

  const bool shown_;
  const bool plain_;
  std::size_t drawn_ = 0;  // columns of the visible line
  Time drawn_at_{};
};

// Progress of a wait that is short as a rule: nothing for two seconds, then "mobula: waiting for
// WHAT (12 s)". Elsewhere than on a terminal it is printed once, if `elsewhere` is set.
class WaitProgress {
 public:
  explicit WaitProgress(std::string what, bool wanted = true, bool elsewhere = false);

  // Call it several times per second during the wait.
  void poll();

 private:
  const std::string what_;
  const Time begun_;
  Progress progress_;
  bool prints_once_;
};

// Formats "mobula: the job's files [########............] 12.0 of 30.0 MiB" or, without a bar,
// "mobula: 2 leases are left", with at most `columns` columns.
std::string progress_line(const std::string& what, std::size_t columns);
std::string progress_line(const std::string& what, std::uint64_t have, std::uint64_t all,
                          std::size_t columns);

}  // namespace mobula::internal::cli
