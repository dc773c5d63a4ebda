#include "sim/mutations/mutations.h"

#include <algorithm>
#include <memory>

#include "head/core/records/rows.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::sim {
namespace {

// Returns the message of type T that an agent sends to a peer, or null.
template <class T>
T* to_peer(worker::Command& command) {
  auto* peer = std::get_if<worker::SendToPeer>(&command);
  return peer && peer->frame.frame.message ? std::get_if<T>(&*peer->frame.frame.message) : nullptr;
}
// ---- dropped ------------------------------------------------------------------------------------

template <class T>
Hooks client_forgets() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    std::erase_if(commands, [](auto& each) { return for_head<T>(each) != nullptr; });
  };
  return hooks;
}

template <class T>
Hooks client_does_not_tell() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    std::erase_if(commands, [](auto& each) { return to_agent<T>(each) != nullptr; });
  };
  return hooks;
}

template <class T>
Hooks agent_does_not() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    std::erase_if(commands, [](auto& each) { return std::holds_alternative<T>(each); });
  };
  return hooks;
}

template <class T>
Hooks client_does_not_hear() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    std::erase_if(events, [](const auto& each) {
      const auto* agent = std::get_if<client::ReceivedFromAgent>(&each);
      return agent != nullptr && std::holds_alternative<T>(agent->message);
    });
  };
  return hooks;
}

Hooks last_copies_are_forgotten() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    std::erase_if(commands, [](const auto& each) {
      const auto* sent = std::get_if<worker::SendToProcess>(&each);
      return sent != nullptr && std::holds_alternative<ObjectGone>(sent->message);
    });
  };
  return hooks;
}

// Executors reply with the loss of an argument as an exception of the call.
Hooks unread_arguments_are_not_named() {
  Hooks hooks;
  hooks.executor.out = [](std::vector<executor::Command>& commands) {
    for (auto& each : commands) {
      auto* sent = std::get_if<executor::SendToCaller>(&each);
      auto* reply =
          sent && sent->frame.message ? std::get_if<CallReply>(&*sent->frame.message) : nullptr;
      if (reply == nullptr || reply->unread.empty()) continue;
      reply->outcome = CallOutcome::exception;
      reply->unread.clear();
    }
  };
  return hooks;
}

Hooks executor_hides_that_it_waits() {
  Hooks hooks;
  hooks.executor.out = [](std::vector<executor::Command>& commands) {
    std::erase_if(commands, [](auto& each) {
      const auto* agent = std::get_if<executor::SendToAgent>(&each);
      return agent && std::holds_alternative<ExecutorBlocked>(agent->message);
    });
  };
  return hooks;
}

// Replaces the message of type T to the head with one that carries no state.
template <class T>
Hooks agent_hides() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (auto& each : commands) {
      auto* send = std::get_if<worker::SendToHead>(&each);
      auto* frame = send ? std::get_if<AgentFrame>(&send->message) : nullptr;
      if (frame == nullptr || !frame->frame.message) continue;
      if (std::holds_alternative<T>(*frame->frame.message)) frame->frame.message = ObjectCopies{};
    }
  };
  return hooks;
}

// ---- repeated ----------------------------------------------------------------------------------

Hooks agent_forks_twice() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (!std::holds_alternative<worker::StartExecutor>(commands[i])) continue;
      commands.push_back(commands[i]);
      return;
    }
  };
  return hooks;
}

Hooks executor_runs_twice() {
  Hooks hooks;
  hooks.executor.out = [](std::vector<executor::Command>& commands) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (!std::holds_alternative<executor::RunCall>(commands[i])) continue;
      commands.push_back(commands[i]);
      return;
    }
  };
  return hooks;
}

// ---- too early ---------------------------------------------------------------------------------

Hooks head_does_not_wait_for_its_disk() {
  Hooks hooks;
  auto written = std::make_shared<std::uint64_t>(0);
  hooks.head.out = [written](std::vector<head::Command>& commands) {
    for (auto& each : commands) {
      if (const auto* batch = std::get_if<head::Persist>(&each)) *written = batch->n;
    }
  };
  hooks.head.in = [written](std::vector<head::Event>& events) {
    if (*written != 0) events.push_back(head::Persisted{std::exchange(*written, 0)});
  };
  return hooks;
}

Hooks holds_are_not_requested() {
  Hooks hooks = client_does_not_tell<HoldObjectRequest>();
  hooks.client.echo = [](const std::vector<client::Command>& commands) {
    std::vector<client::Event> events;
    for (const auto& each : commands) {
      const auto* hold = to_agent<HoldObjectRequest>(each);
      if (hold != nullptr)
        events.push_back(client::ReceivedFromAgent{HoldObjectReply{hold->ref.object}});
    }
    return events;
  };
  return hooks;
}

