#include "head/core/actors/actor_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_actor_restated("head.actor_restated");
const CoverageMark mark_name_taken("head.actor_name_taken");
const CoverageMark mark_early_watch("head.actor_watched_before_created");
const CoverageMark mark_not_durable("head.actor_not_durable");
const CoverageMark mark_early_end("head.end_of_an_actor_not_known_yet");
const CoverageMark mark_found_meanwhile("head.actor_found_by_name_while_its_last_handle_went");
const CoverageMark mark_unheld_later("head.actor_ends_with_the_last_handle_that_was_found");
const CoverageMark mark_leaves("head.name_taken_from_an_actor_that_exits");
const CoverageMark mark_entrusted("head.actor_owned_by_its_job");
const CoverageMark mark_unheld("head.last_handle_of_an_entrusted_actor_released");

FindActorReply found_answer(const Actor& actor) {
  FindActorReply answer;
  answer.found = true;
  answer.actor = actor.spec().actor;
  answer.class_name = actor.spec().class_name;
  answer.class_key = FunctionKey{actor.spec().demand.program, actor.spec().class_offset};
  answer.owner_node = actor.owner_node;
  answer.owner = actor.spec().owner;
  answer.detached = actor.spec().detached;
  answer.max_task_retries = actor.spec().max_task_retries;
  answer.max_pending_calls = actor.spec().max_pending_calls;
  answer.out_of_order = actor.spec().out_of_order;
  return answer;
}

}  // namespace

// ---- rows and news -----------------------------------------------------------------------------

Actor& ActorTable::add(ActorRow row, std::string name_space) {
  Actor actor;
  actor.row = std::move(row);
  actor.name_space = std::move(name_space);
  actor.waiting_since = tables_.now;
  actor.owner_node = tables_.processes.node_of(actor.spec().owner);
  const ActorId id = actor.spec().actor;
  if (entrusted_.contains(id)) actor.row.spec.owner = ProcessId();
  actor.ending = actor.row.leaving;
  if (!actor.spec().name.empty() && !actor.row.leaving)
    names_[{actor.name_space, actor.spec().name}] = id;
  by_process_[actor.spec().owner].insert(id);
  by_job_.add(actor.spec().job, id);
  const GroupId group = actor.spec().demand.request.placement.group;
  if (!group.empty()) by_group_.add(group, id);
  if (orphans_.erase(id)) {
    actor.watchers = orphan_watchers_.take(id);
    for (const auto watcher : actor.watchers) {
      by_process_[watcher].insert(id);
      orphans_of_.remove(watcher, id);
    }
  }
  return *rows_.insert(id, std::move(actor)).first;
}

std::string ActorTable::name_space_of(JobId job, const std::string& stated) const {
  if (!stated.empty()) return stated;
  const Job* row = tables_.jobs.find(job);
  return row != nullptr ? row->name_space : "job-" + job.hex();
}

void ActorTable::write_row(const Actor& actor, bool gated) {
  tables_.journal.put("actors", actor.spec().actor.hex(), encode(actor.row), gated);
}

void ActorTable::become(Actor& actor, ActorState state) {
  actor.state = state;
  ++actor.version;
  if (actor.spec().entry.given()) {
    tables_.submissions.changed(actor);
  } else {
    note(actor);
  }
  notify(actor, actor.spec().owner);
  for (const auto watcher : actor.watchers) {
    if (watcher != actor.spec().owner) notify(actor, watcher);
  }
}

