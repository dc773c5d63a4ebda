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
  HeadTables& parts;
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
    if (parts.jobs.works(job)) return true;
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
    parts.processes.tell(process, RequestRejected{job, std::move(why)});
  }

  void operator()(const StartJob& message) const {
    if (principal.role != Role::driver || message.driver != process ||
        message.job != principal.job || message.job.empty()) {
      return refuse(message.job, "only a driver starts a job, and only its own");
    }
    parts.jobs.start(node, message);
  }
  void operator()(const EndJob& message) const {
    if (principal.role != Role::driver || message.job != principal.job) {
      return refuse(message.job, "only the job's driver ends it");
    }
    parts.jobs.end(message.job, JobEnd::succeeded, "its driver has finished");
  }
  void operator()(const Demand& message) const {
    if (!own_live_job(message.demand_class.job) || !within_limits(message.demand_class)) return;
    parts.slots.demand(process, message);
  }
  void operator()(const ReturnSlot& message) const {
    if (!message.unreachable.empty()) parts.slots.link_lost(process, message);
    parts.slots.returned(process, message.slot);
  }
  void operator()(const PreemptionAnswer& message) const {
    parts.slots.preemption_answered(process, message);
  }
  void operator()(const HoldSlot& message) const { parts.slots.held(process, message); }
  void operator()(const CreateActor& message) const {
    if (message.spec.owner != process) {
      return refuse(message.spec.job, "an actor is created by its owner");
    }
    if (!own_live_job(message.spec.job) || !within_limits(message.spec.demand)) return;
    parts.actors.create(message);
  }
  void operator()(const EndActor& message) const {
    parts.actors.end(process, principal.job, message);
  }
  void operator()(const WatchActor& message) const {
    parts.actors.watch(process, principal.job, message);
  }
  void operator()(const FindActor& message) const {
    parts.actors.find_by_name(process, principal.job, message);
  }
  void operator()(const CreateGroup& message) const {
    if (message.spec.creator != process) {
      return refuse(message.spec.job, "a placement group is created by its creator");
    }
    if (!own_live_job(message.spec.job) || !within_limits(message.spec)) return;
    parts.groups.create(message);
  }
  void operator()(const RemoveGroup& message) const {
    parts.groups.remove(process, principal.job, message);
  }
  void operator()(const WatchGroup& message) const { parts.groups.watch(process, message); }
  void operator()(const ReadState& message) const {
    auto answer = parts.reader.read(message, principal.job, process);
    if (answer) parts.processes.tell(process, std::move(*answer));
  }
  void operator()(const TasksReply& message) const { parts.tasks.on(process, message); }
  void operator()(const TransfersReply& message) const {
    parts.transfers.on(process, node, message);
  }
  void operator()(const SpansReply& message) const { parts.spans.on(process, node, message); }
  void operator()(const TransferCounters& message) const {
    if (parts.processes.find(process) != nullptr)
      parts.transfer_counts.update(process, node, message.counts);
  }
  void operator()(const ClassUse& message) const {
    if (parts.processes.find(process) != nullptr)
      parts.class_use.update(process, message, parts.now);
  }
};

// Whether a driver whose agent has died sends through another agent.
bool came_back(const HeadTables& parts, ProcessId process, const Principal& principal) {
  const Process* known = parts.processes.find(process);
  return known != nullptr && parts.processes.lost(process) && known->principal.job == principal.job;
}

void take_process_message(HeadTables& parts, NodeId node, const FromProcess& message) {
  const bool driver = message.principal.role == Role::driver;
  if (!driver && message.principal.role != Role::executor) return;
  const Node* from = parts.nodes.find(node);
  if (!driver && !from->slots_allowed()) return;  // the node of a driver has no executors
  if (!may_send(message.principal.role, message.message)) {
    mark_out_of_role.hit();
    (void)note_refusal(
        parts, message.principal,
        fmt::format("process {} sent what its role may not", message.process.brief()));
    return;
  }
  const Process* known = parts.processes.find(message.process);
  if (known == nullptr || came_back(parts, message.process, message.principal)) {
    parts.processes.attached(node, ProcessFact{message.process, message.principal, 0});
  } else if (known->node != node) {
    return mark_strange_process.hit();
  }
  const Speaker speaker(parts, message.principal);
  std::visit(ProcessVoice{parts, node, message.process, message.principal}, message.message);
}