// Releases an exported object although other processes hold it, and with it the task that could
// recompute it.
Hooks exports_are_believed_unheld() {
  Hooks hooks;
  hooks.client.echo = [](const std::vector<client::Command>& commands) {
    std::vector<client::Event> events;
    for (const auto& each : commands) {
      const auto* released = to_agent<ReleaseObject>(each);
      if (released != nullptr)
        events.push_back(client::ReceivedFromAgent{ExportReleased{released->object}});
    }
    return events;
  };
  return hooks;
}

// Counts the stream of an executor as empty as soon as its end is reported.
Hooks deaths_overtake_data() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    const auto* said = std::get_if<client::ReceivedFromAgent>(&events.front());
    const auto* relayed = said ? std::get_if<FromHead>(&said->message) : nullptr;
    const auto* ended = relayed ? std::get_if<GenerationEnded>(&relayed->message) : nullptr;
    if (ended != nullptr) events.insert(events.begin(), client::StreamEnded{ended->process});
  };
  return hooks;
}

Hooks kills_are_believed_at_once() {
  Hooks hooks;
  hooks.agent.echo = [](const std::vector<worker::Command>& commands) {
    std::vector<worker::Event> events;
    for (const auto& each : commands) {
      const auto* kill = std::get_if<worker::KillExecutor>(&each);
      if (kill == nullptr) continue;
      EndCause cause{EndKind::signalled, 0, 9, 0, kill->why, {}};
      events.push_back(worker::ExecutorExited{kill->slot, kill->generation, std::move(cause)});
    }
    return events;
  };
  return hooks;
}

// ---- falsified ---------------------------------------------------------------------------------

Hooks node_releases_what_it_was_to_hold() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (auto& each : commands) {
      if (const auto* hold = to_peer<NodeHoldRequest>(each)) {
        std::get<worker::SendToPeer>(each).frame.frame.message = NodeRelease{hold->object};
      }
    }
  };
  return hooks;
}

// Changes the message instead of dropping it: the receiver would notice a gap.
Hooks results_are_not_wanted() {
  Hooks hooks;
  hooks.agent.out = [](std::vector<worker::Command>& commands) {
    for (auto& each : commands) {
      if (auto* taken = to_peer<StoreResultReply>(each)) taken->wanted = false;
    }
  };
  return hooks;
}

Hooks retries_count_twice() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    for (auto& each : events) {
      auto* submit = std::get_if<client::SubmitTask>(&each);
      if (submit && submit->max_retries > 0) submit->max_retries /= 2;
    }
  };
  return hooks;
}

Hooks calls_are_reordered() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    PushCall* first = nullptr;
    ProcessId executor;
    for (auto& each : commands) {
      auto* stream = std::get_if<client::SendToExecutor>(&each);
      auto* push = stream && stream->frame.message ? std::get_if<PushCall>(&*stream->frame.message)
                                                   : nullptr;
      if (push == nullptr || push->call.form->kind != CallKind::actor_call) continue;
      if (first != nullptr && executor == stream->executor)
        return std::swap(first->call, push->call);
      first = push;
      executor = stream->executor;
    }
  };
  return hooks;
}

// Changes every order of the head to start a slot.
template <class Change>
Hooks head_starts(Change change) {
  Hooks hooks;
  hooks.head.out = [change](std::vector<head::Command>& commands) {
    for (auto& each : commands) {
      auto* send = std::get_if<head::SendToAgent>(&each);
      auto* frame = send ? std::get_if<HeadFrame>(&send->message) : nullptr;
      auto* start = frame && frame->frame.message
                        ? std::get_if<StartSlot>(&frame->frame.message->edit())
                        : nullptr;
      if (start != nullptr) change(start->allocation);
    }
  };
  return hooks;
}

Hooks all_get_the_first_gpu() {
  return head_starts([](Allocation& allocation) {
    for (auto& resource : allocation.resources) {
      for (auto& share : resource.shares) share.index = 0;
    }
  });
}

// Doubles the resources that each slot in a group takes.
Hooks slots_outgrow_their_bundles() {
  return head_starts([](Allocation& allocation) {
    if (allocation.group.empty()) return;
    for (auto& resource : allocation.resources) {
      for (auto& share : resource.shares) share.amount += share.amount;
    }
  });
}

