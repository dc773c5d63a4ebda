// The programs within this program, as the commands see them: only main.cc knows the head and the
// agent themselves. Plain values and functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "protocol/cluster_files.h"
#include "protocol/recorder.h"

namespace mobula::internal::cli {

struct HeadPlan {
  std::string folder;  // <state>/<cluster>
  std::string cluster;
  std::string bind;
  std::string advertise;
  std::uint16_t port = 0;
  bool insecure = false;
  std::optional<Duration> preempt_after;
  std::int64_t driver_absence_s = 0;  // 0: the default of the head
  bool trusted_fabric = false;
  std::string http;  // HOST:PORT; empty: none
  bool http_unencrypted = false;
  bool moves = false;  // though nodes look for it elsewhere
  LogLevel log_level = LogLevel::info;
  std::string log_file;
  RecordOptions record;
};

struct AgentPlan {
  std::string head_address;
  std::string key_file;  // empty: without keys
  std::string folder;
  std::string cluster;
  std::string bind;
  std::string advertise;
  std::string fabric;
  NodeFlags node;
  double memory_threshold = 0.95;
  std::optional<std::int64_t> executor_memory_bytes{};
  std::string gpu_over_share = "error";
  Duration gpu_watch_period = std::chrono::seconds(1);
  bool driver_agent = false;
  bool waits_for_head = true;
  bool beside_head = false;  // on the head's machine, started with it
  Duration drain_within = std::chrono::seconds(30);  // for running calls when it is to end
  LogLevel log_level = LogLevel::info;
  std::string log_file;
  RecordOptions record;
};

// Tells whoever started a program how that went, once: that it is ready, with a message, or that it
// failed, with the exit code and the reason as one text.
struct Report {
  std::function<void(const std::string& message)> ready;
  std::function<void(const std::string& why)> failed;
  std::function<void(const std::string& why)> waiting{};  // before that: what it waits for; may be said again
};

struct Programs {
  // Both run until they are told to stop by a signal and return an exit code. A head that listens
  // has an address, and lets an agent wait until it is ready.
  std::function<int(const HeadPlan&, const std::function<void(const HeadFile&)>& listening,
                    const std::function<void(const HeadFile&, const std::vector<std::string>& warnings)>& ready)>
      head;
  // An agent that waits for its head says why.
  std::function<int(const AgentPlan&, const std::function<void(const AgentFile&)>& ready,
                    const std::function<void(const std::string& why)>& waiting)>
      agent;
  // Whether its ports are free, or had by the head that runs from this folder; already_exists names who has one.
  std::function<Result<void>(const HeadPlan&)> head_could_listen;
  // Runs `body` in a child, and outlives all that it leaves behind.
  std::function<int(const std::function<int()>& body)> under_keeper;
  // Runs `body` in the background; returns its message once it is ready. `waiting` is told what it waits for. Once
  // `given_up` holds, which is looked at now and then, it is ended and waited for.
  std::function<Result<std::string>(const std::string& log_path, const std::function<int(const Report&)>& body,
                                    const std::function<void(const std::string&)>& waiting,
                                    const std::function<bool()>& given_up)>
      in_background;
};

}  // namespace mobula::internal::cli
