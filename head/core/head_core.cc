#include "head/core/head_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/message_dispatch.h"
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
    return is_reply(said) || std::holds_alternative<ReadState>(said) ||
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
bool changes_no_document(const Event& event) {
  if (std::holds_alternative<Tick>(event)) return true;
  if (const auto* received = std::get_if<ReceivedFromTool>(&event)) {
    const VerbRow* row = verb_row(received->request.verb);
    return row == nullptr || !row->changes;
  }
  const auto* said = std::get_if<ReceivedFromAgent>(&event);
  const auto* frame = said == nullptr ? nullptr : std::get_if<AgentFrame>(&said->message);
  return frame != nullptr && (!frame->frame.message || is_answer(*frame->frame.message));
}

// Dispatches one input to the tables.
struct Dispatch {
  HeadTables& tables;

  void operator()(const Started& event) const {
    tables.epoch_id = event.epoch_id;
    tables.started_at = tables.now;
    tables.wall_at_start_ms = event.wall_ms;
    restore_rows<EpochRow>(event, "meta", [&](const EpochRow& row) { tables.epoch = row.epoch; });
    restore_rows<NodeRow>(event, "nodes", [&](const NodeRow& row) { tables.nodes.restore(row); });
    restore_rows<JobRow>(event, "jobs", [&](const JobRow& row) { tables.jobs.restore(row); });
    restore_rows<ActorRow>(event, "actors",
                           [&](const ActorRow& row) { tables.actors.restore(row); });
    restore_rows<GroupRow>(event, "groups",
                           [&](const GroupRow& row) { tables.groups.restore(row); });
    restore_rows<SubmissionRow>(event, "submissions",
                                [&](const SubmissionRow& row) { tables.submissions.restore(row); });
    restore_rows<EventRow>(event, "events",
                           [&](const EventRow& row) { tables.events.restore(row); });
    restore_rows<TokenRow>(event, "tokens",
                           [&](const TokenRow& row) { tables.tokens.restore(row); });
    ++tables.epoch;
    tables.events.begin();
    if (!tables.options.http_url.empty()) tables.history.begin();
    write_epoch();
  }
  void operator()(ReceivedFromAgent& event) const { tables.nodes.on(std::move(event)); }
  void operator()(const AgentLinkLost& event) const { tables.nodes.link_lost(event.link); }
  void operator()(const NodeProbed& event) const { tables.nodes.probed(event); }
  void operator()(const ReceivedFromTool& event) const { tables.reader.on(event); }
  void operator()(const Persisted& event) const {
    for (const auto& gate : tables.journal.persisted(event.upto)) std::visit(Passed{tables}, gate);
  }
  void operator()(const PersistFailed& event) const {
    mark_persist_failed.hit();
    tables.events.note(Severity::error, "JOURNAL_WRITE_FAILED", {}, event.text);
    for (const auto& gate : tables.journal.failed(tables.now, event)) {
      std::visit(Refusal{tables, *this, event.text}, gate);
    }
  }
  void operator()(const Paused& event) const { tables.nodes.shift(event.gap); }
  void operator()(const Tick&) const {
    if (tables.epoch_due && *tables.epoch_due <= tables.now) write_epoch();
    tables.nodes.tick();
    tables.slots.tick();
    tables.links.tick();
    tables.actors.tick();
    tables.groups.tick();
    tables.processes.tick();
    tables.objects.tick();
    tables.tasks.tick();
    tables.transfers.tick();
    tables.spans.tick();
    tables.job_logs.tick();
    tables.tokens.tick();
    tables.node_questions.tick();
    tables.history.tick();
    tables.samples.tick();
    tables.polls.tick();
  }

  void operator()(const ClockMoved& event) const {
    mark_clock_moved.hit();
    const std::int64_t moved_ms = event.wall_ms - wall_ms(tables, tables.now);
    tables.wall_at_start_ms =
        event.wall_ms - (tables.now - tables.started_at) / std::chrono::milliseconds(1);
    tables.tokens.tick();  // a token may have expired
    if (std::abs(moved_ms) > clock_jump_ms) tables.nodes.renew_tickets();
  }