struct AgentVoice {
  HeadTables& parts;
  NodeId node;

  ProcessId incarnation() const { return parts.nodes.find(node)->address.incarnation; }

  void operator()(const SlotStarted& message) const { parts.slots.started(node, message); }
  void operator()(const SlotGenerationEnded& message) const {
    parts.slots.generation_ended(node, message);
  }
  void operator()(const SlotGone& message) const { parts.slots.gone(node, message); }
  void operator()(const SlotCpuReleased& message) const { parts.slots.lent(node, message); }
  void operator()(const SlotResident& message) const { parts.slots.resides(node, message); }
  void operator()(const SlotShareExceeded& message) const { parts.slots.over_share(node, message); }
  void operator()(const ActorConstructed& message) const { parts.actors.constructed(message); }
  void operator()(const FromProcess& message) const { take_process_message(parts, node, message); }
  void operator()(const ProcessAttached& message) const {
    const Process* known = parts.processes.find(message.process.process);
    const auto& fact = message.process;
    if (known == nullptr || known->node == node || came_back(parts, fact.process, fact.principal)) {
      parts.processes.attached(node, fact);
    }
  }
  void operator()(const ProcessEnded& message) const {
    // An unknown process died before this head was started, or while no head was running.
    const NodeId known = parts.processes.node_of(message.process);
    if (known == node || known.empty()) parts.processes.ended(message.process, message.cause);
  }
  void operator()(const ObjectCopies& message) const {
    parts.copies.changed(node, message);
    parts.actors.entrusted(message.entrusted);
  }
  void operator()(const LocateObjectRequest& message) const {
    parts.copies.locate(node, message.object);
  }
  // Output has no queue: if the node of the driver is slow, the head drops it.
  void operator()(const JobOutputLines& message) const {
    const Job* job = parts.jobs.find(message.job);
    if (job != nullptr && !job->node.empty()) parts.nodes.pass_output(job->node, message);
  }
  void operator()(const AgentDraining& message) const { parts.nodes.leaves(node, message.timeout); }
  void operator()(const MemoryPressure& message) const { parts.nodes.pressed(node, message); }
  void operator()(const ObjectsReply& message) const { parts.objects.listed(node, message); }
  void operator()(ReadJobLogReply& message) const { parts.job_logs.on(node, std::move(message)); }
  void operator()(LogsReply& message) const { parts.node_questions.on(node, std::move(message)); }
  void operator()(ReadLogReply& message) const {
    parts.node_questions.on(node, std::move(message));
  }
  void operator()(const UsageReply& message) const {
    if (message.request == NodeSamples::request_number) return parts.samples.on(node, message);
    parts.node_questions.on(node, message);
  }
  void operator()(const TransfersReply& message) const {
    parts.transfers.on(incarnation(), node, message);
  }
  void operator()(const SpansReply& message) const { parts.spans.on(incarnation(), node, message); }
  void operator()(const FactsReply& message) const { parts.nodes.stated(node, message); }
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

bool note_refusal(HeadTables& parts, const Principal& principal, const std::string& what) {
  const std::string source = fmt::format("{}:{}", to_string(principal.role), principal.name);
  const auto unsaid = parts.refusals.refused(parts.now, source);
  if (!unsaid) return false;
  parts.commands.push_back(
      WriteLog{fmt::format("refused '{}': {}; {} refused since the line before, {} in all", source,
                           what, *unsaid, parts.refusals.count())});
  return true;
}

void take_agent_message(HeadTables& parts, NodeId node, AgentMessage message) {
  // The agent of a driver has no slots, regardless of its key.
  const Node& from = *parts.nodes.find(node);
  if (!may_send(from.role, message)) {
    mark_out_of_role.hit();
    (void)note_refusal(parts, from.principal,
                       fmt::format("the {} of node {} sent what its role may not",
                                   to_string(from.role), node.brief()));
    return;
  }
  std::visit(AgentVoice{parts, node}, message);
}

}  // namespace mobula::internal::head
