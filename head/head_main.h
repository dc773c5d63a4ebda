// Runs the head of a cluster: locks the directory of the cluster, reads or creates its keys,
// listens, verifies that foreign peers are rejected, and serves until it is stopped.
// Thread: main, once, before any other thread is started. Blocks.
// Not: going into the background, and starting an agent. The caller does both.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/logging/log.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/program/cluster_files.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::head {

struct HeadMainOptions {
  std::string directory;  // `<state>/<cluster>`; the head's own files are in `<directory>/head`
  std::string cluster;    // name of the cluster

  std::string bind_host = "127.0.0.1";
  std::uint16_t port = 0;        // 0: the port of the previous head, otherwise any free port
  std::string advertise_host{};  // advertised host; empty: bind_host, or see advertised.h
  bool moves = false;            // allows an address at which known nodes do not find the head
  bool insecure = false;         // no keys; this machine only
  // Waiting time after which a request preempts retryable tasks of jobs with a lower priority.
  // None: never.
  std::optional<Duration> preempt_delay{};
  std::int64_t driver_absence_s = 0;  // 0: default of the core
  bool trusted_fabric = false;        // object bytes travel between nodes unencrypted
  std::string http{};                 // HOST:PORT of the HTTP pages; empty: no pages
  bool http_unencrypted = false;  // allows pages beyond loopback, where tokens travel in clear text
  std::string http_cert{};        // PEM files of the pages; empty: plain HTTP
  std::string http_key{};

  LogLevel log_level = LogLevel::info;
  std::string log_file{};  // empty: stderr
  std::string version{};   // release, for `status`
  RecordOptions record{};  // recording of the core's inputs

  // Called once, on this thread, when the head listens. Agents may be started; they wait until the
  // head is ready.
  std::function<void(const HeadFile&)> on_listening{};
  // Called once, on this thread, when the head answers agents. `warnings` are for the caller.
  std::function<void(const HeadFile&, const std::vector<std::string>& warnings)> on_ready{};
  // End of file on this descriptor stops the head, as SIGTERM does. The caller closes it. -1: none.
  int life_fd = -1;
};

// Checks whether the ports of these options are free, by listening briefly. Ports of a head that
// runs from this directory count as free. Errors: already_exists, which names the holder of a port;
// invalid_argument as in run_head.
Result<void> could_listen(const HeadMainOptions& options);

// Returns the exit code: 0 after an orderly stop, 2 for contradictory options, 1 for other
// failures. One line on stderr and in the log states the cause.
int run_head(const HeadMainOptions& options);

}  // namespace mobula::internal::head
