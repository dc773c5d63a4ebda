#include "cli/repl/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <vector>

#include "base/fd.h"
#include "cli/output/log_lines.h"
#include "cli/repl/line.h"

namespace mobula::internal::cli::repl {
namespace {

constexpr int history_lines = 1000;
constexpr std::size_t most_listed = 200;  // completions
constexpr int news_at_once = 200;         // lines per update
constexpr int character_ms = 100;         // for the rest of a character

std::size_t columns() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// Returns the width in columns; East Asian characters have two.
std::size_t width_of(std::string_view text) {
  std::size_t total = 0;
  std::mbstate_t state{};
  while (!text.empty()) {
    wchar_t character = 0;
    std::size_t length = std::mbrtowc(&character, text.data(), text.size(), &state);
    const bool known = length > 0 && length <= text.size();
    const int width = known ? ::wcwidth(character) : 1;
    if (!known) {
      state = {};
      length = 1;
    }
    total += width > 0 ? static_cast<std::size_t>(width) : 0;
    text.remove_prefix(length);
  }
  return total;
}

// Lines of news are foreign text, so their controls are removed.
std::string harmless(const std::string& text) { return printable(text); }

}  // namespace

struct Terminal::Editor {
  EditLine* line = nullptr;
  History* history = nullptr;
  std::string history_file;

  ~Editor() {
    if (line != nullptr) ::el_end(line);
    if (history != nullptr) ::history_end(history);
  }

  static Terminal* owner_of(EditLine* of) {
    void* owner = nullptr;
    ::el_get(of, EL_CLIENTDATA, &owner);
    return static_cast<Terminal*>(owner);
  }
  static char* prompt_of(EditLine* of) { return owner_of(of)->prompt_.data(); }
  static int character_of(EditLine* of, wchar_t* into) {
    return owner_of(of)->read_character(into);
  }
  static unsigned char completed(EditLine* of, int) {
    return owner_of(of)->complete_word() ? CC_REDISPLAY : CC_REFRESH;
  }

