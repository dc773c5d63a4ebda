// Placement, life, loss, and death of actors. Part of ActorTable.
#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/actors/actor_table.h"
#include "head/core/head_tables.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_restart("head.actor_restarts");
const CoverageMark mark_moved("head.actor_moves_off_a_drained_node");
const CoverageMark mark_hastened("head.command_stopped_before_the_drain_deadline");
const CoverageMark mark_memory("head.actor_waits_after_it_was_ended_for_memory");
const CoverageMark mark_not_started("head.actor_waits_after_it_could_not_be_started");
const CoverageMark mark_used_up("head.actor_restarts_used_up");
const CoverageMark mark_exclusive("head.exclusive_actor_waits_for_fence");
const CoverageMark mark_adopted("head.actor_adopted_from_facts");
const CoverageMark mark_ended_while_away("head.entry_point_ended_while_head_was_away");
const CoverageMark mark_unheard("head.command_lost_before_it_was_heard_of");
const CoverageMark mark_order_unheard("head.order_of_the_head_before_never_arrived");
const CoverageMark mark_lost_while_away("head.detached_actor_lost_while_head_was_away");

const CoverageMark mark_unreachable("head.actor_of_an_unreachable_executor_ended");
const CoverageMark mark_foreign_caller("head.unreachable_actor_of_another_job");

constexpr std::size_t max_cut_off = 16;         // nodes per actor
constexpr std::size_t max_cause_bytes = 2'048;  // bytes of the cause of a dead actor

// Doubles the backoff each time, so that failing attempts are not repeated without a pause.
Duration doubled(Duration first, int times, Duration cap) {
  return std::min(first * (1 << std::min(times, 10)), cap);
}

}  // namespace

// ---- placement ---------------------------------------------------------------------------------

// During recovery, an actor without a slot may have one on a node that has not registered yet.
void ActorTable::place(Actor& actor) {
  if (actor.state == ActorState::dead || actor.waits || !actor.slot.empty()) return;
  if (!tables_.serving || tables_.nodes.recovering()) return;
  // A command is placed earlier: its start order waits for the journal.
  if (!actor.durable && !actor.spec().entry.given()) return;
  if (const auto* why = tables_.groups.why_closed(actor.spec().demand.request.placement.group)) {
    EndCause cause;
    cause.kind = EndKind::group_removed;
    cause.text = *why;
    return die(actor, cause);
  }
  if (actor.not_before) {
    delayed_.set(actor.spec().actor, *actor.not_before);
    return;
  }
  actor.waits = true;
  actor.waiting_since = tables_.now;
  tables_.scheduler.add_actor_demand(actor.spec().actor,
                                     tables_.jobs.with_job_env(actor.spec().demand), tables_.now,
                                     callers_of(actor));
}

void ActorTable::set_slot(Actor& actor, SlotId slot, NodeId node) {
  actor.slot = slot;
  actor.node = node;
  by_node_.add(node, actor.spec().actor);
}

// Returns the slot that it had, if any.
SlotId ActorTable::clear_slot(Actor& actor) {
  by_node_.remove(actor.node, actor.spec().actor);
  actor.node = {};
  actor.endpoint = {};
  return std::exchange(actor.slot, SlotId{});
}

std::vector<NodeId> ActorTable::callers_of(const Actor& actor) const {
  std::vector<NodeId> nodes(actor.cut_off.begin(), actor.cut_off.end());
  const NodeId owner = tables_.processes.node_of(actor.spec().owner);
  if (!owner.empty()) nodes.push_back(owner);
  return nodes;
}

// The stop counts as a loss of the executor. Callers of other jobs cannot terminate an actor of
// this job.
void ActorTable::unreachable(ProcessId caller, JobId requesting_job, const WatchActor& message) {
  Actor* actor = rows_.find(message.actor);
  if (actor == nullptr || actor->state != ActorState::alive ||
      actor->endpoint.process != message.executor)
    return;
  const ActorSpec& spec = actor->spec();
  const NodeId from = tables_.processes.node_of(caller);
  const EventSubjects about{.node = actor->node,
                            .job = spec.job,
                            .actor = spec.actor,
                            .process = caller,
                            .slot = actor->slot};
  tables_.links.given_up(from, actor->node, about, message.unreachable);
  const std::string why = fmt::format(
      "its executor on node {} could not be reached from node {}, and the head reaches both",
      actor->node.brief(), from.brief());
  if (spec.job != requesting_job) {
    mark_foreign_caller.hit();
    ActorChanged news;
    news.actor = spec.actor;
    news.version = actor->version + 1;
    news.state = ActorState::dead;
    news.incarnation = actor->row.incarnation;
    news.cause = killed(why);
    return tables_.processes.send(caller, std::move(news));
  }
  const Slot* slot = tables_.slots.find(actor->slot);
  if (slot == nullptr || slot->stopping) return;
  mark_unreachable.hit();
  if (actor->cut_off.size() < max_cut_off) actor->cut_off.insert(from);
  tables_.slots.stop(actor->slot, false, why);
}

