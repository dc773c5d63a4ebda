#include "worker/core/worker_core.h"

#include <fmt/format.h>

#include "worker/core/parts.h"

namespace mobula::internal::worker {

WorkerCore::WorkerCore(WorkerOptions options) : parts_(std::make_unique<Parts>(options)) {}
WorkerCore::~WorkerCore() = default;
WorkerCore::WorkerCore(WorkerCore&&) noexcept = default;
WorkerCore& WorkerCore::operator=(WorkerCore&&) noexcept = default;

WorkerCore::Parts::Parts(WorkerOptions given)
    : options(given),
      head(outbox, options,
           {[this] { return facts(); }, [this] { return slots.digest(); },
            [this] { return transfers.counts(); }, [this] { return peers.silent(); }}),
      processes(outbox, options),
      peers(outbox, options),
      transfers(outbox, options, peers),
      programs(outbox, transfers),
      slots(outbox, options, head, processes, programs,
            {[this](ProcessId process, const Principal& principal) {
               process_began(process, principal);
             },
             [this](ProcessId process, const EndCause& cause) { process_gone(process, cause); }}) {}

void WorkerCore::step(Time now, Event event, std::vector<Command>& out) {
  Parts& parts = *parts_;
  const bool first = std::holds_alternative<Started>(event);
  MOBULA_CHECK(first == (parts.phase == Parts::Phase::created), "Started is the first event, once");
  if (parts.phase == Parts::Phase::ended) return;
  parts.outbox.open(now, out);
  std::visit([&](auto& each) { parts.on(each); }, event);
  if (parts.phase != Parts::Phase::ended) parts.finish_step();
  parts.visited = parts.processes.settle() + parts.slots.settle() + parts.peers.settle();
  parts.outbox.close();
}

std::optional<Time> WorkerCore::next_deadline() const {
  return parts_->phase == Parts::Phase::running || parts_->phase == Parts::Phase::stopping
             ? parts_->next_deadline()
             : std::nullopt;
}

namespace {

constexpr Duration others_notified_timeout = 1s;
constexpr Duration search_interval = 20ms;
constexpr const char* why_stopping = "the agent of its node is being stopped";

}  // namespace

// ---- views --------------------------------------------------------------------------------------

std::size_t WorkerCore::visited_rows() const { return parts_->visited; }
bool WorkerCore::deadlines_are_exact() const {
  return parts_->processes.deadlines_are_exact() && parts_->slots.deadlines_are_exact() &&
         parts_->peers.deadlines_are_exact();
}
bool WorkerCore::registered() const { return parts_->head.registered(); }
std::uint64_t WorkerCore::head_epoch() const { return parts_->head.epoch(); }
Facts WorkerCore::facts() const { return parts_->facts(); }
std::vector<std::string> WorkerCore::running() const { return parts_->slots.running(); }

Census WorkerCore::census() const {
  Census census;
  census.slots = parts_->slots.size();
  census.links = parts_->processes.rows().size();
  census.processes = parts_->processes.attached_count();
  census.programs = parts_->programs.size();
  census.pulls = parts_->transfers.pulls();
  census.offers = parts_->transfers.offers();
  census.peers = parts_->peers.size();
  if (!parts_->objects) return census;
  census.objects = parts_->objects->table().objects().size();
  census.entries = parts_->objects->entries();
  census.pins = parts_->objects->pins();
  census.slabs = parts_->objects->table().space().slab_count();
  census.spill_files = parts_->objects->spill_files().files();
  census.moving = parts_->objects->moving();
  return census;
}

std::vector<std::pair<ObjectId, ProcessId>> WorkerCore::awaited_without_bytes() const {
  return parts_->objects ? parts_->objects->awaited_without_bytes()
                         : std::vector<std::pair<ObjectId, ProcessId>>();
}

bool WorkerCore::in_place(ProcessId process, ObjectId object) const {
  return parts_->objects && parts_->objects->in_place(process, object);
}

const ObjectTable& WorkerCore::objects() const {
  MOBULA_CHECK(parts_->objects.has_value(), "objects before Started");
  return parts_->objects->table();
}

// ---- life of the agent --------------------------------------------------------------------------

void WorkerCore::Parts::on(Started& event) {
  phase = Phase::running;
  event.address.takes_readers = true;
  peers.start(event.address);
  programs.start(event.address.node);
  objects.emplace(Objects::Parts{outbox, head, processes, peers, transfers}, options, event);
  head.start(std::move(event));
}

void WorkerCore::Parts::on(Stop& event) {
  if (phase != Phase::running) return;
  phase = Phase::stopping;
  const Duration timeout = event.drain ? options.drain_timeout : options.end_timeout;
  if (event.drain && timeout > Duration(0) && head.reachable()) {
    // Tasks finish and actors move on commands of the head, which knows the free capacity.
    slots.close(why_stopping);
    drain_until = outbox.now() + timeout;
    if (head.node().role == Role::agent) {
      others_notified_by = outbox.now() + others_notified_timeout;
      objects->drains(head.node().address.node, true);
    }
    head.tell(AgentDraining{timeout});
    return;
  }
  slots.end_all(event.drain, why_stopping, outbox.now() + timeout);
}

void WorkerCore::Parts::end_drain_if_due() {
  if (!drain_until || slots.empty()) return;
  if (*drain_until <= outbox.now()) {
    drain_until.reset();
    slots.end_all(false, "the agent of its node was stopped, and the time to drain it has passed",
                  outbox.now() + options.end_timeout);
  } else if (!head.reachable()) {
    slots.end_all(true, why_stopping, *std::exchange(drain_until, std::nullopt));
  }
}

// True while other nodes still copy objects off this node, until the deadline.
bool WorkerCore::Parts::gives_time_to_others() {
  const Time now = outbox.now();
  others_copy = others_copy && !farewell_by;
  if (farewell_by || !drain_until || *drain_until <= now || !head.reachable()) return false;
  if (others_notified_by && *others_notified_by <= now)
    return false;  // the head requests no copies
  if (search_others_at <= now) {
    others_copy = objects->left_to_others().objects > 0;
    search_others_at = now + search_interval;
  }
  return others_copy;
}

// All slots have ended, and the head has acknowledged it or had the time to.
void WorkerCore::Parts::end_if_stopped() {
  if (phase != Phase::stopping) return;
  end_drain_if_due();
  if (!slots.empty() || gives_time_to_others()) return;
  if (!farewell_by) farewell_by = outbox.now() + options.farewell_timeout;
  if (*farewell_by > outbox.now() && has_last_words()) return;
  if (head.registered() && !head.drained() && *farewell_by > outbox.now()) return;
  head.farewell();
  outbox.emit(Exit{0, "stopped"});
  phase = Phase::ended;
}

void WorkerCore::Parts::on(Paused& event) {
  head.shift_deadlines(event.gap);
  peers.shift_deadlines(event.gap);
  if (objects) objects->shift_deadlines(event.gap);
}

void WorkerCore::Parts::on(Tick&) {
  head.tick();
  if (const auto at = fence_at(); at && *at <= outbox.now()) {
    slots.fence_exclusive("the head was out of reach for too long, and the actor is exclusive");
  }
  processes.tick();
  slots.tick();
  programs.tick();
  transfers.tick();
  for (const NodeId node : peers.tick()) node_died(node);
  objects->tick();
}

void WorkerCore::Parts::on(MemorySampled& event) {
  std::uint64_t stored = 0;
  for (const auto& [job, use] : objects->table().jobs()) stored += use.used_bytes;
  slots.sampled(event, static_cast<std::int64_t>(stored));
}

std::optional<Time> WorkerCore::Parts::fence_at() const {
  if (!head.last_received_at() || !slots.has_exclusive()) return std::nullopt;
  return *head.last_received_at() + head.settings().fence_timeout;
}

std::optional<Time> WorkerCore::Parts::next_deadline() const {
  std::optional<Time> first = head.next_deadline();
  take_earlier(first, fence_at());
  take_earlier(first, processes.next_deadline());
  take_earlier(first, slots.next_deadline());
  take_earlier(first, programs.next_deadline());
  take_earlier(first, transfers.next_deadline());
  take_earlier(first, peers.next_deadline());
  take_earlier(first, objects->next_deadline());
  take_earlier(first, farewell_by);
  if (!slots.empty() || others_copy) take_earlier(first, drain_until);
  if (others_copy) {
    take_earlier(first, search_others_at);
    take_earlier(first, others_notified_by);
  }
  return first;
}

void WorkerCore::Parts::finish_step() {
  for (bool more = true; more;) {
    more = false;
    objects->save_some();
    for (const transfer::BeginPull& begin : transfers.take_begun()) {
      more = true;
      objects->pull_begins(begin);
    }
    for (const transfer::PullDone& done : transfers.take_done()) {
      more = true;
      if (!done.key.object.empty()) {
        const ObjectRow* row = objects->table().find(done.key.object);
        transfers.remember(done, row == nullptr ? JobId{} : row->job);
        objects->pulled(done);
        continue;
      }
      for (const auto& outcome : programs.pulled(done)) slots.program_came(outcome);
    }
    for (const ObjectId object : transfers.take_unread()) {
      more = true;
      objects->offer_over(object);
    }
    objects->finish_step();
  }
  report_head_status();
  end_if_stopped();
}

Facts WorkerCore::Parts::facts() const {
  Facts facts;
  facts.slots = slots.facts();
  if (objects) facts.entrusted = objects->entrusted();
  facts.processes = processes.facts();
  facts.ended_entries.assign(slots.ended_entries().begin(), slots.ended_entries().end());
  std::set<JobId> jobs = slots.jobs();
  if (objects) jobs.merge(objects->jobs());
  for (const ProcessFact& process : facts.processes) jobs.insert(process.principal.job);
  for (const JobId job : programs.kept_jobs()) jobs.insert(job);
  facts.jobs.assign(jobs.begin(), jobs.end());
  return facts;
}

}  // namespace mobula::internal::worker
