// Messages of local processes and of other agents, and the start and the end of processes.
#include <fmt/format.h>

#include "base/coverage_mark.h"
#include "protocol/tickets/roles.h"
#include "worker/core/parts.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_out_of_role("worker.process_message_out_of_role");
const CoverageMark mark_peer_out_of_role("worker.peer_message_out_of_role");

// Executors use inherited sockets; all other connections are drivers. Messages for the head are
// checked here, too, because this agent is the head's only proof of the sender.
bool within_role(const ProcessRow& row, const ProcessToAgent& message) {
  const Role role = row.process.empty() ? Role::driver : row.principal.role;
  if (!may_send(role, message)) return false;
  const auto* relayed = std::get_if<ForHead>(&message);
  return relayed == nullptr || may_send(role, relayed->message);
}

}  // namespace

// ---- links --------------------------------------------------------------------------------------

void WorkerCore::Parts::on(ProcessConnected& event) {
  processes.connected(event.link, std::move(event.user), event.pid);
}

void WorkerCore::Parts::on(ReceivedFromProcess& event) {
  ProcessRow* row = processes.by_link(event.link);
  if (row == nullptr) return;
  if (row->process.empty() && !std::holds_alternative<AttachDriver>(event.message)) {
    return processes.close(event.link);
  }
  if (!within_role(*row, event.message)) return mark_out_of_role.hit();
  std::visit([&](auto& each) { on(*row, each); }, event.message);
}

void WorkerCore::Parts::on(ProcessLinkLost& event) {
  std::erase_if(waiting_drivers, [&](const auto& each) { return each.first == event.link; });
  const auto row = processes.lost(event.link);
  if (!row || row->process.empty()) return;
  if (!row->slot.empty()) return slots.link_lost(row->slot, row->generation);
  // Without an exit status a signal of 0 states that the process may still run, or that its status
  // is not available.
  EndCause cause = event.cause;
  if (!event.exited) cause.kind = EndKind::signalled;
  cause.pid = row->pid;
  cause.text = "without ending its job";
  objects->process_gone(row->process, false);  // with a driver its job ends
  programs.driver_ended(row->process);
  report_end({row->process, std::move(cause)});
}

void WorkerCore::Parts::process_began(ProcessId process, const Principal& principal) {
  objects->add_process(process, principal.job);
  const ProcessRow* row = processes.find(process);
  head.tell(ProcessAttached{{process, principal, row == nullptr ? 0 : row->pid}});
  greet(process);
}

void WorkerCore::Parts::process_gone(ProcessId process, const EndCause& cause) {
  if (const ProcessRow* row = processes.find(process)) {
    const LinkId link = row->link;
    outbox.emit(CloseProcess{link});
    processes.lost(link);
  }
  using enum EndKind;
  const bool sudden = cause.kind != retired && cause.kind != intended && cause.kind != start_failed;
  objects->process_gone(process, sudden);
  report_end({process, cause});
}

void WorkerCore::Parts::report_end(ProcessEnded ended) {
  if (head.registered()) head.tell(ended);  // otherwise it is reported with the earlier ends
  processes.remember(std::move(ended), head.reachable());
}

// ---- drivers ------------------------------------------------------------------------------------

void WorkerCore::Parts::on(ProcessRow& row, AttachDriver& message) {
  if (!row.process.empty()) return;  // already attached
  if (head.was_admitted()) return attach(row, message);
  // Before its own admission by the head, the agent cannot vouch for drivers.
  row.attach_by.reset();
  waiting_drivers.emplace_back(row.link, std::move(message));
}

void WorkerCore::Parts::attach(ProcessRow& row, AttachDriver& message) {
  const auto refuse = [&](ErrorCode code, std::string why) {
    outbox.emit(SendToProcess{row.link, AttachRefused{code, std::move(why)}, SlabId{}});
    processes.close(row.link);
  };
  if (const auto spoken = range_of(message.version, message.oldest);
      !agreed_version(own_protocol, spoken)) {
    return refuse(ErrorCode::corrupt, protocol_mismatch("the driver", spoken, "the agent"));
  }
  if (phase != Phase::running) {
    return refuse(ErrorCode::unavailable, "the agent of this machine is being stopped");
  }
  if (message.process.empty() || message.job.empty()) {
    return refuse(ErrorCode::invalid_argument, "a driver names its process and its job");
  }
  if (processes.attached(message.process)) {
    return refuse(ErrorCode::already_exists, "a process with this id is attached already");
  }
  const Principal principal{Role::driver, row.user, message.job};
  const std::int64_t pid = row.pid != 0 ? row.pid : message.pid;
  processes.attach(row.link, message.process, principal, pid);
  DriverAttached reply;
  reply.node = head.node().address.node;
  reply.agent = head.node().address.incarnation;
  reply.head_signing_key = head.signing_key();
  reply.cluster_name = head.settings().cluster_name;
  reply.bind_host = head.node().bind_host;
  reply.fabric = head.fabric();
  outbox.emit(WelcomeDriver{row.link, principal, message.process, std::move(message.curve_key),
                            std::move(reply)});
  process_began(message.process, principal);
}

