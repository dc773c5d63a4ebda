// Shows successive pages in place on the terminal's alternate screen, with a hidden cursor. The
// destructor restores the terminal. SIGINT, SIGTERM, and keys end waits.
// Thread: main.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <termios.h>

#include "base/time.h"

namespace mobula::internal::cli {

// Reports whether standard output is a terminal with cursor control (TERM is set and not dumb).
bool output_is_screen();

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  // Draws the page in one write, line over line, without flicker. Returns false if the terminal is
  // closed.
  bool draw(const std::string& page);
  // Waits for `span`, a resize, or a key, and returns true; returns false if a signal or the end of
  // the terminal must end the program.
  bool wait(Duration span);
  // Returns the key that ended the latest wait; 0: none.
  char key() const { return key_; }

 private:
  void measure();

  std::size_t rows_ = 24;
  std::size_t columns_ = 80;
  std::optional<termios> before_;  // settings of the terminal that the destructor restores
  char key_ = 0;
};

// Shows pages with `seconds` between them; `page` gets the pressed key, or 0. Ends when
// interrupted, or with q. Returns the exit code.
int watch_on_screen(double seconds,
                    const std::function<std::string(const Screen& screen, char key)>& page);

}  // namespace mobula::internal::cli
