// Looks at the cluster once a second while a console waits for its user: what changes of jobs and nodes is told,
// and the prompt says how the cluster is. Has a thread and a connection of its own; any thread asks.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli::repl {

// What a thing is called, and its state.
struct Seen {
  std::string name{};
  std::string state{};
};
using SeenThings = std::map<std::string, Seen>;  // by id

// "job 12ab34cd (train) is RUNNING": what is new or different in `after`. Pure.
std::vector<std::string> changes_between(const std::string& what, const SeenThings& before, const SeenThings& after);

// "(default 3n 0.5/2 GPU) > ", and with CPUs where there are no GPUs. Pure.
std::string prompt_of(const nlohmann::ordered_json& status);

class ClusterWatch {
 public:
  // Waits a moment for the first look.
  static Result<std::unique_ptr<ClusterWatch>> start(const CommandLine& line);
  ~ClusterWatch();

  // Readable while there is news, or another prompt.
  int fd() const { return news_fd_.get(); }
  // The next line of news. At most 200 wait; what is beyond that is counted in a line of its own.
  std::optional<std::string> next();
  std::string prompt();

 private:
  ClusterWatch(const CommandLine& line, Fd news_fd);
  void run();
  void look();
  void tell(std::vector<std::string> lines);
  void show(std::string prompt);

  const CommandLine line_;
  const Fd news_fd_;
  std::atomic<bool> ending_{false};
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> news_ MOBULA_GUARDED_BY(mutex_);
  std::size_t left_out_ MOBULA_GUARDED_BY(mutex_) = 0;
  std::string prompt_ MOBULA_GUARDED_BY(mutex_);
  // Of the thread alone.
  std::unique_ptr<KeptLink> kept_;
  CommandLine asking_;
  bool reached_ = false;
  bool lost_ = false;
  std::string changes_;  // the head's count of them
  SeenThings nodes_;
  SeenThings jobs_;
  std::thread thread_;
};

}  // namespace mobula::internal::cli::repl
