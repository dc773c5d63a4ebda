#include "head/core/head_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "protocol/tickets/verbs.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_persist_failed("head.persist_failed");
const CoverageMark mark_clock_moved("head.wall_clock_moved");
const CoverageMark mark_bad_row("head.journal_row_cannot_be_read");

// A larger change of the wall clock is more than a correction. Other processes judge tickets by the
// clock.
constexpr std::int64_t clock_jump_ms = 60'000;

template <class Row, class Take>
void restore_rows(const Started& event, const std::string& table, Take&& take) {
  for (const auto& row : event.rows) {
    if (row.table != table) continue;
    const auto decoded = decode<Row>(row.value);
    if (decoded) {
      take(*decoded);
    } else {
      mark_bad_row.hit();
    }
  }
}

// Replies to queries, and counts of calls, change no state that a list shows.
bool is_answer(const AgentMessage& message) {
  if (const auto* process = std::get_if<FromProcess>(&message)) {
    const ProcessToHead& said = process->message;
    return std::holds_alternative<TasksReply>(said) ||
           std::holds_alternative<TransfersReply>(said) ||
           std::holds_alternative<SpansReply>(said) || std::holds_alternative<ReadState>(said) ||
           std::holds_alternative<ClassUse>(said);
  }
  return std::holds_alternative<ObjectsReply>(message) ||
         std::holds_alternative<ReadJobLogReply>(message) ||
         std::holds_alternative<LogsReply>(message) ||
         std::holds_alternative<ReadLogReply>(message) ||
         std::holds_alternative<UsageReply>(message) ||
         std::holds_alternative<TransfersReply>(message) ||
         std::holds_alternative<SpansReply>(message);
}

// Whether lists and status are unchanged after the event, except for the event log.
bool tells_nothing(const Event& event) {
  if (std::holds_alternative<Tick>(event)) return true;
  if (const auto* asked = std::get_if<ReceivedFromTool>(&event)) {
    const VerbRow* row = verb_row(asked->request.verb);
    return row == nullptr || !row->changes;
  }
  const auto* said = std::get_if<ReceivedFromAgent>(&event);
  const auto* frame = said == nullptr ? nullptr : std::get_if<AgentFrame>(&said->message);
  return frame != nullptr && (!frame->frame.message || is_answer(*frame->frame.message));
}

// Dispatches one input to the tables.
struct Dispatch {
  HeadTables& parts;

  void operator()(const Started& event) const {
    parts.epoch_id = event.epoch_id;
    parts.started_at = parts.now;
    parts.wall_at_start_ms = event.wall_ms;
    restore_rows<EpochRow>(event, "meta", [&](const EpochRow& row) { parts.epoch = row.epoch; });
    restore_rows<NodeRow>(event, "nodes", [&](const NodeRow& row) { parts.nodes.restore(row); });
    restore_rows<JobRow>(event, "jobs", [&](const JobRow& row) { parts.jobs.restore(row); });
    restore_rows<ActorRow>(event, "actors",
                           [&](const ActorRow& row) { parts.actors.restore(row); });
    restore_rows<GroupRow>(event, "groups",
                           [&](const GroupRow& row) { parts.groups.restore(row); });
    restore_rows<SubmissionRow>(event, "submissions",
                                [&](const SubmissionRow& row) { parts.submissions.restore(row); });
    restore_rows<EventRow>(event, "events",
                           [&](const EventRow& row) { parts.events.restore(row); });
    restore_rows<TokenRow>(event, "tokens",
                           [&](const TokenRow& row) { parts.tokens.restore(row); });
    ++parts.epoch;
    parts.events.begin();
    if (!parts.options.http_url.empty()) parts.history.begin();
    write_epoch();
  }
  void operator()(ReceivedFromAgent& event) const { parts.nodes.on(std::move(event)); }
  void operator()(const AgentLinkLost& event) const { parts.nodes.link_lost(event.link); }
  void operator()(const NodeProbed& event) const { parts.nodes.probed(event); }
  void operator()(const ReceivedFromTool& event) const { parts.reader.on(event); }
  void operator()(const Persisted& event) const {
    for (const auto& gate : parts.journal.persisted(event.upto)) std::visit(Passed{parts}, gate);
  }
  void operator()(const PersistFailed& event) const {
    mark_persist_failed.hit();
    parts.events.note(Severity::error, "JOURNAL_WRITE_FAILED", {}, event.text);
    for (const auto& gate : parts.journal.failed(parts.now, event)) {
      std::visit(Refusal{parts, *this, event.text}, gate);
    }
  }
  void operator()(const Paused& event) const { parts.nodes.shift(event.gap); }
  void operator()(const Tick&) const {
    if (parts.epoch_due && *parts.epoch_due <= parts.now) write_epoch();
    parts.nodes.tick();
    parts.slots.tick();
    parts.links.tick();
    parts.actors.tick();
    parts.groups.tick();
    parts.processes.tick();
    parts.objects.tick();
    parts.tasks.tick();
    parts.transfers.tick();
    parts.spans.tick();
    parts.job_logs.tick();
    parts.tokens.tick();
    parts.node_questions.tick();
    parts.history.tick();
    parts.samples.tick();
    parts.polls.tick();
  }