// Planned ends, on request or with the owner or job, have the kind `killed` or `retired`.
void ActorTable::note(const Actor& actor) const {
  const ActorSpec& spec = actor.spec();
  const EventSubjects about{
      .node = actor.node, .job = spec.job, .actor = spec.actor, .slot = actor.slot};
  const std::string name =
      spec.name.empty() ? spec.class_name : fmt::format("{} '{}'", spec.class_name, spec.name);
  const bool is_planned =
      actor.cause.kind == EndKind::killed || actor.cause.kind == EndKind::intended ||
      actor.cause.kind == EndKind::retired || actor.cause.kind == EndKind::group_removed;
  switch (actor.state) {
    case ActorState::placing:
      return tables_.events.note(Severity::debug, "ACTOR_CREATED", about,
                                 name + " waits for placement");
    case ActorState::starting: return;
    case ActorState::alive:
      return tables_.events.note(
          Severity::info, "ACTOR_ALIVE", about,
          fmt::format("{} is alive{}", name,
                      actor.row.incarnation > 1
                          ? fmt::format(", incarnation {}", actor.row.incarnation)
                          : std::string()));
    case ActorState::restarting:
      return tables_.events.note(
          Severity::warning, "ACTOR_RESTARTING", about,
          fmt::format("{} {}; restart {}", name, to_string(actor.cause), actor.row.restarts_used));
    case ActorState::dead:
      return tables_.events.note(
          is_planned && !actor.refused && !actor.construction_error.is_error ? Severity::info
                                                                             : Severity::error,
          "ACTOR_DIED", about, fmt::format("{} {}", name, to_string(actor.cause)));
  }
}

void ActorTable::notify(const Actor& actor, ProcessId process) const {
  ActorChanged news;
  news.actor = actor.spec().actor;
  news.version = actor.version;
  news.state = actor.state;
  news.incarnation = actor.row.incarnation;
  if (actor.state == ActorState::alive) news.endpoint = actor.endpoint;
  news.cause = actor.cause;
  news.refused = actor.refused;
  news.construction_error = actor.construction_error;
  news.max_task_retries = actor.spec().max_task_retries;
  news.max_pending_calls = actor.spec().max_pending_calls;
  news.out_of_order = actor.spec().out_of_order;
  tables_.processes.send(process, std::move(news));
}

void ActorTable::notify_unknown(ActorId id, ProcessId process) const {
  ActorChanged news;
  news.actor = id;
  news.version = 1;
  news.state = ActorState::dead;
  news.cause = killed("the head does not know this actor: it was never created, or ended long ago");
  tables_.processes.send(process, std::move(news));
}

void ActorTable::forget_oldest() {
  while (dead_.size() > tables_.options.max_ended_kept) {
    unlink(rows_.at(dead_.front()).spec().owner, dead_.front());
    rows_.erase(dead_.front());
    dead_.pop_front();
  }
}

void ActorTable::unlink(ProcessId process, ActorId id) {
  const auto at = by_process_.find(process);
  if (at == by_process_.end()) return;
  at->second.erase(id);
  if (at->second.empty()) by_process_.erase(at);
}

// ---- creation ----------------------------------------------------------------------------------

void ActorTable::create(const CreateActor& message) {
  const ActorSpec& spec = message.spec;
  if (Actor* actor = rows_.find(spec.actor)) {
    mark_actor_restated.hit();
    if (actor->spec().owner != spec.owner) return;
    actor->fail_if_infeasible = message.fail_if_infeasible;
    actor->owner_node = tables_.processes.node_of(spec.owner);
    if (actor->durable) notify(*actor, spec.owner);
    return;
  }
  const std::string name_space = name_space_of(spec.job, spec.name_space);
  if (refuse_create(message, name_space)) return;
  const Job& job = *tables_.jobs.find(spec.job);
  const Job* const owner = tables_.jobs.job_with_program(spec.demand);
  ActorRow row{spec, (owner == nullptr ? job : *owner).start.program, job.start.env, 0, 0};
  row.spec.name_space = name_space;  // required by a detached actor after its job row is removed
  row.spec.entry = {};               // only tools submit commands
  row.incarnation = message.lived;
  row.lived = message.lived > 0;
  Actor& actor = add(std::move(row), name_space);
  actor.fail_if_infeasible = message.fail_if_infeasible;
  if (!actor.journalled()) {
    // During recovery, the node of an actor that has lived may still register.
    if (actor.row.lived && !tables_.nodes.recovering()) {
      if (!lost_while_away(actor, false)) return;
    } else {
      become(actor, ActorState::placing);
    }
    return place(actor);
  }
  actor.durable = false;
  write_row(actor, true);
  tables_.journal.wait(ActorGate{spec.actor});
}

void ActorTable::submit(const ActorSpec& spec) {
  ActorRow row{spec, {}, {}, 0, 0};
  row.spec.name_space = name_space_of(spec.job, {});
  const std::string name_space = row.spec.name_space;
  Actor& actor = add(std::move(row), name_space);
  actor.durable = false;
  write_row(actor, true);
  tables_.journal.wait(ActorGate{spec.actor});
  place(actor);
}