void ActorTable::demand_again(JobId job) {
  for (const auto id : by_job_.of(job)) {
    const Actor& actor = rows_.at(id);
    if (actor.waits) {
      tables_.scheduler.add_actor_demand(id, tables_.jobs.with_job_env(actor.spec().demand),
                                         actor.waiting_since, callers_of(actor));
    }
  }
}

const DemandClass* ActorTable::demand_of(ActorId id) const {
  const Actor* actor = rows_.find(id);
  return actor != nullptr && actor->waits ? &actor->spec().demand : nullptr;
}

bool ActorTable::granted(const scheduler::Slot& grant, StartSlot& start) {
  Actor* actor = rows_.find(grant.actor);
  if (actor == nullptr || !actor->waits) return false;
  actor->waits = false;
  set_slot(*actor, grant.id, grant.node);
  start.demand_class = actor->spec().demand;
  start.actor = actor->spec();
  start.first_generation = actor->row.incarnation;
  start.program = actor->row.program;
  start.job_env = actor->row.job_env;
  start.name_space = actor->name_space;
  const Job* job = tables_.jobs.find(actor->spec().job);
  start.show_output = job != nullptr && job->runs() && job->start.show_output;
  if (actor->spec().entry.given()) {
    const Node* node = tables_.nodes.find(grant.node);
    const ProcessId agent = node == nullptr ? ProcessId() : node->address.incarnation;
    actor->row.order = StartOrder{actor->row.incarnation + 1, grant.node, agent};
    write_row(*actor);
  }
  // Watchers are not notified: they wait for the actor in both states.
  if (actor->state == ActorState::placing) actor->state = ActorState::starting;
  return true;
}

void ActorTable::infeasible(const scheduler::Infeasible& report) {
  Actor* actor = rows_.find(report.actor);
  if (actor == nullptr || !actor->waits) return;
  const Job* job = tables_.jobs.find(actor->spec().job);
  DemandInfeasible news;
  news.demand_class = report.class_id;
  news.actor = report.actor;
  news.reasons = report.reasons;
  news.summary = summary_of(actor->spec().demand.request, report.reasons);
  // An actor that has been alive waits for a node to return. Only the first placement can fail.
  const bool first = actor->row.incarnation == 0;
  news.fatal = first && (actor->fail_if_infeasible || is_forbidden(report.reasons) ||
                         insists_on_node(actor->spec().demand.request) ||
                         (job != nullptr && job->start.local_cluster));
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = news.summary;
  if (actor->spec().entry.given()) tables_.submissions.infeasible(actor->spec().job, news.summary);
  const bool fatal = news.fatal;
  tables_.processes.send(actor->spec().owner, std::move(news));
  if (fatal) die(*actor, cause, true);
}

void ActorTable::fail_unserved(const std::map<std::string, std::string>& never) {
  std::vector<std::pair<ActorId, std::string>> ended;
  for (const auto& [id, actor] : rows_) {
    const auto& demand = actor.spec().demand;
    if (!actor.waits || !actor.slot.empty() || actor.row.incarnation > 0) continue;
    const auto at = never.find(demand.id.hex());
    if (at == never.end()) continue;
    if (tables_.scheduler.explain(demand, scheduler::Tenant::actor, {}).feasible) continue;
    ended.emplace_back(id, at->second);
  }
  for (const auto& [id, why] : ended) {
    Actor& actor = *rows_.find(id);
    DemandInfeasible news;
    news.demand_class = actor.spec().demand.id;
    news.actor = id;
    news.summary = why;
    news.fatal = true;
    EndCause cause;
    cause.kind = EndKind::killed;
    cause.text = why;
    if (actor.spec().entry.given()) tables_.submissions.infeasible(actor.spec().job, why);
    tables_.processes.send(actor.spec().owner, std::move(news));
    die(actor, cause, true);
  }
}

// ---- life --------------------------------------------------------------------------------------

void ActorTable::started(ActorId id, const Slot& slot) {
  Actor* actor = rows_.find(id);
  if (actor == nullptr || actor->slot != slot.id || actor->state == ActorState::dead) return;
  actor->row.incarnation = slot.generation + 1;
  actor->row.lived = false;
  actor->endpoint = slot.endpoint;
  if (actor->journalled()) write_row(*actor);
}

