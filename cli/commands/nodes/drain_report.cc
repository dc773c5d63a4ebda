#include "cli/commands/nodes/drain_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/output/table_columns.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_named = 10;

const std::set<std::string, std::less<>> final_states{"SUCCEEDED", "FAILED", "STOPPED", "LOST",
                                                      "DEAD"};

std::string text_of(const Json& item, const char* name) {
  const auto at = item.find(name);
  return at != item.end() && at->is_string() ? at->get<std::string>() : std::string();
}

template <class Each>
void for_items(const Json& list, const Each& each) {
  const auto items = list.find("items");
  if (items == list.end() || !items->is_array()) return;
  for (const auto& item : *items) {
    if (item.is_object()) each(item);
  }
}

bool over(const Json& item) { return final_states.contains(text_of(item, "state")); }

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string names_of(const std::vector<std::pair<std::string, std::string>>& named) {
  std::string text;
  for (std::size_t i = 0; i < std::min(named.size(), most_named); ++i) {
    const auto& [id, name] = named[i];
    text += (i == 0 ? "" : ", ") + id + (name.empty() ? "" : " (" + name + ")");
  }
  if (named.size() > most_named) text += fmt::format(" and {} more", named.size() - most_named);
  return text;
}

}  // namespace

void NodeLoad::add(const std::string& node, const Json& submissions, const Json& actors_list) {
  const auto here = [&](const Json& item) {
    return text_of(item, "node_id") == node && !over(item);
  };
  for_items(submissions, [&](const Json& item) {
    if (here(item))
      jobs.try_emplace(text_of(item, "job_id"),
                       Item{text_of(item, "name"), item.value("retries", 0) != 0});
  });
  for_items(actors_list, [&](const Json& item) {
    if (!here(item) || item.value("is_job", false)) return;
    const std::string name =
        text_of(item, "name").empty() ? text_of(item, "class_name") : text_of(item, "name");
    actors.try_emplace(text_of(item, "actor_id"), Item{name, item.value("max_restarts", 0) != 0});
  });
}

DrainReport::DrainReport(const std::string& node, const NodeLoad& before, const Json& submissions,
                         const Json& actors, std::int64_t ended_leases)
    : ended_leases_(ended_leases) {
  const auto sort = [&](const std::map<std::string, NodeLoad::Item>& known, const Json& list,
                        const char* id_name, Named Group::*member) {
    for_items(list, [&](const Json& item) {
      const std::string id = text_of(item, id_name);
      const auto at = known.find(id);
      if (at == known.end()) return;
      const bool by_drain = text_of(item, "reason").find("drained") != std::string::npos;
      const bool elsewhere = text_of(item, "node_id") != node;
      const std::string state = text_of(item, "state");
      const bool runs = state == "ALIVE" || state == "RUNNING";
      Group* group = nullptr;
      if (over(item)) {
        group = by_drain ? &ended_ : nullptr;  // otherwise it ended by itself
      } else if (runs && elsewhere) {
        group = &moved_;
      } else {
        group = elsewhere || at->second.moves ? &waiting_ : &staying_;
      }
      if (group != nullptr) (group->*member).emplace_back(id, at->second.name);
    });
  };
  sort(before.jobs, submissions, "job_id", &Group::jobs);
  sort(before.actors, actors, "actor_id", &Group::actors);
}

std::string DrainReport::text() const {
  std::string text;
  const auto say = [&](const Named& named, const char* what, const char* one, const char* several) {
    if (named.empty()) return;
    text += fmt::format("{} {}: {}\n", counted(named.size(), what),
                        named.size() == 1 ? one : several, names_of(named));
  };
  say(ended_.jobs, "job", "was ended by the drain", "were ended by the drain");
  say(ended_.actors, "actor", "was ended by the drain", "were ended by the drain");
  say(moved_.jobs, "job", "was started elsewhere", "were started elsewhere");
  say(moved_.actors, "actor", "was started elsewhere", "were started elsewhere");
  say(waiting_.jobs, "job", "waits to start elsewhere", "wait to start elsewhere");
  say(waiting_.actors, "actor", "waits to start elsewhere", "wait to start elsewhere");
  say(staying_.jobs, "job", "stays until it ends", "stay until they end");
  say(staying_.actors, "actor", "cannot restart and stays until it ends",
      "cannot restart and stay until they end");
  if (ended_leases_ > 0) {
    text += fmt::format("{} {} still held at the deadline and killed\n",
                        counted(static_cast<std::size_t>(ended_leases_), "lease"),
                        ended_leases_ == 1 ? "was" : "were");
  }
  return text;
}

Json DrainReport::json() const {
  const auto ids = [](const Group& group) {
    Json json = {{"jobs", Json::array()}, {"actors", Json::array()}};
    for (const auto& [id, name] : group.jobs) json["jobs"].push_back(id);
    for (const auto& [id, name] : group.actors) json["actors"].push_back(id);
    return json;
  };
  Json json = {{"ended", ids(ended_)},
               {"moved", ids(moved_)},
               {"waiting", ids(waiting_)},
               {"staying", ids(staying_)}};
  json["ended"]["leases"] = ended_leases_;
  return json;
}

LeaseCount leases_on(const std::string& node, const Json& leases) {
  LeaseCount count;
  for_items(leases, [&](const Json& item) {
    if (text_of(item, "node_id") != node) return;
    ++count.all;
    count.of_actors += text_of(item, "actor_id").empty() ? 0 : 1;
  });
  return count;
}

std::string words_of(const LeaseCount& left) {
  if (left.all == 0) return "no lease is left";
  return fmt::format(
      "{} {} left{}", counted(static_cast<std::size_t>(left.all), "lease"),
      left.all == 1 ? "is" : "are",
      left.of_actors > 0 ? fmt::format(" ({} of actors and jobs)", left.of_actors) : "");
}

void ObjectsMoved::seen(const std::string& node, const Json& memory) {
  left_ = {};
  const auto nodes = memory.find("nodes");
  if (nodes == memory.end() || !nodes->is_array()) return;
  for (const auto& store : *nodes) {
    if (text_of(store, "node_id") != node) continue;
    left_ = {std::max<std::int64_t>(0, store.value("leaving_objects", std::int64_t{0})),
             std::max<std::int64_t>(0, store.value("leaving_bytes", std::int64_t{0}))};
  }
  most_ = {std::max(most_.objects, left_.objects), std::max(most_.bytes, left_.bytes)};
}

std::string ObjectsMoved::words() const {
  return fmt::format("{} ({}) with other holders {} being copied",
                     counted(static_cast<std::size_t>(left_.objects), "object"),
                     size_text(left_.bytes), left_.objects == 1 ? "is" : "are");
}

std::string ObjectsMoved::text() const {
  std::string text;
  if (const auto copied = most_.objects - left_.objects; copied > 0) {
    text += fmt::format("{} ({}) {} copied to other nodes\n",
                        counted(static_cast<std::size_t>(copied), "object"),
                        size_text(most_.bytes - left_.bytes), copied == 1 ? "was" : "were");
  }
  if (left_.objects > 0) {
    text += fmt::format("{} ({}) with other holders {} not copied yet\n",
                        counted(static_cast<std::size_t>(left_.objects), "object"),
                        size_text(left_.bytes), left_.objects == 1 ? "is" : "are");
  }
  return text;
}

Json ObjectsMoved::json() const {
  return {{"copied", most_.objects - left_.objects},
          {"copied_bytes", most_.bytes - left_.bytes},
          {"left", left_.objects},
          {"left_bytes", left_.bytes}};
}

}  // namespace mobula::internal::cli
