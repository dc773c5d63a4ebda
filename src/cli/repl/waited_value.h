// What a value that takes long is waiting for, in the line that stands there while a console waits for it: how much of
// it has come where it is on its way, else what its task does. Asks the head at most once a second, and only where
// somebody sees the line. Main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/repl/program.h"

namespace mobula::internal::cli::repl {

// An object that is on its way, as far as a list of transfers tells.
struct ValueOnItsWay {
  bool moves = false;  // else it waits, and `why` says for what
  std::uint64_t have = 0;
  std::uint64_t all = 0;
  std::string why;
};

// Nothing where it is not on its way. Where several bring it, the one that has most.
std::optional<ValueOnItsWay> value_on_its_way(const Json& transfers, const std::string& object);
// "its task runs on node 1f2e3d4c", of the answer to `explain`; empty where that says nothing.
std::string words_of_task(const Json& explanation);
// To the program's own node and job alone, as far as it says which they are: that is where a value comes.
std::string filters_of_transfers(const Json& pending);

class WaitedValue {
 public:
  // `name`: as the person calls it; empty: it has none.
  WaitedValue(const CommandLine& line, std::string name) : line_(line), name_(std::move(name)) {}

  // `pending` is what the program has answered, `waited` since when it is asked.
  void tell(Progress& progress, const Json& pending, Duration waited);

 private:
  enum class Question { transfers, task };

  void ask(const Json& pending, Duration waited);
  void ask_for_transfers(const Json& pending, const ClusterAddress& cluster);
  void ask_for_task(const Json& pending, const ClusterAddress& cluster);

  const CommandLine& line_;
  const std::string name_;
  Question next_ = Question::transfers;
  Duration next_at_{};  // of waiting
  std::optional<ValueOnItsWay> on_its_way_;
  std::string task_;
  bool lists_ = true;  // the head can say what is on its way
};

}  // namespace mobula::internal::cli::repl
