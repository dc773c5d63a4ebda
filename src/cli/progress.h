// How far long work has come, for whoever sits at a terminal: one line on stderr, written over, and gone when the work
// is. Nothing where stderr is no terminal that can do that, or where it is not wanted (--no-progress); no escape
// sequence where NO_COLOR is set. One thread at a time.
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

  // Whether anybody sees it.
  bool shown() const { return shown_; }

  // The first at once, later ones at most every 100 ms: what comes too soon is passed over.
  void tell(const std::string& what);
  void tell_bytes(const std::string& what, std::uint64_t have, std::uint64_t all);
  // Before something else is printed.
  void clear();

 private:
  void draw(const std::string& line);
  bool due() const;

  const bool shown_;
  const bool plain_;
  std::size_t drawn_ = 0;  // columns of the line that stands there
  Time drawn_at_{};
};

// "mobula: the job's files [########............] 12.0 of 30.0 MiB", and, without a bar, "mobula: 2 leases are left":
// at most `columns` columns.
std::string progress_line(const std::string& what, std::size_t columns);
std::string progress_line(const std::string& what, std::uint64_t have, std::uint64_t all, std::size_t columns);

}  // namespace mobula::internal::cli
