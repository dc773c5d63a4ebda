#include "head/core/message_dispatch.h"

#include <fmt/format.h>

#include "base/coverage_mark.h"
#include "base/model/request_rules.h"
#include "head/core/head_tables.h"
#include "head/core/token_table.h"
#include "protocol/tickets/roles.h"
#include "protocol/tickets/verbs.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_strange_process("head.process_speaks_from_another_node");
const CoverageMark mark_out_of_role("head.message_out_of_role");
const CoverageMark mark_other_job("head.process_speaks_for_another_job");
const CoverageMark mark_beyond_limits("head.request_beyond_limits");

// One message of one process. Its agent has set the principal.
struct ProcessVoice {
  HeadTables& tables;
  NodeId node;
  ProcessId process;
  const Principal& principal;

  // Returns false, after a rejection, if `job` is not the job of the sender or accepts no requests.
  bool own_live_job(JobId job) const {
    if (principal.job != job) {
      mark_other_job.hit();
      refuse(job, fmt::format("process {} belongs to job {} and may not act for job {}",
                              process.brief(), principal.job.brief(), job.brief()));
      return false;
    }
    if (tables.jobs.works(job)) return true;
    refuse(job, fmt::format("job {} does not run", job.brief()));
    return false;
  }
  // Returns false, after a rejection, if a limit is exceeded that the client should have enforced.
  bool within_limits(const DemandClass& demand) const {
    auto broken = check_request(demand.request);
    if (!broken) broken = check_environment(demand.env);
    if (!broken) return true;
    mark_beyond_limits.hit();
    refuse(demand.job, to_string(*broken));
    return false;
  }
  bool within_limits(const GroupSpec& spec) const {
    for (const Request& bundle : spec.bundles) {
      const auto broken = check_request(bundle);
      if (!broken) continue;
      mark_beyond_limits.hit();
      refuse(spec.job, to_string(*broken));
      return false;
    }
    return true;
  }
  void refuse(JobId job, std::string why) const {
    tables.processes.send(process, RequestRejected{job, std::move(why)});
  }

  void operator()(const StartJob& message) const {
    if (principal.role != Role::driver || message.driver != process ||
        message.job != principal.job || message.job.empty()) {
      return refuse(message.job, "only a driver starts a job, and only its own");
    }
    tables.jobs.start(node, message);
  }
  void operator()(const EndJob& message) const {
    if (principal.role != Role::driver || message.job != principal.job) {
      return refuse(message.job, "only the job's driver ends it");
    }
    tables.jobs.end(message.job, JobEnd::succeeded, "its driver has finished");
  }
  void operator()(const Demand& message) const {
    if (!own_live_job(message.demand_class.job) || !within_limits(message.demand_class)) return;
    tables.slots.demand(process, message);
  }
  void operator()(const ReturnSlot& message) const {
    if (!message.unreachable.empty()) tables.slots.link_lost(process, message);
    tables.slots.returned(process, message.slot);
  }
  void operator()(const PreemptionAnswer& message) const {
    tables.slots.preemption_answered(process, message);
  }
  void operator()(const HoldSlot& message) const { tables.slots.held(process, message); }
  void operator()(const CreateActor& message) const {
    if (message.spec.owner != process) {
      return refuse(message.spec.job, "an actor is created by its owner");
    }
    if (!own_live_job(message.spec.job) || !within_limits(message.spec.demand)) return;
    tables.actors.create(message);
  }
  void operator()(const EndActor& message) const {
    tables.actors.end(process, principal.job, message);
  }
  void operator()(const WatchActor& message) const {
    tables.actors.watch(process, principal.job, message);
  }
  void operator()(const FindActor& message) const {
    tables.actors.find_by_name(process, principal.job, message);
  }
  void operator()(const CreateGroup& message) const {
    if (message.spec.creator != process) {
      return refuse(message.spec.job, "a placement group is created by its creator");
    }
    if (!own_live_job(message.spec.job) || !within_limits(message.spec)) return;
    tables.groups.create(message);
  }
  void operator()(const RemoveGroup& message) const {
    tables.groups.remove(process, principal.job, message);
  }
  void operator()(const WatchGroup& message) const { tables.groups.watch(process, message); }
  void operator()(const ReadState& message) const {
    auto answer = tables.reader.read(message, principal.job, process);
    if (answer) tables.processes.send(process, std::move(*answer));
  }
  void operator()(const TasksReply& message) const { tables.tasks.on(process, message); }
  void operator()(const TransfersReply& message) const {
    tables.transfers.on(process, node, message);
  }
  void operator()(const SpansReply& message) const { tables.spans.on(process, node, message); }
  void operator()(const TransferCounters& message) const {
    if (tables.processes.find(process) != nullptr)
      tables.transfer_counts.update(process, node, message.counts);
  }
  void operator()(const ClassUse& message) const {
    if (tables.processes.find(process) != nullptr)
      tables.class_use.update(process, message, tables.now);
  }
};