  void operator()(const Noticed& event) const {
    const Principal who{Role::unproven, event.principal, {}};
    const Speaker speaker(tables, who);
    tables.events.note(Severity::warning, event.kind, {}, event.text);
  }

  void write_epoch() const {
    tables.epoch_due.reset();
    tables.journal.put("meta", "epoch",
                       encode(EpochRow{std::max(tables.epoch, tables.raised_epoch)}));
    tables.journal.wait(EpochGate{});
  }

  struct Passed {
    HeadTables& tables;
    void operator()(const EpochGate&) const {
      if (tables.serving) return tables.nodes.take_raised_epoch();
      tables.serving = true;
      tables.nodes.serve();
    }
    void operator()(const JobGate& gate) const { tables.jobs.durable(gate.job); }
    void operator()(const ActorGate& gate) const { tables.actors.durable(gate.actor); }
    void operator()(const OrderGate& gate) const { tables.slots.order_durable(gate.slot); }
    void operator()(const GroupGate& gate) const { tables.groups.durable(gate.group, gate.placed); }
    void operator()(const ReplyGate& gate) const {
      tables.commands.push_back(ReplyToTool{gate.link, gate.reply});
    }
  };

  struct Refusal {
    HeadTables& tables;
    const Dispatch& dispatch;
    const std::string& text;
    // Undoes the effect of the request, so that no client uses state that a restart of the head
    // would lose.
    std::string what_became_of(const ReplyGate& gate) const {
      if (gate.verb == "submit")
        return "submit: the job cannot be made durable, and so does not run: ";
      if (gate.token.empty())
        return fmt::format("{}: it was done, but cannot be made durable yet: ", gate.verb);
      tables.tokens.undo(gate.token);
      return "token create: the token cannot be made durable, and so was not made: ";
    }
    void operator()(const EpochGate&) const {
      tables.epoch_due = tables.now + tables.options.persist_again;
    }
    void operator()(const JobGate& gate) const { tables.jobs.not_durable(gate.job, text); }
    void operator()(const ActorGate& gate) const { tables.actors.not_durable(gate.actor, text); }
    void operator()(const OrderGate& gate) const {
      tables.slots.order_not_durable(gate.slot, text);
    }
    void operator()(const GroupGate& gate) const {
      tables.groups.not_durable(gate.group, gate.placed, text);
    }
    void operator()(const ReplyGate& gate) const {
      ToolReply reply;
      reply.request = gate.reply.request;
      reply.ok = false;
      reply.code = ErrorCode::resource_exhausted;
      reply.text = what_became_of(gate) + text;
      tables.commands.push_back(ReplyToTool{gate.link, std::move(reply)});
    }
  };
};

}  // namespace

HeadCore::HeadCore(HeadOptions options)
    : tables_(std::make_unique<HeadTables>(std::move(options))) {}
HeadCore::~HeadCore() = default;
HeadCore::HeadCore(HeadCore&&) noexcept = default;
HeadCore& HeadCore::operator=(HeadCore&&) noexcept = default;

void HeadCore::step(Time now, Event event, std::vector<Command>& out) {
  HeadTables& tables = *tables_;
  tables.now = std::max(tables.now, now);
  const bool answers_alone = changes_no_document(event);
  const std::uint64_t noted = tables.events.noted();
  std::visit(Dispatch{tables}, event);
  if (!answers_alone || tables.events.noted() != noted) ++tables.changes;
  tables.jobs.settle();
  tables.actors.settle();
  tables.slots.plan();
  tables.polls.settle();
  if (tables.journal.has_changes()) tables.events.write();
  if (auto batch = tables.journal.seal(tables.now)) tables.commands.push_back(std::move(*batch));
  constexpr std::size_t many = 16;
  if (out.empty() && tables.commands.size() > many) {
    out.swap(tables.commands);
  } else {
    out.insert(out.end(), std::make_move_iterator(tables.commands.begin()),
               std::make_move_iterator(tables.commands.end()));
  }
  tables.commands.clear();
}