  void operator()(const ClockMoved& event) const {
    mark_clock_moved.hit();
    const std::int64_t moved_ms = event.wall_ms - wall_ms(parts, parts.now);
    parts.wall_at_start_ms =
        event.wall_ms - (parts.now - parts.started_at) / std::chrono::milliseconds(1);
    parts.tokens.tick();  // a token may have expired
    if (std::abs(moved_ms) > clock_jump_ms) parts.nodes.renew_tickets();
  }

  void operator()(const Noticed& event) const {
    const Principal who{Role::unproven, event.principal, {}};
    const Speaker speaker(parts, who);
    parts.events.note(Severity::warning, event.kind, {}, event.text);
  }

  void write_epoch() const {
    parts.epoch_due.reset();
    parts.journal.put("meta", "epoch", encode(EpochRow{std::max(parts.epoch, parts.raised_epoch)}));
    parts.journal.wait(EpochGate{});
  }

  struct Passed {
    HeadTables& parts;
    void operator()(const EpochGate&) const {
      if (parts.serving) return parts.nodes.take_raised_epoch();
      parts.serving = true;
      parts.nodes.serve();
    }
    void operator()(const JobGate& gate) const { parts.jobs.durable(gate.job); }
    void operator()(const ActorGate& gate) const { parts.actors.durable(gate.actor); }
    void operator()(const OrderGate& gate) const { parts.slots.order_durable(gate.slot); }
    void operator()(const GroupGate& gate) const { parts.groups.durable(gate.group, gate.placed); }
    void operator()(const ReplyGate& gate) const {
      parts.commands.push_back(ReplyToTool{gate.link, gate.reply});
    }
  };

  struct Refusal {
    HeadTables& parts;
    const Dispatch& dispatch;
    const std::string& text;
    // Undoes the effect of the request, so that no client uses state that a restart of the head
    // would lose.
    std::string what_became_of(const ReplyGate& gate) const {
      if (gate.verb == "submit")
        return "submit: the job cannot be made durable, and so does not run: ";
      if (gate.token.empty())
        return fmt::format("{}: it was done, but cannot be made durable yet: ", gate.verb);
      parts.tokens.undo(gate.token);
      return "token create: the token cannot be made durable, and so was not made: ";
    }
    void operator()(const EpochGate&) const {
      parts.epoch_due = parts.now + parts.options.persist_again;
    }
    void operator()(const JobGate& gate) const { parts.jobs.not_durable(gate.job, text); }
    void operator()(const ActorGate& gate) const { parts.actors.not_durable(gate.actor, text); }
    void operator()(const OrderGate& gate) const { parts.slots.order_not_durable(gate.slot, text); }
    void operator()(const GroupGate& gate) const {
      parts.groups.not_durable(gate.group, gate.placed, text);
    }
    void operator()(const ReplyGate& gate) const {
      ToolReply reply;
      reply.request = gate.reply.request;
      reply.ok = false;
      reply.code = ErrorCode::resource_exhausted;
      reply.text = what_became_of(gate) + text;
      parts.commands.push_back(ReplyToTool{gate.link, std::move(reply)});
    }
  };
};

}  // namespace

HeadCore::HeadCore(HeadOptions options)
    : parts_(std::make_unique<HeadTables>(std::move(options))) {}
HeadCore::~HeadCore() = default;
HeadCore::HeadCore(HeadCore&&) noexcept = default;
HeadCore& HeadCore::operator=(HeadCore&&) noexcept = default;

void HeadCore::step(Time now, Event event, std::vector<Command>& out) {
  HeadTables& parts = *parts_;
  parts.now = std::max(parts.now, now);
  const bool answers_alone = tells_nothing(event);
  const std::uint64_t noted = parts.events.noted();
  std::visit(Dispatch{parts}, event);
  if (!answers_alone || parts.events.noted() != noted) ++parts.changes;
  parts.jobs.settle();
  parts.actors.settle();
  parts.slots.plan();
  parts.polls.settle();
  if (parts.journal.has_changes()) parts.events.write();
  if (auto batch = parts.journal.seal(parts.now)) parts.commands.push_back(std::move(*batch));
  constexpr std::size_t many = 16;
  if (out.empty() && parts.commands.size() > many) {
    out.swap(parts.commands);
  } else {
    out.insert(out.end(), std::make_move_iterator(parts.commands.begin()),
               std::make_move_iterator(parts.commands.end()));
  }
  parts.commands.clear();
}

