#include "cli/output/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "cli/exit_code.h"
#include "cli/output/watch_page.h"
#include "cli/output/write_all.h"

namespace mobula::internal::cli {
namespace {

volatile std::sig_atomic_t ending = 0;

void end(int) { ending = 1; }
void wake(int) {}

void take(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART: interrupts waits
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

bool output_is_screen() {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  return ::isatty(STDOUT_FILENO) == 1 && !dumb;
}

Screen::Screen() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) take(signal, end);
  take(SIGWINCH, wake);
  measure();
  termios input{};
  if (::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &input) == 0) {
    before_ = input;
    input.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    input.c_cc[VMIN] = 0;
    input.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &input);
  }
  (void)write_all(STDOUT_FILENO, "\x1b[?1049h\x1b[?25l");
}

Screen::~Screen() {
  (void)write_all(STDOUT_FILENO, "\x1b[?25h\x1b[?1049l");
  if (before_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

void Screen::measure() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return;
  rows_ = size.ws_row;
  columns_ = size.ws_col;
}

bool Screen::draw(const std::string& page) {
  const std::string cut = cut_to_screen(page, rows_, columns_);
  // Terminals with synchronized updates show a page at once; others ignore the sequence.
  std::string text = "\x1b[?2026h\x1b[H";
  for (std::size_t from = 0; from < cut.size();) {
    const std::size_t end = cut.find('\n', from);
    text += (from == 0 ? "" : "\r\n") + cut.substr(from, end - from) + "\x1b[K";
    from = end + 1;
  }
  return write_all(STDOUT_FILENO, text + "\x1b[J\x1b[?2026l");
}

bool Screen::wait(Duration span) {
  key_ = 0;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int woken = ending == 0 ? ::poll(&input, before_ ? 1 : 0, static_cast<int>(span / 1ms)) : 0;
  // A closed terminal would wake the wait forever.
  if (woken > 0 && ::read(STDIN_FILENO, &key_, 1) != 1) ending = 1;
  measure();
  return ending == 0;
}

int watch_on_screen(double seconds,
                    const std::function<std::string(const Screen& screen, char key)>& page) {
  Screen screen;
  const auto span = Duration(static_cast<std::int64_t>(seconds * 1e9));
  for (char key = 0; key != 'q'; key = screen.key()) {
    if (!screen.draw(page(screen, key))) return exit_failed;
    if (!screen.wait(span)) return exit_interrupted;
  }
  return exit_done;
}

}  // namespace mobula::internal::cli
