// Actions of `mobula up` and `mobula down` on the machines of a cluster file: over ssh in parallel,
// the head first. Idempotent. A failure on one machine does not affect the others. Starts threads
// and joins them before it returns.
// Thread: main.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "deploy/bundle.h"
#include "deploy/inventory.h"
#include "deploy/remote.h"

namespace mobula::internal::deploy {

// Result on one machine.
struct HostReport {
  std::string host{};
  bool head = false;
  // "started", "replaced", "unchanged", "stopped", "runs", "down"; "would start", "would replace",
  // "would stop"; "broken" (a running part is dead or serves another head), "skipped",
  // "unreachable", "refused", "failed"
  std::string result{};
  std::string detail{};
  double seconds = 0;
};

struct RolloutOptions {
  bool dry_run = false;     // inspects, and changes nothing
  std::size_t at_once = 1;  // nodes that are replaced at one time
  // Checks flags of `mobula start` with this program, for a dry run.
  std::function<Result<void>(const std::vector<std::string>&)> check_flags{};
  Duration start_timeout_ = 100s;  // limit of a start, after which it is abandoned on that machine
  // Progress of a host, for example "starts", or its final result. Called from several threads.
  std::function<void(const std::string& host, const std::string& step, bool final)> on_step{};
  // Known reason that the head's host is unreachable; empty: unknown. If set, no further connection
  // is tried.
  std::optional<Failure> head_away{};
};

class Rollout {
 public:
  Rollout(const Inventory& inventory, RolloutOptions options);

  // Starts a head and nodes with this program and these settings. Machines that run other ones of
  // this cluster are replaced, the head first, then `at_once` nodes at a time. Each gets no new
  // work and has the grace of the cluster file to finish. A new head continues its jobs.
  std::vector<HostReport> bring_up(const Bundle& bundle);
  // Stops all processes of the cluster, nodes before the head. Keys and the journal stay.
  std::vector<HostReport> take_down();
  std::vector<HostReport> report();

 private:
  struct Machine {
    explicit Machine(Remote reached) : remote(std::move(reached)) {}
    Remote remote;
    HostReport report{};
    // flags of its `mobula start`, without the address of the head
    std::vector<std::string> flags{};
    bool done = false;  // the report is final
    bool has_program = false;
    bool runs = false;
    bool head_lives = false;
    bool agent_lives = false;
    std::string head_at{};   // address of the head that ran there last
    std::string joined{};    // address of the head that its agent has joined
    std::string deployed{};  // settings of the running processes
    std::string settings{};  // required settings
    bool has_agent() const;
  };
  using Step = std::function<void(Machine&)>;

  void for_each(const Step& step, const std::function<bool(const Machine&)>& which,
                std::size_t at_once);
  void leave_head_out();
  void probe(const std::string& hash);
  void check(const std::string& hash, const std::function<bool(const Machine&)>& which);
  std::vector<std::string> flags_of(const Machine& machine, const std::string& address) const;
  // The defect of the running processes for a head at `address`; empty: no defect.
  static std::string ailment_of(const Machine& machine, const std::string& address);
  static std::string stale_by(const Machine& machine, const std::string& address);
  std::string expected_address() const;
  std::string mark_of(const Machine& machine) const;
  void tell(const Machine& machine, const std::string& step, bool final = false) const;
  void say_what_would_be_done();
  void bring_up_nodes(const std::string& hash);
  void start(Machine& machine, const std::string& hash);
  void learn_of_head();
  std::vector<HostReport> reports();
  void settle(Machine& machine, const std::string& result, const std::string& detail = {});
  void give_up(Machine& machine, const Failure& why);

  const Inventory& inventory_;
  RolloutOptions options_;
  std::vector<Machine> machines_;  // the head first
  std::string run_{};              // id of this run, for marks in state directories
  std::string address_;            // address of the head
  std::string key_;                // key of the cluster, only in memory
};

}  // namespace mobula::internal::deploy
