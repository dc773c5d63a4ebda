// What a drain has done with what lay on its node: jobs and actors before it, and as they are now. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mobula::internal::cli {

// What lies on a node, by lists of the head.
struct NodeLoad {
  struct Item {
    std::string name;      // for people
    bool moves = false;    // elsewhere, since it may be started again
  };
  std::map<std::string, Item> jobs{};    // by id
  std::map<std::string, Item> actors{};  // but those that are jobs

  // Adds those of `submissions` and `actors` that are on the node and have not ended.
  void add(const std::string& node, const nlohmann::ordered_json& submissions, const nlohmann::ordered_json& actors);
};

class DrainReport {
 public:
  // What has become of `before`, by the lists of now. `ended_leases`: as the head counts those that the deadline ended.
  DrainReport(const std::string& node, const NodeLoad& before, const nlohmann::ordered_json& submissions,
              const nlohmann::ordered_json& actors, std::int64_t ended_leases);

  // "2 jobs were ended by the drain: ID (train), ID (eval)", one line for each thing to say; may be empty.
  std::string text() const;
  // {"ended": {"jobs": [IDS], "actors": [IDS], "leases": N}, "moved": …, "waiting": …, "staying": …}
  nlohmann::ordered_json json() const;

 private:
  using Named = std::vector<std::pair<std::string, std::string>>;  // id and name
  struct Group {
    Named jobs, actors;
  };
  Group ended_, moved_, waiting_, staying_;
  std::int64_t ended_leases_ = 0;
};

// Leases on the node: all of them, and those of actors and jobs among them.
struct LeaseCount {
  std::int64_t all = 0;
  std::int64_t of_actors = 0;
};
LeaseCount leases_on(const std::string& node, const nlohmann::ordered_json& leases);
// "3 leases are left, 1 of them of an actor or a job".
std::string words_of(const LeaseCount& left);

// The objects of a node that others hold, as they come to others: from looks at `mobula memory`.
class ObjectsMoved {
 public:
  void seen(const std::string& node, const nlohmann::ordered_json& memory);
  std::int64_t left() const { return left_.objects; }
  std::uint64_t all_bytes() const { return static_cast<std::uint64_t>(most_.bytes); }
  std::uint64_t copied_bytes() const { return static_cast<std::uint64_t>(most_.bytes - left_.bytes); }
  // "2 objects (64.0 MiB) that others hold are copied".
  std::string words() const;
  // What came of it, a line; empty where there were none.
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