void ActorTable::constructed(const ActorConstructed& message) {
  Actor* actor = rows_.find(message.actor);
  if (actor == nullptr || actor->slot != message.slot || actor->state == ActorState::dead ||
      actor->state == ActorState::alive || actor->row.incarnation != message.generation + 1) {
    return;
  }
  if (message.error.is_error) {
    actor->construction_error = message.error;
    EndCause cause;
    cause.kind = EndKind::killed;
    cause.text = "its constructor threw";
    return die(*actor, cause);
  }
  actor->cause = {};
  actor->row.lived = true;
  if (actor->journalled() && !actor->spec().detached) write_row(*actor);
  actor->failed_starts = 0;
  tables_.counts.actor_starts.add(tables_.now - actor->waiting_since);
  become(*actor, ActorState::alive);
}

// Called for the loss of the executor or of the slot, for the first report of either.
void ActorTable::slot_gone(ActorId id, SlotId slot, const EndCause& cause) {
  Actor* actor = rows_.find(id);
  if (actor == nullptr || actor->slot != slot || actor->state == ActorState::dead) return;
  clear_slot(*actor);
  lose(*actor, cause);
  forget_oldest();
}

// Handles a command that ended while no head was running: the agent's report is the only
// information. Otherwise the command was lost and waits, or its slot is about to be reported.
void ActorTable::entry_ended(NodeId node, const EntryEnded& message) {
  Actor* actor = rows_.find(message.actor);
  if (actor == nullptr || actor->state == ActorState::dead || !actor->spec().entry.given()) return;
  if (!actor->slot.empty() || actor->waits || actor->not_before ||
      actor->row.incarnation > message.generation + 1)
    return;
  mark_ended_while_away.hit();
  actor->row.incarnation = message.generation + 1;
  actor->node = node;
  become(*actor, ActorState::alive);
  actor->node = {};
  lose(*actor, message.cause);
  forget_oldest();
}

void ActorTable::stop_entry(ActorId id, const std::string& why) {
  Actor* actor = rows_.find(id);
  if (actor == nullptr || actor->state == ActorState::dead) return;
  if (actor->slot.empty()) {
    die(*actor, killed(why));
    return forget_oldest();
  }
  actor->ending = true;
  tables_.slots.stop(actor->slot, true, why);
}

bool ActorTable::settle_order(Actor& actor, bool nobody_knows) {
  if (!actor.may_have_run()) return false;
  if (nobody_knows) {
    mark_unheard.hit();
    actor.row.incarnation = actor.row.order.attempt;
  } else {
    actor.row.order = {};
  }
  return nobody_knows;
}

void ActorTable::order_withdrawn(ActorId id) {
  Actor* actor = rows_.find(id);
  if (actor == nullptr || actor->state == ActorState::dead) return;
  settle_order(*actor, false);
  write_row(*actor);
}

void ActorTable::lose(Actor& actor, const EndCause& cause) {
  const bool done = cause.kind == EndKind::exited && cause.exit_code == 0;
  if (actor.spec().entry.given() && done && !actor.moving) return die(actor, cause);
  if (!actor.drained_why.empty()) {
    EndCause drained = cause;  // includes the exit code or signal
    drained.kind = EndKind::killed;
    drained.text = actor.drained_why;
    return die(actor, drained);
  }
  if (actor.ending || cause.kind == EndKind::intended) return die(actor, cause);
  const bool lived =
      settle_order(actor, cause.kind == EndKind::node_died) || actor.state == ActorState::alive;
  const bool innocent = cause.kind == EndKind::start_failed || cause.kind == EndKind::node_died;
  const bool moved = std::exchange(actor.moving, false);
  actor.cause = cause;
  if (!moved && (lived || !innocent)) {
    const std::int64_t allowed = actor.spec().max_restarts;
    if (allowed >= 0 && actor.row.restarts_used >= allowed) {
      mark_used_up.hit();
      return die(actor, cause);
    }
    mark_restart.hit();
    ++actor.row.restarts_used;
    if (actor.journalled()) write_row(actor);
  } else if (actor.spec().entry.given()) {
    write_row(actor);
  }
  become(actor, actor.row.incarnation == 0 ? ActorState::placing : ActorState::restarting);
  if (cause.kind == EndKind::out_of_memory) {
    mark_memory.hit();
    actor.not_before =
        tables_.now + doubled(tables_.options.memory_restart_backoff_initial, actor.memory_deaths++,
                              tables_.options.memory_restart_backoff_max);
  } else if (cause.kind == EndKind::start_failed && actor.failed_starts++ > 0) {
    mark_not_started.hit();
    actor.not_before =
        tables_.now + doubled(tables_.options.start_again_backoff_initial, actor.failed_starts - 2,
                              tables_.options.start_again_backoff_max);
  }
  place(actor);
}

