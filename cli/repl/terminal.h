// A line editor on this process's terminal: editing, history, completion, and news above the edited
// line. Reads from standard input, writes to standard output.
// Thread: main.
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
  // Descriptors that are readable while there are news, read again before each wait because one may
  // be closed; and the next line of news, without its end.
  std::function<std::vector<int>()> news_fds{};
  std::function<std::optional<std::string>()> news{};
};

class Terminal {
 public:
  // The history is a file that only its owner can read.
  static Result<std::unique_ptr<Terminal>> open(Interrupts& interrupts,
                                                const std::string& history_file);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  void set_hooks(TerminalHooks hooks) { hooks_ = std::move(hooks); }
  // Returns the next line without its end; empty after Ctrl-C; nothing at the end of input. Lines
  // with a leading blank are not stored in the history.
  std::optional<std::string> read();

 private:
  struct Editor;
  explicit Terminal(Interrupts& interrupts);
  int read_character(wchar_t* into);
  void show_news();
  void clear_typed();
  bool complete_word();  // returns whether a list was printed below

  Interrupts& interrupts_;
  TerminalHooks hooks_;
  std::unique_ptr<Editor> editor_;
  std::string prompt_;
  bool interrupted_ = false;
};

}  // namespace mobula::internal::cli::repl
