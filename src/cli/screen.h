// A terminal that shows one page after another in the same place. While it stands the terminal shows its
// other screen, without a cursor; afterwards it is as before. SIGINT and SIGTERM end waits, and so does a
// key, where the input is a terminal too. Main thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <termios.h>

#include "base/time.h"

namespace mobula::internal::cli {

// Standard output is a terminal that shows more than lines: TERM says what it is, and not that it is dumb.
bool output_is_screen();

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
  // True when the time is over, the size has changed or a key was pressed; false when it is to end.
  bool wait(Duration span);
  // That ended the last wait; 0: none.
  char key() const { return key_; }

 private:
  void look_at_size();

  std::size_t rows_ = 24;
  std::size_t columns_ = 80;
  std::optional<termios> before_;  // of the input
  char key_ = 0;
};

// One page after another, with `seconds` between them; `page` gets the key that was pressed, or 0. Until
// interrupted, or by q. Returns the code to end with.
int watch_on_screen(double seconds, const std::function<std::string(const Screen& screen, char key)>& page);

}  // namespace mobula::internal::cli