std::optional<Time> HeadCore::next_deadline() const {
  HeadTables& parts = *parts_;
  auto due = earlier(parts.epoch_due, parts.journal.next_deadline());
  due = earlier(due, parts.nodes.next_deadline());
  due = earlier(due, parts.slots.next_deadline());
  due = earlier(due, parts.links.next_deadline());
  due = earlier(due, parts.actors.next_deadline());
  due = earlier(due, parts.groups.next_deadline());
  due = earlier(due, parts.processes.next_deadline());
  due = earlier(due, parts.objects.next_deadline());
  due = earlier(due, parts.tasks.next_deadline());
  due = earlier(due, parts.transfers.next_deadline());
  due = earlier(due, parts.spans.next_deadline());
  due = earlier(due, parts.job_logs.next_deadline());
  due = earlier(due, parts.tokens.next_deadline());
  due = earlier(due, parts.node_questions.next_deadline());
  due = earlier(due, parts.samples.next_deadline());
  due = earlier(due, parts.history.next_deadline());
  due = earlier(due, parts.polls.next_deadline());
  return parts.serving ? earlier(due, parts.scheduler.next_deadline()) : due;
}

std::uint64_t HeadCore::epoch() const { return parts_->epoch; }

RejectedCounts HeadCore::rejected() const {
  return {parts_->refusals.count(), parts_->class_use.rejected_rows()};
}

bool HeadCore::recovering() const { return parts_->nodes.recovering(); }

Result<Principal> HeadCore::principal_of(const std::string& public_key, Time now) const {
  return parts_->tokens.principal_of(public_key, head::wall_ms(*parts_, now));
}

std::int64_t HeadCore::wall_ms(Time now) const { return head::wall_ms(*parts_, now); }

HeadView HeadCore::view() const {
  const HeadTables& parts = *parts_;
  HeadView view{parts.epoch, parts.serving, parts.nodes.recovering(), {}, {}, {}, {}, 0};
  for (const auto& [id, node] : parts.nodes.rows()) {
    const bool draining = node.draining && node.state == NodeState::alive;
    view.nodes.push_back({id, node.address.incarnation, draining ? NodeState::draining : node.state,
                          node.role, node.shape});
  }
  for (const auto& [id, slot] : parts.slots.rows()) {
    const auto* booked = parts.scheduler.find_slot(id);
    view.slots.push_back({id, slot.node, slot.job, slot.class_id, slot.lessee, slot.actor,
                          booked == nullptr ? Allocation() : booked->allocation, slot.generation,
                          slot.ready, slot.lent, slot.stopping});
  }
  for (const auto& [id, job] : parts.jobs.rows()) {
    view.jobs.push_back({id, job.start.driver, job.durable, job.end != JobEnd::runs});
  }
  for (const auto& [id, actor] : parts.actors.rows()) {
    view.actors.push_back({id, actor.spec().job, actor.state, actor.row.incarnation,
                           actor.row.restarts_used, actor.slot, actor.node, actor.spec().name,
                           actor.name_space, actor.spec().detached, actor.cause});
  }
  for (const auto& [id, group] : parts.groups.rows()) {
    view.groups += group.state != GroupState::removed ? 1 : 0;
  }
  return view;
}

std::uint64_t HeadCore::rows_walked() const {
  return parts_->actors.rows().walked() + parts_->groups.rows().walked() +
         parts_->jobs.rows().walked() + parts_->processes.rows().walked() +
         parts_->nodes.rows().walked() + parts_->slots.rows().walked() +
         parts_->slots.demands_walked() + parts_->scheduler.demands_walked();
}

bool HeadCore::needs_files(const std::string& name) const {
  return parts_->submissions.needs_files(name);
}

Result<void> HeadCore::verify() const {
  if (auto difference = parts_->scheduler.verify_books(); !difference.empty()) {
    return failure(ErrorCode::corrupt, "the scheduler's books: " + difference);
  }
  for (const auto& [id, slot] : parts_->slots.rows()) {
    if (!slot.departed && parts_->scheduler.find_slot(id) == nullptr) {
      return failure(ErrorCode::corrupt, "slot " + id.hex() + " is out but not booked");
    }
  }
  return {};
}

}  // namespace mobula::internal::head