bool ActorTable::refuse_create(const CreateActor& message, const std::string& name_space) {
  const ActorSpec& spec = message.spec;
  if (spec.actor.empty()) {
    refuse(spec, "an actor needs an id");
    return true;
  }
  if (!spec.name.empty()) {
    const auto at = names_.find({name_space, spec.name});
    if (at != names_.end()) {
      mark_name_taken.hit();
      const Actor& holder = rows_.at(at->second);
      if (spec.get_if_exists) {
        FindActorReply answer = found_answer(holder);
        answer.wanted = spec.actor;
        remember_finder(spec.owner, holder.spec().actor);
        tables_.processes.send(spec.owner, std::move(answer));
      } else {
        refuse(spec, fmt::format("the name '{}' in the name space '{}' is taken by actor {} ({}); "
                                 "choose another, or set get_if_exists",
                                 spec.name, name_space, holder.spec().actor.hex(),
                                 holder.spec().class_name));
      }
      return true;
    }
  }
  if (rows_.size() - dead_.size() < tables_.options.max_actors) return false;
  refuse(spec, fmt::format("the cluster is at its limit of {} actors", tables_.options.max_actors));
  return true;
}

// Rejects only the request: no row is created, and only the owner is notified.
void ActorTable::refuse(const ActorSpec& spec, const std::string& why) {
  ActorChanged news;
  news.actor = spec.actor;
  news.version = 1;
  news.state = ActorState::dead;
  news.cause = killed(why);
  news.refused = true;
  tables_.processes.send(spec.owner, std::move(news));
}

void ActorTable::durable(ActorId id) {
  Actor* actor = rows_.find(id);
  if (actor == nullptr || actor->durable) return;
  actor->durable = true;
  if (actor->state == ActorState::dead) return;
  // A command may already have a slot.
  if (actor->slot.empty()) become(*actor, ActorState::placing);
  place(*actor);
}

void ActorTable::not_durable(ActorId id, const std::string& why) {
  Actor* actor = rows_.find(id);
  if (actor == nullptr || actor->durable || actor->state == ActorState::dead) return;
  mark_not_durable.hit();
  die(*actor, killed("the actor cannot be made durable: " + why), true);
}

// ---- names and watchers ------------------------------------------------------------------------

void ActorTable::watch(ProcessId process, JobId requesting_job, const WatchActor& message) {
  if (!message.unreachable.empty()) unreachable(process, requesting_job, message);
  if (Actor* actor = rows_.find(message.actor)) {
    if (!message.unreachable.empty() && actor->spec().owner == process)
      return notify(*actor, process);
    if (!message.on) {
      actor->watchers.erase(process);
      if (actor->spec().owner != process) unlink(process, message.actor);
      return end_if_unheld(*actor);
    }
    if (actor->state != ActorState::dead) {
      actor->watchers.insert(process);
      by_process_[process].insert(message.actor);
    }
    return notify(*actor, process);
  }
  const bool is_known = orphans_.contains(message.actor);
  if (!message.on) {
    orphan_watchers_.remove(message.actor, process);
    orphans_of_.remove(process, message.actor);
    return;
  }
  if (!is_known && orphans_.size() >= tables_.options.max_actors) {
    return notify_unknown(message.actor, process);
  }
  mark_early_watch.hit();
  if (orphan_watchers_.of(message.actor).empty())
    orphans_.set(message.actor, tables_.now + tables_.options.orphan_watch);
  orphan_watchers_.add(message.actor, process);
  orphans_of_.add(process, message.actor);
}

// A process that has found an actor holds a handle of it, and the actor does not end before its
// release. The same holds for the owner after it has released its last handle.
void ActorTable::remember_finder(ProcessId process, ActorId id) {
  Actor& actor = rows_.at(id);
  if (actor.spec().detached || (actor.spec().owner == process && !actor.unheld)) return;
  actor.watchers.insert(process);
  by_process_[process].insert(id);
}

void ActorTable::end_if_unheld(Actor& actor) {
  if (!actor.unheld || !actor.watchers.empty() || actor.state == ActorState::dead) return;
  mark_unheld_later.hit();
  finish(actor, "its last handle was released");
}

