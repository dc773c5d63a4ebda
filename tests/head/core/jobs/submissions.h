// Fixture for tests of submitted jobs.
// Thread: owner.
#pragma once

#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {

class Submissions : public testing::Test {
 protected:
  using Json = nlohmann::json;

  // Submits a job and returns its id.
  std::string submit(int number, Json more = Json::object()) {
    Json spec = {{"job_id", JobId::of(static_cast<unsigned>(number)).hex()},
                 {"argv", {"/bin/work", "hard"}}};
    spec.update(more);
    reply = cluster.tool("submit", "", spec.dump());
    return spec["job_id"];
  }
  Json job(const std::string& id) {
    const auto answer = cluster.tool("get", "submission", id);
    EXPECT_TRUE(answer.ok) << answer.text;
    return Json::parse(answer.json, nullptr, false);
  }
  std::string state(const std::string& id) { return job(id).value("state", ""); }

  // Sends the agent's reports of a running command, which has no endpoint.
  void runs(TestAgent& at, const StartSlot& start) {
    const auto generation = start.first_generation;
    cluster.from_agent(at, SlotStarted{start.slot, generation, {}, {}});
    cluster.from_agent(at, ActorConstructed{start.actor.actor, start.slot, generation, {}});
    SlotFact fact;
    fact.slot = start.slot;
    fact.demand_class = start.demand_class;
    fact.allocation = start.allocation;
    fact.actor = start.actor;
    fact.generation = generation;
    fact.ready = true;
    at.facts.slots = {fact};
  }
  static EndCause exited(int code) {
    EndCause cause;
    cause.exit_code = code;
    return cause;
  }
  void ends(TestAgent& at, const StartSlot& start, const EndCause& cause) {
    at.facts.slots.clear();
    at.facts.ended_entries.push_back(
        {start.actor.actor, start.slot, start.first_generation, cause});
    cluster.from_agent(at, SlotGenerationEnded{start.slot, start.first_generation, {}, cause});
    cluster.from_agent(at, SlotGone{start.slot, cause, false});
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  ToolReply reply;
};

}  // namespace mobula::internal::head
