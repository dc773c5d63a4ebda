// A terminal that shows one page after another in the same place. While it stands the terminal shows its
// other screen, without a cursor; afterwards it is as before. SIGINT and SIGTERM end waits. Main thread.
#pragma once

#include <cstddef>
#include <string>

#include "base/time.h"

namespace mobula::internal::cli {

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  // In one write, line over line, so that nothing flickers. False: nobody looks any more.
  bool draw(const std::string& page);
  // True when the time is over or the size has changed; false when it is to end.
  bool wait(Duration span);

 private:
  void look_at_size();

  std::size_t rows_ = 24;
  std::size_t columns_ = 80;
};

}  // namespace mobula::internal::cli