// The silent agent ends exclusive actors `fence_timeout` after the last message from the head. The
// head sends it no messages from now on.
void ActorTable::node_died(NodeId node, bool silently) {
  if (!silently) return;
  for (const auto id : on_node(node)) {
    Actor& actor = rows_.at(id);
    if (!actor.spec().exclusive) continue;
    mark_exclusive.hit();
    actor.not_before =
        tables_.now + tables_.options.settings.fence_timeout + tables_.options.exclusive_margin;
  }
}

// ---- drained nodes -----------------------------------------------------------------------------

// An actor without remaining restarts also moves, because a drain is no failure.
void ActorTable::leave_node(NodeId node, const std::string& why) {
  const std::set<ActorId> ids = on_node(node);
  for (const auto id : ids) {
    Actor& actor = rows_.at(id);
    if (actor.spec().max_restarts == 0 || actor.ending || actor.moving) continue;
    mark_moved.hit();
    actor.moving = true;
    tables_.slots.stop(actor.slot, true, why);
  }
}

std::optional<Time> ActorTable::hasten_entries(NodeId node, Time deadline, const std::string& why) {
  std::optional<Time> next;
  const std::set<ActorId> ids = on_node(node);
  for (const auto id : ids) {
    Actor& actor = rows_.at(id);
    const EntryPoint& entry = actor.spec().entry;
    if (!entry.given() || actor.ending || actor.moving) continue;
    const Time due = deadline - entry.grace;
    if (due > tables_.now) {
      next = earlier(next, due);
      continue;
    }
    mark_hastened.hit();
    actor.ending = true;
    actor.drained_why = why;
    tables_.slots.stop(actor.slot, true, why);
  }
  return next;
}

std::size_t ActorTable::end_on_node(NodeId node, const std::string& why) {
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = why;
  const std::set<ActorId> ids = on_node(node);
  for (const auto id : ids) {
    Actor& actor = rows_.at(id);
    if (actor.moving) {
      tables_.slots.stop(actor.slot, false, why);
    } else {
      die(actor, cause);
    }
  }
  forget_oldest();
  return ids.size();
}

void ActorTable::die(Actor& actor, const EndCause& cause, bool refused, Manner manner) {
  const ActorId id = actor.spec().actor;
  if (std::exchange(actor.waits, false)) {
    tables_.scheduler.drop_actor_demand(id, actor.spec().demand);
  }
  const SlotId slot = clear_slot(actor);
  if (!slot.empty()) {
    tables_.slots.stop(slot, false, "the actor has ended: " + to_string(cause), {},
                       manner == Manner::orderly);
  }
  release_name(actor);
  if (actor.journalled()) tables_.journal.erase("actors", id.hex());
  actor.cause = cause;
  actor.refused = refused;
  actor.not_before.reset();
  entrusted_.erase(id);
  delayed_.erase(id);
  by_job_.remove(actor.spec().job, id);
  by_group_.remove(actor.spec().demand.request.placement.group, id);
  become(actor, ActorState::dead);
  for (const auto watcher : actor.watchers) {
    if (watcher != actor.spec().owner) unlink(watcher, id);
  }
  actor.watchers.clear();
  shrink(actor);
  dead_.push_back(id);
  if (actor.spec().detached) tables_.jobs.actor_ended(actor.spec().job);
}

// Dead actors are kept for lists and for late watchers. Neither needs the parts that start an
// executor.
void ActorTable::shrink(Actor& actor) {
  ActorRow& row = actor.row;
  row.spec.constructor = {};
  row.spec.demand.env.clear();
  row.program = {};
  row.job_env.clear();
  actor.cut_off.clear();
  if (actor.cause.text.size() > max_cause_bytes) actor.cause.text.resize(max_cause_bytes);
  actor.cause.text.shrink_to_fit();
}

// ---- after a head restart ----------------------------------------------------------------------

void ActorTable::restore(const ActorRow& row) {
  const Actor& actor = add(row, name_space_of(row.spec.job, row.spec.name_space));
  if (actor.may_have_run()) open_orders_[row.order.agent].insert(row.spec.actor);
}

