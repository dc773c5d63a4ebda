// The head of a cluster, from its options to its end: takes the cluster's folder, makes or reads
// its keys, listens, proves that strangers are kept out, and runs until it is told to stop. Blocks;
// call once, on the main thread, before any other thread is started. It neither goes into the
// background nor starts an agent: that is its caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/cluster_files.h"
#include "protocol/recorder.h"

namespace mobula::internal::head {

struct HeadMainOptions {
  std::string folder;   // <state>/<cluster>; the head's own files are in <folder>/head
  std::string cluster;  // its name

  std::string bind_host = "127.0.0.1";
  std::uint16_t port = 0;        // 0: the one used before if there is one, else any free one
  std::string advertise_host{};  // what others are told; empty: bind_host, or see advertised.h
  bool moves = false;            // though nodes look for it elsewhere, which is refused else
  bool insecure = false;         // without keys; on this machine alone
  // What waits so long has retryable tasks of jobs of a lower priority ended; nothing: never.
  std::optional<Duration> preempt_after{};
  std::int64_t driver_absence_s = 0;  // 0: the default of the core
  bool trusted_fabric = false;  // bytes of objects travel between nodes unsealed
  std::string http{};           // HOST:PORT of its pages; empty: none
  bool http_unencrypted = false;  // they may be beyond this machine, where tokens can be read on their way

  LogLevel log_level = LogLevel::info;
  std::string log_file{};  // empty: stderr
  std::string version{};   // for `status`
  RecordOptions record{};  // of what its core is told

  // Called once, on this thread, when it listens: agents may be started, and wait until it is
  // ready.
  std::function<void(const HeadFile&)> on_listening{};
  // Called once, on this thread, when the head answers agents.
  // With what whoever starts it should know.
  std::function<void(const HeadFile&, const std::vector<std::string>& warnings)> on_ready{};
  // Stops, as SIGTERM does, when this reads end of file; not closed. -1: none.
  int life_fd = -1;
};

// Whether a head with these options would find its ports free; listens for a moment. What the head that runs from
// this folder has is free for it. already_exists, naming who has one; invalid_argument as run_head.
Result<void> could_listen(const HeadMainOptions& options);

// The exit code: 0 after an orderly end, 2 for options that contradict each other, 1 for what else
// failed. Why is one line on stderr, and in the log.
int run_head(const HeadMainOptions& options);

}  // namespace mobula::internal::head
