// A line editor on this process's terminal: editing, history, completion, and lines of news above the one that is
// typed. Reads from standard input, writes to standard output. Main thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/repl/completion.h"
#include "cli/repl/interrupts.h"

namespace mobula::internal::cli::repl {

struct TerminalHooks {
  std::function<std::string()> prompt{};
  std::function<Completion(const std::string& before)> complete{};
  // Descriptors that are readable while there is news, asked for each time, since one may be closed when its news
  // ends; and the news itself, a line without its end at a time.
  std::function<std::vector<int>()> news_fds{};
  std::function<std::optional<std::string>()> news{};
};

class Terminal {
 public:
  // The history is kept in a file that only its owner can read.
  static Result<std::unique_ptr<Terminal>> open(Interrupts& interrupts, const std::string& history_file);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  void set_hooks(TerminalHooks hooks) { hooks_ = std::move(hooks); }
  // The next line, without its end; empty after Ctrl-C; nothing at the end of input. A line that begins with a
  // blank is not kept in the history.
  std::optional<std::string> read();

 private:
  struct Editor;
  explicit Terminal(Interrupts& interrupts);
  int read_character(wchar_t* into);
  void show_news();
  void clear_typed();
  bool complete_word();  // whether a list was printed below

  Interrupts& interrupts_;
  TerminalHooks hooks_;
  std::unique_ptr<Editor> editor_;
  std::string prompt_;
  bool interrupted_ = false;
};

}  // namespace mobula::internal::cli::repl