// Whether a driver whose agent has died sends through another agent.
bool came_back(const HeadTables& tables, ProcessId process, const Principal& principal) {
  const Process* known = tables.processes.find(process);
  return known != nullptr && tables.processes.lost(process) &&
         known->principal.job == principal.job;
}

void take_process_message(HeadTables& tables, NodeId node, const FromProcess& message) {
  const bool driver = message.principal.role == Role::driver;
  if (!driver && message.principal.role != Role::executor) return;
  const Node* from = tables.nodes.find(node);
  if (!driver && !from->slots_allowed()) return;  // the node of a driver has no executors
  if (!may_send(message.principal.role, message.message)) {
    mark_out_of_role.hit();
    (void)note_refusal(
        tables, message.principal,
        fmt::format("process {} sent what its role may not", message.process.brief()));
    return;
  }
  const Process* known = tables.processes.find(message.process);
  if (known == nullptr || came_back(tables, message.process, message.principal)) {
    tables.processes.attached(node, ProcessFact{message.process, message.principal, 0});
  } else if (known->node != node) {
    return mark_strange_process.hit();
  }
  if (!is_reply(message.message)) tables.processes.set_idle_until(message.process, {});
  const Speaker speaker(tables, message.principal);
  std::visit(ProcessVoice{tables, node, message.process, message.principal}, message.message);
}

struct AgentVoice {
  HeadTables& tables;
  NodeId node;

  ProcessId incarnation() const { return tables.nodes.find(node)->address.incarnation; }