// Changes the node facts that agents send to the head.
template <class Change>
Hooks agents_state(Change change) {
  Hooks hooks;
  hooks.agent.out = [change](std::vector<worker::Command>& commands) {
    for (auto& each : commands) {
      auto* said = std::get_if<worker::SendToHead>(&each);
      auto* enrol = said == nullptr ? nullptr : std::get_if<RegisterRequest>(&said->message);
      if (enrol != nullptr) change(enrol->shape);
    }
  };
  return hooks;
}

// Reports the next zone in the alphabet to the head.
Hooks labels_are_those_of_others() {
  return agents_state([](NodeShape& shape) {
    auto& zone = shape.labels["zone"];
    zone = zone == "c" ? "a" : std::string(1, static_cast<char>(zone.front() + 1));
  });
}

Hooks contexts_are_not_stated() {
  return agents_state([](NodeShape& shape) {
    for (auto& resource : shape.resources) {
      for (auto& instance : resource.instances) instance.context_bytes = 0;
    }
  });
}

// Changes every row of a table before it is written.
template <class Row, class Change>
Hooks head_writes(const std::string& table, Change change) {
  Hooks hooks;
  hooks.head.out = [table, change](std::vector<head::Command>& commands) {
    for (auto& each : commands) {
      auto* batch = std::get_if<head::Persist>(&each);
      if (batch == nullptr) continue;
      for (auto& written : batch->changes) {
        if (written.table != table || written.erase) continue;
        auto row = decode<Row>(written.value);
        if (!row) continue;
        change(*row);
        written.value = encode(*row);
      }
    }
  };
  return hooks;
}

// Writes the record of a group as if it were not placed yet.
Hooks bundle_nodes_are_not_written() {
  return head_writes<head::GroupRow>("groups", [](head::GroupRow& row) { row.locations.clear(); });
}

Hooks drains_are_not_written() {
  return head_writes<head::NodeRow>("nodes", [](head::NodeRow& row) { row.draining = false; });
}

// Keeps the record of a node draining, even after an undrain.
Hooks drains_are_written_for_ever() {
  auto drained = std::make_shared<std::set<ProcessId>>();
  return head_writes<head::NodeRow>("nodes", [drained](head::NodeRow& row) {
    const ProcessId incarnation = row.address.incarnation;
    if (row.draining) drained->insert(incarnation);
    row.draining = drained->contains(incarnation) && !row.dead;
  });
}

// Changes the terms of a job in messages to the head.
Hooks head_hears_terms(void (*change)(JobTerms&)) {
  Hooks hooks;
  hooks.head.in = [change](std::vector<head::Event>& events) {
    for (auto& each : events) {
      auto* said = std::get_if<head::ReceivedFromAgent>(&each);
      auto* frame = said == nullptr ? nullptr : std::get_if<AgentFrame>(&said->message);
      if (frame == nullptr || !frame->frame.message) continue;
      auto* relayed = std::get_if<FromProcess>(&*frame->frame.message);
      auto* start = relayed == nullptr ? nullptr : std::get_if<StartJob>(&relayed->message);
      if (start != nullptr) change(start->terms);
    }
  };
  return hooks;
}

Hooks quotas_are_dropped() {
  return head_hears_terms([](JobTerms& terms) { terms.quota.clear(); });
}
Hooks priorities_are_turned_round() {
  return head_hears_terms([](JobTerms& terms) { terms.priority = -terms.priority; });
}

// Removes the selectors from demands in messages to the head.
Hooks selectors_are_dropped() {
  Hooks hooks;
  hooks.head.in = [](std::vector<head::Event>& events) {
    for (auto& each : events) {
      auto* said = std::get_if<head::ReceivedFromAgent>(&each);
      auto* frame = said == nullptr ? nullptr : std::get_if<AgentFrame>(&said->message);
      if (frame == nullptr || !frame->frame.message) continue;
      auto* relayed = std::get_if<FromProcess>(&*frame->frame.message);
      auto* demand = relayed == nullptr ? nullptr : std::get_if<Demand>(&relayed->message);
      if (demand == nullptr) continue;
      demand->demand_class.request.label_selector.clear();
      demand->demand_class.request.fallback_selectors.clear();
    }
  };
  return hooks;
}

// Drops recalls whose reason contains these words.
Hooks recalls_are_lost_for(const std::string& words) {
  Hooks hooks;
  hooks.client.in = [words](std::vector<client::Event>& events) {
    std::erase_if(events, [&](const auto& each) {
      const auto* agent = std::get_if<client::ReceivedFromAgent>(&each);
      const auto* relayed = agent == nullptr ? nullptr : std::get_if<FromHead>(&agent->message);
      const auto* recall =
          relayed == nullptr ? nullptr : std::get_if<RecallSlot>(&relayed->message);
      return recall != nullptr && recall->why.find(words) != std::string::npos;
    });
  };
  return hooks;
}
Hooks recalls_are_lost() { return recalls_are_lost_for(""); }
Hooks capacity_is_kept() { return recalls_are_lost_for("capacity of resident results"); }
Hooks reservations_are_lost() { return recalls_are_lost_for("reserved"); }

