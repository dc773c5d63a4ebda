// Runs a provider of nodes, a program that docs/providers.md specifies: one process per call, with
// the request on its standard input and the answer on its standard output. Nothing blocks: the
// caller polls the descriptors of `watch` and then calls `step`. A call that exceeds a limit ends
// with a failure, and its whole process group is killed.
// Thread: owner. Errors: failures of calls are in their replies.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "deploy/fleet/provider_contract.h"
#include "deploy/process.h"

namespace mobula::internal::fleet {

struct ProviderOptions {
  std::vector<std::string> words{};  // the program, found as by a shell, and its arguments
  Duration timeout = 60s;            // duration of a call
  std::size_t max_bytes = max_provider_bytes;  // limit of an answer
  std::size_t max_running = 4;                 // later calls wait
  std::size_t max_waiting = 64;                // further calls fail at once
};

class ProviderProcess {
 public:
  explicit ProviderProcess(ProviderOptions options) : options_(std::move(options)) {}
  ProviderProcess(const ProviderProcess&) = delete;
  ProviderProcess& operator=(const ProviderProcess&) = delete;
  // Kills the process groups of running calls.
  ~ProviderProcess();

  // Starts a call, or queues it, and returns its number. `step` returns its reply.
  std::uint64_t start(ProviderRequest request);
  // Appends the descriptors to poll.
  void watch(std::vector<pollfd>& items) const;
  // Continues all calls and returns the replies of finished ones.
  std::vector<ProviderReply> step(Time now);
  // The next time at which `step` is due without an event.
  std::optional<Time> next_deadline() const;
  std::size_t running() const { return running_.size(); }

 private:
  struct Waiting {
    std::uint64_t number;
    ProviderRequest request;
  };
  struct Running {
    std::uint64_t number;
    ProviderRequest request;
    deploy::Process process;
    Time deadline;
    std::string input;
    std::size_t written = 0;
    std::string output{};
    std::string errors{};  // its last bytes
  };

  void begin();
  bool transfer(Running& call) const;
  std::optional<ProviderReply> advance(Running& call, Time now);
  ProviderReply finished(Running& call, int code) const;
  ProviderReply refused(const Waiting& call, FailureKind kind, const std::string& text) const;

  ProviderOptions options_;
  std::uint64_t last_number_ = 0;
  std::deque<Waiting> waiting_;
  std::vector<Running> running_;
  std::list<deploy::Process> killed_;   // not yet reaped
  std::vector<ProviderReply> replies_;  // of calls that did not start
};

}  // namespace mobula::internal::fleet