std::optional<Time> HeadCore::next_deadline() const {
  HeadTables& tables = *tables_;
  auto due = earlier(tables.epoch_due, tables.journal.next_deadline());
  due = earlier(due, tables.nodes.next_deadline());
  due = earlier(due, tables.slots.next_deadline());
  due = earlier(due, tables.links.next_deadline());
  due = earlier(due, tables.actors.next_deadline());
  due = earlier(due, tables.groups.next_deadline());
  due = earlier(due, tables.processes.next_deadline());
  due = earlier(due, tables.objects.next_deadline());
  due = earlier(due, tables.tasks.next_deadline());
  due = earlier(due, tables.transfers.next_deadline());
  due = earlier(due, tables.spans.next_deadline());
  due = earlier(due, tables.job_logs.next_deadline());
  due = earlier(due, tables.tokens.next_deadline());
  due = earlier(due, tables.node_questions.next_deadline());
  due = earlier(due, tables.samples.next_deadline());
  due = earlier(due, tables.history.next_deadline());
  due = earlier(due, tables.polls.next_deadline());
  return tables.serving ? earlier(due, tables.scheduler.next_deadline()) : due;
}

std::uint64_t HeadCore::epoch() const { return tables_->epoch; }

RejectedCounts HeadCore::rejected() const {
  return {tables_->refusals.count(), tables_->class_use.rejected_rows()};
}

bool HeadCore::recovering() const { return tables_->nodes.recovering(); }

Result<Principal> HeadCore::principal_of(const std::string& public_key, Time now) const {
  return tables_->tokens.principal_of(public_key, head::wall_ms(*tables_, now));
}

std::int64_t HeadCore::wall_ms(Time now) const { return head::wall_ms(*tables_, now); }

HeadView HeadCore::view() const {
  const HeadTables& tables = *tables_;
  HeadView view{tables.epoch, tables.serving, tables.nodes.recovering(), {}, {}, {}, {}, 0};
  for (const auto& [id, node] : tables.nodes.rows()) {
    const bool draining = node.draining && node.state == NodeState::alive;
    view.nodes.push_back({id, node.address.incarnation, draining ? NodeState::draining : node.state,
                          node.role, node.shape});
  }
  for (const auto& [id, slot] : tables.slots.rows()) {
    const auto* booked = tables.scheduler.find_slot(id);
    view.slots.push_back({id, slot.node, slot.job, slot.class_id, slot.lessee, slot.actor,
                          booked == nullptr ? Allocation() : booked->allocation, slot.generation,
                          slot.ready, slot.lent, slot.stopping});
  }
  for (const auto& [id, job] : tables.jobs.rows()) {
    view.jobs.push_back({id, job.start.driver, job.durable, job.end != JobEnd::runs});
  }
  for (const auto& [id, actor] : tables.actors.rows()) {
    view.actors.push_back({id, actor.spec().job, actor.state, actor.row.incarnation,
                           actor.row.restarts_used, actor.slot, actor.node, actor.spec().name,
                           actor.name_space, actor.spec().detached, actor.cause});
  }
  for (const auto& [id, group] : tables.groups.rows()) {
    view.groups += group.state != GroupState::removed ? 1 : 0;
  }
  return view;
}

std::uint64_t HeadCore::rows_walked() const {
  return tables_->actors.rows().walked() + tables_->groups.rows().walked() +
         tables_->jobs.rows().walked() + tables_->processes.rows().walked() +
         tables_->nodes.rows().walked() + tables_->slots.rows().walked() +
         tables_->slots.demands_walked() + tables_->scheduler.demands_walked();
}

bool HeadCore::needs_files(const std::string& name) const {
  return tables_->submissions.needs_files(name);
}

Result<void> HeadCore::verify() const {
  if (auto difference = tables_->scheduler.verify_books(); !difference.empty()) {
    return failure(ErrorCode::corrupt, "the scheduler's books: " + difference);
  }
  for (const auto& [id, slot] : tables_->slots.rows()) {
    if (!slot.departed && tables_->scheduler.find_slot(id) == nullptr) {
      return failure(ErrorCode::corrupt, "slot " + id.hex() + " is out but not booked");
    }
  }
  return {};
}

}  // namespace mobula::internal::head