  void operator()(const SlotStarted& message) const { tables.slots.started(node, message); }
  void operator()(const SlotGenerationEnded& message) const {
    tables.slots.generation_ended(node, message);
  }
  void operator()(const SlotGone& message) const { tables.slots.gone(node, message); }
  void operator()(const SlotCpuReleased& message) const { tables.slots.lent(node, message); }
  void operator()(const SlotResident& message) const { tables.slots.resides(node, message); }
  void operator()(const SlotShareExceeded& message) const {
    tables.slots.over_share(node, message);
  }
  void operator()(const ActorConstructed& message) const { tables.actors.constructed(message); }
  void operator()(const FromProcess& message) const { take_process_message(tables, node, message); }
  void operator()(const ProcessAttached& message) const {
    const Process* known = tables.processes.find(message.process.process);
    const auto& fact = message.process;
    if (known == nullptr || known->node == node ||
        came_back(tables, fact.process, fact.principal)) {
      tables.processes.attached(node, fact);
    }
  }
  void operator()(const ProcessEnded& message) const {
    // An unknown process died before this head was started, or while no head was running.
    const NodeId known = tables.processes.node_of(message.process);
    if (known == node || known.empty()) tables.processes.ended(message.process, message.cause);
  }
  void operator()(const ObjectCopies& message) const {
    tables.copies.changed(node, message);
    tables.actors.entrusted(message.entrusted);
  }
  void operator()(const LocateObjectRequest& message) const {
    tables.copies.locate(node, message.object);
  }
  // Output has no queue: if the node of the driver is slow, the head drops it.
  void operator()(const JobOutputLines& message) const {
    const Job* job = tables.jobs.find(message.job);
    if (job != nullptr && !job->node.empty()) tables.nodes.pass_output(job->node, message);
  }
  void operator()(const AgentDraining& message) const {
    tables.nodes.leaves(node, message.timeout);
  }
  void operator()(const MemoryPressure& message) const { tables.nodes.pressed(node, message); }
  void operator()(const ObjectsReply& message) const { tables.objects.listed(node, message); }
  void operator()(ReadJobLogReply& message) const { tables.job_logs.on(node, std::move(message)); }
  void operator()(LogsReply& message) const { tables.node_questions.on(node, std::move(message)); }
  void operator()(ReadLogReply& message) const {
    tables.node_questions.on(node, std::move(message));
  }
  void operator()(const UsageReply& message) const {
    if (message.request == NodeSamples::request_number) return tables.samples.on(node, message);
    tables.node_questions.on(node, message);
  }
  void operator()(const TransfersReply& message) const {
    tables.transfers.on(incarnation(), node, message);
  }
  void operator()(const SpansReply& message) const {
    tables.spans.on(incarnation(), node, message);
  }
  void operator()(const FactsReply& message) const { tables.nodes.stated(node, message); }
};

}  // namespace

std::string may_not(std::string_view verb, const Principal& principal) {
  if (principal.role == Role::unproven && principal.name.starts_with(ticket_prefix)) {
    return fmt::format(
        "{}: ticket {} brings a machine in, by `mobula start --join`, and does nothing else; "
        "`mobula token create "
        "--role driver`, or observer, on the head's machine makes what commands take",
        verb, principal.name.substr(ticket_prefix.size()));
  }
  const VerbRow* row = verb_row(verb);
  const bool drivers = row != nullptr && row->roles.contains(Role::driver);
  const bool operators = row != nullptr && row->roles.contains(Role::operator_);
  return fmt::format(
      "{}: '{}' has the role {}, which may not{}", verb, principal.name, to_string(principal.role),
      drivers
          ? "; a token may that `mobula token create --role driver` makes on the head's machine: "
            "give it with MOBULA_TOKEN"
      : operators ? "; the operator's key may: do this on the head's machine, or through `mobula "
                    "exec CLUSTER.yaml --`, "
                    "with no MOBULA_TOKEN"
                  : "");
}

bool note_refusal(HeadTables& tables, const Principal& principal, const std::string& what) {
  const std::string source = fmt::format("{}:{}", to_string(principal.role), principal.name);
  const auto unsaid = tables.refusals.refused(tables.now, source);
  if (!unsaid) return false;
  tables.commands.push_back(
      WriteLog{fmt::format("refused '{}': {}; {} refused since the line before, {} in all", source,
                           what, *unsaid, tables.refusals.count())});
  return true;
}

bool is_reply(const ProcessToHead& message) {
  return std::holds_alternative<TasksReply>(message) ||
         std::holds_alternative<TransfersReply>(message) ||
         std::holds_alternative<SpansReply>(message);
}

void take_agent_message(HeadTables& tables, NodeId node, AgentMessage message) {
  // The agent of a driver has no slots, regardless of its key.
  const Node& from = *tables.nodes.find(node);
  if (!may_send(from.role, message)) {
    mark_out_of_role.hit();
    (void)note_refusal(tables, from.principal,
                       fmt::format("the {} of node {} sent what its role may not",
                                   to_string(from.role), node.brief()));
    return;
  }
  std::visit(AgentVoice{tables, node}, message);
}

}  // namespace mobula::internal::head