void ActorTable::agent_stated(ProcessId agent, const Facts& facts) {
  const auto at = open_orders_.find(agent);
  if (at == open_orders_.end()) return;
  std::set<ActorId> open = std::move(at->second);
  open_orders_.erase(at);
  for (const SlotFact& fact : facts.slots) open.erase(fact.actor.actor);
  for (const EntryEnded& ended : facts.ended_entries) open.erase(ended.actor);
  if (facts.ended_entries.size() >= max_ended_entries) return;
  for (const auto id : open) {
    Actor* actor = rows_.find(id);
    if (actor == nullptr || actor->state == ActorState::dead || !actor->slot.empty()) continue;
    mark_order_unheard.hit();
    order_withdrawn(id);
  }
}

bool ActorTable::may_go_on(const SlotFact& fact) const {
  if (const Actor* actor = rows_.find(fact.actor.actor)) {
    return actor->state != ActorState::dead && actor->slot.empty() && !actor->waits &&
           !actor->not_before;
  }
  return !fact.actor.detached && tables_.jobs.works(fact.actor.job) &&
         !ended_early_.contains({fact.actor.job, fact.actor.actor});
}

void ActorTable::adopt(const SlotFact& fact, NodeId node) {
  mark_adopted.hit();
  Actor* actor = rows_.find(fact.actor.actor);
  if (actor == nullptr) {
    const Job& job = *tables_.jobs.find(fact.actor.job);
    const Job* const owner = tables_.jobs.job_with_program(fact.actor.demand);
    actor = &add(ActorRow{fact.actor, (owner == nullptr ? job : *owner).start.program,
                          job.start.env, fact.generation, 0},
                 name_space_of(fact.actor.job, fact.actor.name_space));
  }
  set_slot(*actor, fact.slot, node);
  // A command has no endpoint.
  actor->row.incarnation = fact.generation + (fact.endpoint.process.empty() && !fact.ready ? 0 : 1);
  actor->endpoint = fact.endpoint;
  // Recorded as if this head had sent the order.
  if (fact.actor.entry.given())
    actor->row.order = StartOrder{fact.generation + 1, node, actor->row.order.agent};
  actor->ending = fact.stopping || actor->row.leaving;
  if (actor->ending) pass_name_on(*actor);
  // The agent reports the end of the constructor next (ActorConstructed).
  actor->state = actor->row.incarnation > 1 ? ActorState::restarting : ActorState::starting;
}

// Actors end with owners that died while the head was away. The others are placed.
void ActorTable::recovery_ended() {
  for (const auto& [of, process] : std::exchange(ended_early_, {}))
    notify_unknown(of.second, process);
  open_orders_.clear();
  std::erase_if(entrusted_, [this](ActorId id) { return !rows_.contains(id); });
  for (auto& [id, actor] : rows_) {
    if (actor.state == ActorState::dead) continue;
    const bool detached = actor.spec().detached;
    if (!detached && !tables_.jobs.works(actor.spec().job)) {
      EndCause cause;
      cause.kind = EndKind::killed;
      cause.text = "its job has ended";
      die(actor, cause);
      continue;
    }
    const ProcessId owner = actor.spec().owner;
    // Only processes that have found the actor by name hold it.
    actor.unheld |=
        !detached && owner.empty() && !entrusted_.contains(id) && !actor.watchers.empty();
    if (!detached && !actor.unheld && !entrusted_.contains(id) &&
        tables_.processes.find(owner) == nullptr && !tables_.processes.expected(owner)) {
      EndCause cause;
      cause.kind = EndKind::killed;
      cause.text = "its owner did not return after the head was restarted";
      die(actor, cause);
      continue;
    }
    if (!actor.slot.empty()) continue;
    const bool unheard = settle_order(actor, true);
    const bool lost = actor.row.incarnation > 0 && actor.state == ActorState::placing;
    if (!lost || lost_while_away(actor, unheard)) place(actor);
  }
  forget_oldest();
}

// The loss of a detached actor cannot be distinguished from a reboot of the whole machine, so it
// uses up no restart, unless the actor is a command. The owner of another actor has survived.
bool ActorTable::lost_while_away(Actor& actor, bool unheard) {
  mark_lost_while_away.hit();
  if (actor.spec().entry.given() || (!actor.spec().detached && actor.row.lived)) {
    EndCause cause;
    cause.kind = EndKind::node_died;
    cause.text = unheard ? "it was being started when the head and its agent died, and may have run"
                         : "was lost while the head was away";
    const std::int64_t allowed = actor.spec().max_restarts;
    if (allowed >= 0 && actor.row.restarts_used >= allowed) {
      die(actor, cause);
      return false;
    }
    ++actor.row.restarts_used;
    actor.cause = cause;
    if (actor.journalled()) write_row(actor);
  }
  become(actor, ActorState::restarting);
  return true;
}

}  // namespace mobula::internal::head