// Changes every recall that a client receives.
Hooks client_hears_recalls(void (*change)(RecallSlot&)) {
  Hooks hooks;
  hooks.client.in = [change](std::vector<client::Event>& events) {
    for (auto& each : events) {
      auto* agent = std::get_if<client::ReceivedFromAgent>(&each);
      auto* relayed = agent == nullptr ? nullptr : std::get_if<FromHead>(&agent->message);
      auto* recall = relayed == nullptr ? nullptr : std::get_if<RecallSlot>(&relayed->message);
      if (recall != nullptr) change(*recall);
    }
  };
  return hooks;
}

Hooks preemption_is_dropped() {
  return client_hears_recalls([](RecallSlot& recall) { recall.running = RunningTask::finishes; });
}

// The head preempts running tasks with every recall.
Hooks recalls_preempt() {
  Hooks hooks;
  hooks.head.out = [](std::vector<head::Command>& commands) {
    for (auto& each : commands) {
      auto* send = std::get_if<head::SendToAgent>(&each);
      auto* frame = send ? std::get_if<HeadFrame>(&send->message) : nullptr;
      auto* relay = frame && frame->frame.message
                        ? std::get_if<ToProcess>(&frame->frame.message->edit())
                        : nullptr;
      auto* recall = relay ? std::get_if<RecallSlot>(&relay->message) : nullptr;
      if (recall != nullptr) recall->running = RunningTask::ends;
    }
  };
  return hooks;
}

// The client treats every task as one that may run again.
Hooks everything_may_run_again() {
  Hooks hooks;
  hooks.client.in = [](std::vector<client::Event>& events) {
    for (auto& each : events) {
      auto* submit = std::get_if<client::SubmitTask>(&each);
      if (submit != nullptr && submit->max_retries == 0) submit->max_retries = 1;
    }
  };
  return hooks;
}

// Counts submitted calls as finished.
Hooks submitted_calls_are_not_awaited() {
  Hooks hooks;
  hooks.executor.echo = [](const std::vector<executor::Command>& commands) {
    std::vector<executor::Event> events;
    for (const auto& each : commands) {
      if (std::holds_alternative<executor::AwaitSubmitted>(each))
        events.emplace_back(executor::SubmittedDone{});
    }
    return events;
  };
  hooks.executor.out = [](std::vector<executor::Command>& commands) {
    std::erase_if(commands, [](const auto& each) {
      return std::holds_alternative<executor::AwaitSubmitted>(each);
    });
  };
  return hooks;
}

Hooks actors_are_not_entrusted() {
  Hooks hooks;
  hooks.client.out = [](std::vector<client::Command>& commands) {
    for (auto& each : commands) {
      if (auto* exported = to_agent<ExportObject>(each)) exported->entrusted = {};
    }
  };
  return hooks;
}

Hooks results_belong_to_others() {
  Hooks hooks;
  auto last = std::make_shared<Payload>();
  hooks.executor.in = [last](std::vector<executor::Event>& events) {
    for (auto& each : events) {
      auto* finished = std::get_if<executor::CallFinished>(&each);
      if (finished == nullptr || finished->outcome != CallOutcome::value ||
          finished->results.empty())
        continue;
      auto& result = finished->results.front();
      if (!result.in_store && !last->empty()) std::swap(result.bytes, *last);
      if (!result.in_store && last->empty()) *last = result.bytes;
    }
  };
  return hooks;
}

