// The effect of a drain on the jobs and actors of its node: their state before and now.
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mobula::internal::cli {

// The work on a node, from lists of the head.
struct NodeLoad {
  struct Item {
    std::string name;    // for messages
    bool moves = false;  // may restart on another node
  };
  std::map<std::string, Item> jobs{};    // by id
  std::map<std::string, Item> actors{};  // by id; without jobs

  // Adds the `submissions` and `actors` on the node that have not ended.
  void add(const std::string& node, const nlohmann::ordered_json& submissions,
           const nlohmann::ordered_json& actors);
};

class DrainReport {
 public:
  // Compares `before` with the current lists. `ended_leases` is the head's count of leases ended at
  // the deadline.
  DrainReport(const std::string& node, const NodeLoad& before,
              const nlohmann::ordered_json& submissions, const nlohmann::ordered_json& actors,
              std::int64_t ended_leases);

  // Returns one line per result: "2 jobs were ended by the drain: ID (train), ID (eval)". May be
  // empty.
  std::string text() const;
  // Returns {"ended": {"jobs": [IDS], "actors": [IDS], "leases": N}, "moved": …, "waiting": …,
  // "staying": …}.
  nlohmann::ordered_json json() const;

 private:
  using Named = std::vector<std::pair<std::string, std::string>>;  // id and name
  struct Group {
    Named jobs, actors;
  };
  Group ended_, moved_, waiting_, staying_;
  std::int64_t ended_leases_ = 0;
};

// Leases on the node: all leases, and the leases of actors and jobs among them.
struct LeaseCount {
  std::int64_t all = 0;
  std::int64_t of_actors = 0;
};
LeaseCount leases_on(const std::string& node, const nlohmann::ordered_json& leases);
// Returns "3 leases are left (1 of actors and jobs)".
std::string words_of(const LeaseCount& left);

// The objects of a node with other holders, while they are copied: from samples of `mobula memory`.
class ObjectsMoved {
 public:
  void seen(const std::string& node, const nlohmann::ordered_json& memory);
  std::int64_t left() const { return left_.objects; }
  std::uint64_t all_bytes() const { return static_cast<std::uint64_t>(most_.bytes); }
  std::uint64_t copied_bytes() const {
    return static_cast<std::uint64_t>(most_.bytes - left_.bytes);
  }
  // Returns "2 objects (64.0 MiB) with other holders are being copied".
  std::string words() const;
  // Returns the result as a line; empty if there were no objects.
  std::string text() const;
  nlohmann::ordered_json json() const;

 private:
  struct Count {
    std::int64_t objects = 0;
    std::int64_t bytes = 0;
  };
  Count left_, most_;
};

}  // namespace mobula::internal::cli
