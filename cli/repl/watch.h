// Polls the cluster once per second while a console waits for its user, reports changes of jobs and
// nodes, and provides the prompt. Has its own thread and connection.
// Thread: any.
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

// The name and the state of an item.
struct Seen {
  std::string name{};
  std::string state{};
};
using SeenThings = std::map<std::string, Seen>;  // by id

// Returns lines such as "job 12ab34cd (train) is RUNNING" for new and changed items of `after`.
// Pure.
std::vector<std::string> changes_between(const std::string& what, const SeenThings& before,
                                         const SeenThings& after);

// Returns "(default 3n 0.5/2 GPU) > ", with CPUs if the cluster has no GPUs. Pure.
std::string prompt_of(const nlohmann::ordered_json& status);

class ClusterWatch {
 public:
  // Waits briefly for the first poll.
  static Result<std::unique_ptr<ClusterWatch>> start(const CommandLine& line);
  ~ClusterWatch();

  // Readable while there are news or a new prompt.
  int fd() const { return news_fd_.get(); }
  // Returns the next line of news. At most 200 wait; a further line counts the dropped ones.
  std::optional<std::string> next();
  std::string prompt();

 private:
  ClusterWatch(const CommandLine& line, Fd news_fd);
  void run();
  void poll();
  void print_lines(std::vector<std::string> lines);
  void show(std::string prompt);

  const CommandLine line_;
  const Fd news_fd_;
  std::atomic<bool> ending_{false};
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> news_ MOBULA_GUARDED_BY(mutex_);
  std::size_t left_out_ MOBULA_GUARDED_BY(mutex_) = 0;
  std::string prompt_ MOBULA_GUARDED_BY(mutex_);
  // Owned by the thread.
  std::unique_ptr<ConsoleLink> link_;
  CommandLine query_line_;
  bool reached_ = false;
  bool lost_ = false;
  std::string changes_;  // the head's change counter
  SeenThings nodes_;
  SeenThings jobs_;
  std::thread thread_;
};

}  // namespace mobula::internal::cli::repl