std::vector<Mutation> make_mutations() {
  auto all = std::vector<Mutation>{
      {"client drops ReturnSlot", {"tasks", "drivers"}, client_forgets<ReturnSlot>},
      {"client drops reports of its calls", {"tasks", "quiet"}, client_forgets<ClassUse>},
      {"client drops WatchActor", {"actors", "quiet"}, client_forgets<WatchActor>},
      {"client drops EndActor", {"actors", "quiet"}, client_forgets<EndActor>},
      {"client drops ReleaseObject", {"objects", "quiet"}, client_does_not_tell<ReleaseObject>},
      {"client requests no holds", {"quiet", "objects"}, holds_are_not_requested},
      {"client ignores recalls for the capacity of results", {"resident"}, capacity_is_kept},
      {"client ignores lost bytes", {"losses"}, client_does_not_hear<ObjectGone>},
      {"agent drops the last copy silently", {"last_copies", "losses"}, last_copies_are_forgotten},
      {"executor does not name an unread argument", {"lost_homes"}, unread_arguments_are_not_named},
      {"client treats its exports as unheld at once", {"losses"}, exports_are_believed_unheld},
      {"client handles deaths before the last data", {"endings"}, deaths_overtake_data},
      {"client counts retries twice", {"crashes", "quiet"}, retries_count_twice},
      {"client reorders calls of an actor", {"actors", "quiet"}, calls_are_reordered},
      {"executor runs a call twice", {"one_task", "tasks"}, executor_runs_twice},
      {"executor does not report that it waits", {"nested"}, executor_hides_that_it_waits},
      {"executor replies with the result of another call", {"tasks"}, results_belong_to_others},
      {"agent forks a generation twice", {"one_task", "tasks"}, agent_forks_twice},
      {"agent reports kills before the processes end", {"endings"}, kills_are_believed_at_once},
      {"agent does not report ended processes", {"drivers"}, agent_hides<ProcessEnded>},
      {"executor does not await what it has submitted", {"ends"}, submitted_calls_are_not_awaited},
      {"client does not entrust its actors", {"ends"}, actors_are_not_entrusted},
      {"agent does not drop slabs", {"objects", "quiet"}, agent_does_not<worker::DropSlab>},
      {"agent does not forget programs", {"one_task"}, agent_does_not<worker::ForgetProgram>},
      {"agent does not report removed slots", {"tasks", "one_task"}, agent_hides<SlotGone>},
      {"agent does not report ready slots", {"tasks", "quiet"}, agent_hides<SlotStarted>},
      {"agent ignores its fence", {"partitions", "everything"}, agent_does_not<worker::Fence>},
      {"agent releases objects that it must hold",
       {"quiet", "objects"},
       node_releases_what_it_was_to_hold},
      {"agent refuses results", {"quiet", "objects"}, results_are_not_wanted},
      {"head does not wait for its disk", {"one_task", "tasks"}, head_does_not_wait_for_its_disk},
      {"head gives the first GPU to all", {"gpu"}, all_get_the_first_gpu},
      {"head does not write where bundles are", {"groups"}, bundle_nodes_are_not_written},
      {"head does not write drains", {"drains"}, drains_are_not_written},
      {"head does not write undrains", {"drains"}, drains_are_written_for_ever},
      {"client receives no recalls", {"fairness"}, recalls_are_lost},
      {"client receives no recalls for reservations", {"group_turns"}, reservations_are_lost},
      {"client receives recalls without their preemption", {"preemption"}, preemption_is_dropped},
      {"client lets all tasks run again", {"preemption"}, everything_may_run_again},
      {"head preempts where it recalls", {"fairness", "preemption"}, recalls_preempt},
      {"head receives no quotas", {"fairness"}, quotas_are_dropped},
      {"head reverses priorities", {"fairness"}, priorities_are_turned_round},
      {"head receives no selectors", {"rules"}, selectors_are_dropped},
      {"slots outgrow their bundles", {"groups"}, slots_outgrow_their_bundles},
      {"agent states the labels of another", {"labels"}, labels_are_those_of_others},
      {"agent does not read back", {"spill"}, agent_does_not<worker::StartRestore>},
      {"agent does not remove files", {"spill"}, agent_does_not<worker::DropSpillFile>},
      {"client does not return locations", {"spill"}, client_does_not_tell<UnpinReply>},
      {"agent reports no headroom for contexts", {"gpu"}, contexts_are_not_stated},
  };
  for (auto& each : link_mutations()) all.push_back(std::move(each));
  for (auto& each : memory_mutations()) all.push_back(std::move(each));
  for (auto& each : bulk_mutations()) all.push_back(std::move(each));
  for (auto& each : tensor_mutations()) all.push_back(std::move(each));
  for (auto& each : report_mutations()) all.push_back(std::move(each));
  for (auto& each : end_mutations()) all.push_back(std::move(each));
  for (auto& each : completion_mutations()) all.push_back(std::move(each));
  for (auto& each : deferred_mutations()) all.push_back(std::move(each));
  for (auto& each : stream_mutations()) all.push_back(std::move(each));
  for (auto& each : fleet_mutations()) all.push_back(std::move(each));
  return all;
}

}  // namespace

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = make_mutations();
  return all;
}

const Mutation* find_mutation(const std::string& name) {
  const auto at = std::ranges::find(mutations(), name, &Mutation::name);
  return at == mutations().end() ? nullptr : &*at;
}

}  // namespace mobula::internal::sim
