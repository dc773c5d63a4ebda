// The programs within this program, as the commands see them: main.cc alone includes the head and
// the agent.
// Thread: owner; plain values and functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/logging/log.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "protocol/program/cluster_files.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::cli {

struct HeadPlan {
  std::string directory;  // <state>/<cluster>
  std::string cluster;
  std::string bind;
  std::string advertise;
  std::uint16_t port = 0;
  bool insecure = false;
  std::optional<Duration> preempt_delay;
  std::int64_t driver_absence_s = 0;  // 0: default of the head
  bool trusted_fabric = false;
  std::string http;  // HOST:PORT; empty: none
  bool http_unencrypted = false;
  std::string http_cert;  // PEM files; empty: plain HTTP
  std::string http_key;
  bool moves = false;  // may take another port although nodes know the old one
  LogLevel log_level = LogLevel::info;
  std::string log_file;
  RecordOptions record;
};

struct AgentPlan {
  std::string head_address;
  std::string key_file;  // empty: without keys
  std::string directory;
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
  bool beside_head = false;                           // on the head's machine, started with it
  Duration drain_timeout = std::chrono::seconds(30);  // for running calls at the end
  LogLevel log_level = LogLevel::info;
  std::string log_file;
  RecordOptions record;
};

// Reports a start once: ready with a message, or failed with the exit code and the reason as one
// text.
struct Report {
  std::function<void(const std::string& message)> ready;
  std::function<void(const std::string& why)> failed;
  // Before that: the reason for waiting; repeatable.
  std::function<void(const std::string& why)> waiting{};
};

struct Programs {
  // Both run until a signal stops them, and return an exit code. `listening` is called when the
  // head has an address; an agent can then wait for it.
  std::function<int(
      const HeadPlan&, const std::function<void(const HeadFile&)>& listening,
      const std::function<void(const HeadFile&, const std::vector<std::string>& warnings)>& ready)>
      head;
  // `waiting` gets the reason why an agent waits for its head.
  std::function<int(const AgentPlan&, const std::function<void(const AgentFile&)>& ready,
                    const std::function<void(const std::string& why)>& waiting)>
      agent;
  // Checks that the ports are free or belong to the head of this directory; already_exists names
  // the holder.
  std::function<Result<void>(const HeadPlan&)> head_could_listen;
  // Runs `body` in a child and stays until all of its descendants have exited.
  std::function<int(const std::function<int()>& body)> under_shim;
  // Runs `body` in the background and returns its message when it is ready. `waiting` gets reasons
  // for waiting. If `given_up`, which is polled, returns true, the process is ended and awaited.
  // With `spares_instances`, nodes that its autoscaler launched on this machine survive it.
  std::function<Result<std::string>(const std::string& log_path,
                                    const std::function<int(const Report&)>& body,
                                    const std::function<void(const std::string&)>& waiting,
                                    const std::function<bool()>& given_up, bool spares_instances)>
      in_background;
};

}  // namespace mobula::internal::cli