void ActorTable::find_by_name(ProcessId process, JobId job, const FindActor& message) {
  FindActorReply answer;
  answer.request = message.request;
  if (!message.leaving.empty()) {
    leaves(process, message.leaving);
    return tables_.processes.send(process, std::move(answer));
  }
  const auto at = names_.find({name_space_of(job, message.name_space), message.name});
  if (at != names_.end()) answer = found_answer(rows_.at(at->second));
  if (at != names_.end()) remember_finder(process, at->second);
  answer.request = message.request;
  tables_.processes.send(process, std::move(answer));
}

// The executor awaits the reply before callers can see that the actor exits, so no process can find
// the actor after that. The row is kept for the next head, which would otherwise restore the name.
void ActorTable::leaves(ProcessId executor, ActorId id) {
  Actor* actor = rows_.find(id);
  if (actor == nullptr || actor->state == ActorState::dead || actor->endpoint.process != executor ||
      std::exchange(actor->row.leaving, true))
    return;
  mark_leaves.hit();
  actor->ending = true;
  release_name(*actor);
  if (actor->journalled()) write_row(*actor);
}

void ActorTable::process_ended(ProcessId process, const EndCause& cause) {
  for (const auto id : orphans_of_.take(process)) orphan_watchers_.remove(id, process);
  const auto at = by_process_.find(process);
  if (at == by_process_.end()) return;
  const std::string why = "its owner " + to_string(cause);
  for (const auto id : std::set<ActorId>(at->second)) {
    Actor& actor = rows_.at(id);
    actor.watchers.erase(process);
    const bool owned = actor.spec().owner == process && !actor.spec().detached;
    // Processes that have found the actor hold it: its owner released its last handle before.
    if (owned && actor.unheld && !actor.watchers.empty()) {
      entrust(actor);
      continue;
    }
    // An actor with a requested end finishes its calls first.
    if (owned && actor.state != ActorState::dead && !actor.ending) {
      die(actor, killed(why));
    } else {
      end_if_unheld(actor);
    }
  }
  by_process_.erase(process);
  forget_oldest();
}

void ActorTable::entrust(Actor& actor) {
  if (actor.spec().owner.empty() || actor.spec().detached) return;
  mark_entrusted.hit();
  const ProcessId owner = std::exchange(actor.row.spec.owner, ProcessId());
  if (!actor.watchers.contains(owner)) unlink(owner, actor.spec().actor);
  if (actor.journalled()) write_row(actor);
}

void ActorTable::end_unheld(const EntrustedActor& fact) {
  entrusted_.erase(fact.actor);
  Actor* actor = rows_.find(fact.actor);
  if (actor == nullptr) {
    if (tables_.nodes.recovering()) ended_early_[{fact.job, fact.actor}] = ProcessId();
    return;
  }
  if (actor->state == ActorState::dead || !actor->spec().owner.empty()) return;
  mark_unheld.hit();
  end(ProcessId(), fact.job, EndActor{fact.actor, false, true, "its last handle was released"});
}

void ActorTable::entrusted(const std::vector<EntrustedActor>& actors) {
  for (const EntrustedActor& fact : actors) {
    Actor* actor = rows_.find(fact.actor);
    const bool lives =
        actor != nullptr ? actor->state != ActorState::dead : tables_.nodes.recovering();
    if (lives) entrusted_.insert(fact.actor);
    if (lives && actor != nullptr) entrust(*actor);
    if (!fact.held) end_unheld(fact);
  }
}

bool ActorTable::survives(const Actor& actor, const std::set<ProcessId>& processes) {
  if (!actor.spec().owner.empty()) return processes.contains(actor.spec().owner);
  return std::ranges::any_of(actor.watchers,
                             [&](ProcessId each) { return processes.contains(each); });
}

void ActorTable::job_ended(JobId job, const Survivors& survivors) {
  std::set<ActorId> ending;
  for (const auto id : by_job_.of(job)) {
    const Actor& actor = rows_.at(id);
    if (!actor.spec().detached && !survives(actor, survivors.processes)) ending.insert(id);
  }
  end_all_of(ending, killed("its job has ended"));
}

