// What `mobula up` and `mobula down` do to the machines of an inventory: all of them at once over ssh,
// the head first. Repeating it changes nothing; what one machine cannot do leaves the others alone.
// Starts threads, and has none when it returns. Main thread.
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

// How it went at one machine.
struct HostReport {
  std::string host{};
  bool head = false;
  // "started", "replaced", "unchanged", "stopped", "runs", "down"; "would start", "would replace",
  // "would stop"; "broken" (a part of what runs there is dead, or serves another head), "skipped",
  // "unreachable", "refused", "failed"
  std::string result{};
  std::string detail{};
  double seconds = 0;
};

struct RolloutOptions {
  bool dry_run = false;     // looks, and changes nothing
  std::size_t at_once = 1;  // nodes that are replaced side by side
  // What this program says to the flags of a `mobula start`, for a dry run.
  std::function<Result<void>(const std::vector<std::string>&)> check_flags{};
  Duration start_patience = 100s;  // for a start; one that takes longer is given up there
  // Which host has come how far, as "starts"; its result, which is final. From several threads at once.
  std::function<void(const std::string& host, const std::string& step, bool final)> told{};
  // Why the head's host cannot be reached, where that is known already: nobody waits for it once more.
  std::optional<Failure> head_away{};
};

class Rollout {
 public:
  Rollout(const Inventory& inventory, RolloutOptions options);

  // A head and nodes with this program and these settings. Machines that run others of this cluster
  // are replaced, the head first, then `at_once` nodes at a time: each is given no more work, and
  // has the inventory's grace to finish. A head takes its jobs up again.
  std::vector<HostReport> bring_up(const Bundle& bundle);
  // Ends what runs of the cluster, nodes before the head. Keys and the journal stay.
  std::vector<HostReport> take_down();
  std::vector<HostReport> look();

 private:
  struct Machine {
    explicit Machine(Remote reached) : remote(std::move(reached)) {}
    Remote remote;
    HostReport report{};
    std::vector<std::string> flags{};  // of its `mobula start`, but for whom it joins
    bool done = false;                 // the report is final
    bool has_program = false;
    bool runs = false;
    bool head_lives = false;
    bool agent_lives = false;
    std::string head_at{};   // address of the head that has run there last
    std::string joined{};    // of the head that its agent has joined
    std::string deployed{};  // settings it runs with
    std::string settings{};  // those it is to have
    bool has_agent() const;
  };
  using Step = std::function<void(Machine&)>;

  void for_each(const Step& step, const std::function<bool(const Machine&)>& which,
                std::size_t at_once);
  void leave_head_out();
  void probe(const std::string& hash);
  void check(const std::string& hash, const std::function<bool(const Machine&)>& which);
  std::vector<std::string> flags_of(const Machine& machine, const std::string& address) const;
  // Why what runs there is not what it should be, where the head is at `address`; empty: it is.
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
  std::string run_{};              // of marks in state folders
  std::string address_;            // of the head
  std::string key_;                // of the cluster: kept in memory alone
};

}  // namespace mobula::internal::deploy