  void remember(const std::string& text) const {
    // A rejected line would be rejected again at each start.
    if (text.size() > longest_line) return;
    HistEvent event{};
    ::history(history, &event, H_ENTER, text.c_str());
    if (!history_file.empty()) ::history(history, &event, H_SAVE, history_file.c_str());
  }
};

Terminal::Terminal(Interrupts& interrupts)
    : interrupts_(interrupts), editor_(std::make_unique<Editor>()) {}
Terminal::~Terminal() = default;

Result<std::unique_ptr<Terminal>> Terminal::open(Interrupts& interrupts,
                                                 const std::string& history_file) {
  // Sets the character set of the terminal; the formats of numbers stay unchanged.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1)
    std::setlocale(LC_CTYPE, "C.UTF-8");
  std::unique_ptr<Terminal> terminal(new Terminal(interrupts));
  Editor& editor = *terminal->editor_;
  editor.line = ::el_init("mobula", stdin, stdout, stderr);
  editor.history = ::history_init();
  if (editor.line == nullptr || editor.history == nullptr) {
    return failure(ErrorCode::unavailable,
                   "repl: this terminal does not support line editing; use a pipe or -c");
  }
  HistEvent event{};
  ::history(editor.history, &event, H_SETSIZE, history_lines);
  ::history(editor.history, &event, H_SETUNIQUE, 1);
  const Fd file(::open(history_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file && ::fchmod(file.get(), 0600) == 0) {
    editor.history_file = history_file;
    ::history(editor.history, &event, H_LOAD, history_file.c_str());
  }
  ::el_set(editor.line, EL_CLIENTDATA, terminal.get());
  ::el_set(editor.line, EL_PROMPT, &Editor::prompt_of);
  ::el_set(editor.line, EL_EDITOR, "emacs");
  ::el_set(editor.line, EL_SIGNAL, 0);
  ::el_set(editor.line, EL_HIST, ::history, editor.history);
  ::el_set(editor.line, EL_ADDFN, "mobula-complete", "completes the word", &Editor::completed);
  ::el_set(editor.line, EL_BIND, "^I", "mobula-complete", nullptr);
  ::el_set(editor.line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  ::el_set(editor.line, EL_GETCFN, &Editor::character_of);
  return terminal;
}

std::optional<std::string> Terminal::read() {
  prompt_ = hooks_.prompt ? hooks_.prompt() : "> ";
  interrupted_ = false;
  if (interrupts_.clear()) ::el_resize(editor_->line);
  show_news();
  int count = 0;
  const char* line = ::el_gets(editor_->line, &count);
  if (interrupted_) {
    ::el_reset(editor_->line);
    std::fputs("^C\n", stdout);
    std::fflush(stdout);
    return std::string();
  }
  if (line == nullptr || count <= 0) return std::nullopt;
  std::string text(line, static_cast<std::size_t>(count));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.find_first_not_of(" \t") != std::string::npos && text.front() != ' ')
    editor_->remember(text);
  return text;
}

// Waits for a character. Returns 1, or 0 at the end of input.
int Terminal::read_character(wchar_t* into) {
  char bytes[MB_LEN_MAX];
  std::size_t have = 0;
  for (;;) {
    std::vector<pollfd> items{{STDIN_FILENO, POLLIN, 0}, {interrupts_.fd(), POLLIN, 0}};
    if (hooks_.news_fds) {
      for (const int fd : hooks_.news_fds()) items.push_back({fd, POLLIN, 0});
    }
    const int ready = ::poll(items.data(), items.size(), have == 0 ? -1 : character_ms);
    if (interrupts_.raised()) {
      interrupts_.clear();
      interrupted_ = true;
      return 0;
    }
    if (ready < 0 && errno != EINTR) return 0;
    if (items[1].revents != 0 && interrupts_.clear()) {
      // The terminal has wrapped the line again, so it is redrawn from its present beginning.
      clear_typed();
      ::el_resize(editor_->line);
      ::el_set(editor_->line, EL_REFRESH);
    }
    if (have == 0 && std::any_of(items.begin() + 2, items.end(),
                                 [](const pollfd& each) { return each.revents != 0; })) {
      show_news();
      ::el_set(editor_->line, EL_REFRESH);
    }
    if (ready > 0 && items[0].revents != 0) {
      if (::read(STDIN_FILENO, bytes + have, 1) != 1) return 0;
      ++have;
    } else if (ready != 0 || have == 0) {
      continue;
    }
    std::mbstate_t state{};
    const std::size_t length = std::mbrtowc(into, bytes, have, &state);
    const bool is_part =
        length == static_cast<std::size_t>(-2) && have < sizeof bytes && ready != 0;
    if (is_part) continue;
    // Not a character of this locale.
    if (length > have) *into = static_cast<unsigned char>(bytes[0]);
    return 1;
  }
}

void Terminal::clear_typed() {
  const LineInfo* typed = ::el_line(editor_->line);
  const auto before = static_cast<std::size_t>(typed->cursor - typed->buffer);
  const std::size_t row = (width_of(prompt_) + width_of({typed->buffer, before})) / columns();
  std::fputs((row > 0 ? fmt::format("\x1b[{}A\r\x1b[J", row) : std::string("\r\x1b[J")).c_str(),
             stdout);
  std::fflush(stdout);
}

// Prints news above the edited line, which is cleared and redrawn below.
void Terminal::show_news() {
  if (!hooks_.news) return;
  auto line = hooks_.news();
  std::string prompt = hooks_.prompt ? hooks_.prompt() : prompt_;
  if (!line && prompt == prompt_) return;
  clear_typed();
  std::string text;
  for (int shown = 1; line; ++shown) {
    text += harmless(*line) + "\n";
    if (shown >= news_at_once) break;  // so that input is handled in time
    line = hooks_.news();
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  prompt_ = std::move(prompt);
}

bool Terminal::complete_word() {
  if (!hooks_.complete) return false;
  const LineInfo* typed = ::el_line(editor_->line);
  const std::string before(typed->buffer, typed->cursor);
  const Completion completion = hooks_.complete(before);
  const std::string begun = before.substr(std::min(completion.from, before.size()));
  if (completion.words.empty()) return false;
  std::string more = common_beginning(completion.words).substr(begun.size());
  const bool only = completion.words.size() == 1;
  if (only && !completion.words.front().ends_with('/') && !completion.words.front().ends_with('.'))
    more += ' ';
  if (!more.empty()) ::el_insertstr(editor_->line, more.c_str());
  if (only || !more.empty()) return false;
  std::size_t widest = 1;
  for (const auto& word : completion.words) widest = std::max(widest, width_of(word) + 2);
  const std::size_t across = std::max<std::size_t>(1, columns() / widest);
  std::string text = "\n";
  for (std::size_t i = 0; i < completion.words.size() && i < most_listed; ++i) {
    const std::string& word = completion.words[i];
    const bool last = i + 1 == completion.words.size() || (i + 1) % across == 0;
    text += last ? word + "\n" : word + std::string(widest - width_of(word), ' ');
  }
  if (completion.words.size() > most_listed)
    text += fmt::format("… and {} more\n", completion.words.size() - most_listed);
  if (text.back() != '\n') text += "\n";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return true;
}

}  // namespace mobula::internal::cli::repl