void ActorTable::end_all_of(const std::set<ActorId>& actors, const EndCause& cause) {
  for (const auto id : actors) {
    Actor& actor = rows_.at(id);
    if (actor.state != ActorState::dead) die(actor, cause);
  }
  forget_oldest();
}

bool ActorTable::has_detached(JobId job) const {
  return std::ranges::any_of(by_job_.of(job),
                             [this](ActorId id) { return rows_.at(id).spec().detached; });
}

void ActorTable::group_removed(GroupId group, const std::string& why) {
  EndCause cause;
  cause.kind = EndKind::group_removed;
  cause.text = why;
  end_all_of(by_group_.take(group), cause);
}

void ActorTable::end_all(const std::string& why) {
  for (auto& [id, actor] : rows_) {
    if (actor.state != ActorState::dead) die(actor, killed(why));
  }
  forget_oldest();
}

// During recovery, the node of an unknown actor may still register.
void ActorTable::end(ProcessId process, JobId requesting_job, const EndActor& message) {
  Actor* actor = rows_.find(message.actor);
  if (actor == nullptr) {
    if (!tables_.nodes.recovering()) return notify_unknown(message.actor, process);
    mark_early_end.hit();
    if (ended_early_.size() < tables_.options.max_actors)
      ended_early_[{requesting_job, message.actor}] = process;
    return;
  }
  if (actor->state == ActorState::dead) return notify(*actor, process);
  const ActorSpec& spec = actor->spec();
  if (spec.job != requesting_job && spec.name.empty() && !spec.detached) return;
  const std::string why = message.why.empty() ? "ended on request" : message.why;
  if (message.kill && !message.no_restart) {
    // The loss of the executor is then handled as any other loss.
    if (!actor->slot.empty()) tables_.slots.stop(actor->slot, false, why);
    return;
  }
  if (!message.kill && !actor->watchers.empty() && !spec.name.empty()) {
    mark_found_meanwhile.hit();
    actor->unheld = true;
    return;
  }
  if (message.kill || actor->slot.empty()) {
    const bool hears = spec.owner == process || actor->watchers.contains(process);
    die(*actor, killed(why), false, message.kill ? Manner::abrupt : Manner::orderly);
    if (!hears) notify(*actor, process);
    return;
  }
  finish(*actor, why);
}

// Ends the actor after its running calls. It can no longer be found by name.
void ActorTable::finish(Actor& actor, const std::string& why) {
  if (actor.slot.empty()) return die(actor, killed(why));
  if (std::exchange(actor.ending, true)) return;
  release_name(actor);
  tables_.slots.stop(actor.slot, true, why);
}

// For a restart of the head: another actor may have taken the name of an ending one.
void ActorTable::pass_name_on(const Actor& ending) {
  if (ending.spec().name.empty()) return;
  release_name(ending);
  for (const auto& [id, other] : rows_) {
    const bool same =
        other.spec().name == ending.spec().name && other.name_space == ending.name_space;
    if (same && !other.ending && other.state != ActorState::dead)
      names_[{other.name_space, other.spec().name}] = id;
  }
}

bool ActorTable::has_name(const Actor& actor) const {
  const auto at = names_.find({actor.name_space, actor.spec().name});
  return at != names_.end() && at->second == actor.spec().actor;
}

void ActorTable::release_name(const Actor& actor) {
  const auto at = names_.find({actor.name_space, actor.spec().name});
  if (at != names_.end() && at->second == actor.spec().actor) names_.erase(at);
}

void ActorTable::tick() {
  for (const auto id : delayed_.take_due(tables_.now)) {
    Actor* actor = rows_.find(id);
    if (actor == nullptr || !actor->not_before) continue;
    if (*actor->not_before <= tables_.now) actor->not_before.reset();
    place(*actor);
  }
  if (tables_.nodes.recovering()) return;
  for (const auto id : orphans_.take_due(tables_.now)) {
    for (const auto watcher : orphan_watchers_.take(id)) {
      orphans_of_.remove(watcher, id);
      notify_unknown(id, watcher);
    }
  }
}

std::optional<Time> ActorTable::next_deadline() const {
  if (tables_.nodes.recovering()) return delayed_.earliest();
  return earlier(delayed_.earliest(), orphans_.earliest());
}

}  // namespace mobula::internal::head