// ---- relays and executors -----------------------------------------------------------------------

void WorkerCore::Parts::on(ProcessRow& row, ForHead& message) {
  if (const auto* job = std::get_if<StartJob>(&message.message)) {
    if (row.slot.empty()) programs.brought(row.pid, job->program, row.process, row.principal.job);
  }
  // The agent of a process that cannot reach a node checks its own link.
  if (const auto* returned = std::get_if<ReturnSlot>(&message.message)) {
    if (!returned->unreachable.empty()) peers.check(returned->node);
  } else if (const auto* watch = std::get_if<WatchActor>(&message.message)) {
    if (!watch->unreachable.empty()) peers.check(watch->node);
  }
  FromProcess relayed{row.process, row.principal, std::move(message.message)};
  if (!head.relay(std::move(relayed))) row.restates = true;
}

void WorkerCore::Parts::on(ProcessRow& row, ExecutorReady& message) {
  slots.said_ready(row.slot, std::move(message));
}
void WorkerCore::Parts::on(ProcessRow& row, ExecutorBlocked& message) {
  slots.said_blocked(row.slot, message);
}
void WorkerCore::Parts::on(ProcessRow& row, ExecutorResident& message) {
  slots.said_resides(row.slot, message.residence);
}
void WorkerCore::Parts::on(ProcessRow& row, ExecutorRetires& message) {
  slots.said_retires(row.slot, message.kind);
}
void WorkerCore::Parts::on(ProcessRow& row, ConstructorFinished& message) {
  slots.said_constructed(row.slot, std::move(message.error));
}
void WorkerCore::Parts::on(ProcessRow& row, RunningNow& message) {
  slots.said_running(row.slot, std::move(message.name), message.may_run_again);
}

// ---- objects ------------------------------------------------------------------------------------

void WorkerCore::Parts::on(ProcessRow& row, ReserveObjectRequest& message) {
  objects->reserve(row.process, message);
}
void WorkerCore::Parts::on(ProcessRow& row, SealObjectRequest& message) {
  objects->seal(row.process, message);
}
void WorkerCore::Parts::on(ProcessRow& row, ExportObject& message) {
  objects->export_object(row.process, message);
}
void WorkerCore::Parts::on(ProcessRow& row, HoldObjectRequest& message) {
  objects->hold(row.process, message);
}
void WorkerCore::Parts::on(ProcessRow& row, ReleaseObject& message) {
  if (message.abandons_write) objects->abandon_write(row.process, message.object);
  objects->release(row.process, message.object);
}
void WorkerCore::Parts::on(ProcessRow& row, FetchObjectRequest& message) {
  objects->fetch(row.process, message);
}
void WorkerCore::Parts::on(ProcessRow& row, CancelFetch& message) {
  objects->cancel_fetch(row.process, message.object);
}
void WorkerCore::Parts::on(ProcessRow& row, UnmapSlabReply& message) {
  objects->unmapped(row.process, message.slab);
}

// ---- other agents, programs ---------------------------------------------------------------------

void WorkerCore::Parts::on(ReceivedFromPeer& event) {
  auto received = peers.receive(std::move(event.frame));
  if (!received) return;
  const NodeId node = received->first;
  // Each sender on this bus has proved its identity with an agent's ticket.
  if (!may_send(Role::agent, received->second)) return mark_peer_out_of_role.hit();
  std::visit([&](const auto& each) { objects->from_peer(node, each); }, received->second);
}

void WorkerCore::Parts::on(PeerLink& event) {
  if (event.connected) peers.link_up(event.incarnation);
}

void WorkerCore::Parts::on(ProgramPrepared& event) {
  if (const auto outcome = programs.prepared(event)) slots.program_came(*outcome);
}

}  // namespace mobula::internal::worker
