// The line that a console shows while it waits for a value: the transferred amount if the value is
// in transit, otherwise the state of its task. Queries the head at most once per second, and only
// if the line is visible.
// Thread: main.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "cli/command_line.h"
#include "cli/output/progress.h"
#include "cli/repl/user_program.h"

namespace mobula::internal::cli::repl {

// An object in transit, as far as a list of transfers shows it.
struct ValueOnItsWay {
  bool moves = false;  // otherwise it waits, for the reason `why`
  std::uint64_t have = 0;
  std::uint64_t all = 0;
  std::string why;
};

// Returns nothing if the object is not in transit; of several transfers, the most advanced one.
std::optional<ValueOnItsWay> value_on_its_way(const Json& transfers, const std::string& object);
// Returns "its task runs on node 1f2e3d4c" for a reply to `explain`; empty without a state.
std::string words_of_task(const Json& explanation);
// Restricts transfers to the node and job of the program, if known, because values arrive there.
std::string filters_of_transfers(const Json& pending);

class PendingValue {
 public:
  // `name` is the user's name of the value; empty: none.
  PendingValue(const CommandLine& line, std::string name) : line_(line), name_(std::move(name)) {}

  // `pending` is the program's reply, `waited` the time since the first query.
  void show(Progress& progress, const Json& pending, Duration waited);

 private:
  enum class Question { transfers, task };

  void request(const Json& pending, Duration waited);
  void request_transfers(const Json& pending, const ClusterAddress& cluster);
  void request_task(const Json& pending, const ClusterAddress& cluster);

  const CommandLine& line_;
  const std::string name_;
  Question next_ = Question::transfers;
  Duration next_at_{};  // by waited time
  std::optional<ValueOnItsWay> on_its_way_;
  std::string task_;
  bool lists_ = true;  // the head supports the query
};

}  // namespace mobula::internal::cli::repl
