#include "head/core/query/transfer_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/view/transfer_json.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_silent_process("head.transfer_reply_without_a_process");

constexpr std::size_t max_text_bytes = 4096;

// Filters the facts again, because processes of older releases apply only the filters that they
// know.
bool matches(const TransfersRequest& query, const TransferFact& fact) {
  if (!query.object.empty() && fact.object != query.object) return false;
  if (fact.state == TransferState::ended) return !(query.failed_only && query.arrived_only);
  return std::ranges::find(query.under_way, fact.state) != query.under_way.end();
}

// Limits the size of one fact, so that a forged reply takes little more space than a valid one.
TransferFact bounded(TransferFact fact) {
  fact.refusals.resize(std::min(fact.refusals.size(), TransferFact::max_refusals));
  fact.sources.resize(std::min(fact.sources.size(), TransferFact::max_sources));
  const auto cut = [](std::string& text) { text.resize(std::min(text.size(), max_text_bytes)); };
  std::ranges::for_each(fact.refusals, cut);
  cut(fact.group);
  cut(fact.operation);
  fact.ago = std::max(fact.ago, Duration(0));
  return fact;
}

}  // namespace

Result<void> TransferQuery::start(QuerySource source, const std::string& text) {
  if (queries_.is_full()) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("{} queries about transfers are open; retry in a moment", queries_.size()));
  }
  auto filters = transfer_filters(text);
  if (!filters) return filters.error();
  TransfersRequest& query = filters->query;
  query.request = queries_.next_number();
  Question question;
  auto& limit = question.answers.limit;
  limit = tables_.options.max_listed;
  if (filters->limit > 0) limit = std::min(limit, filters->limit);
  query.limit = std::min(tables_.options.max_tasks_per_owner, limit);
  question.source = source;
  query.job = filters->job;
  question.query = query;
  QueryTargets receivers = processes_to_query(tables_, {.job = filters->job, .node = filters->node},
                                              question.answers.warnings);
  add_agents(tables_, receivers, question.answers.warnings, filters->node);
  auto finished = queries_.add(query.request, std::move(question), std::move(receivers),
                               tables_.now + tables_.options.list_timeout,
                               [&](ProcessId each) { send_to(tables_, each, query); });
  if (finished) settle(std::move(*finished));
  return {};
}

void TransferQuery::on(ProcessId sender, NodeId node, const TransfersReply& message) {
  Question* question = queries_.accept_reply(message.request, sender);
  if (question == nullptr) return;
  TransferAnswers& answers = question->answers;
  if (!question->query.under_way.empty() && !message.knows_under_way) ++question->older;
  const Process* row = tables_.processes.find(sender);
  answers.left_out += message.left_out;
  std::uint64_t taken = 0;
  for (const auto& fact : message.transfers) {
    if (!matches(question->query, fact)) continue;
    if (taken++ < question->query.limit) {
      answers.items.push_back(
          {sender, node, row == nullptr ? fact.job : row->principal.job, bounded(fact)});
    } else {
      ++answers.left_out;
    }
  }
  if (answers.items.size() > 2 * answers.limit) retain_latest(answers);
  auto finished = queries_.finish_if_complete(message.request);
  if (finished) settle(std::move(*finished));
}

// Keeps the latest transfers of all processes together. Running ones come first, then pending ones.
void TransferQuery::retain_latest(TransferAnswers& answers) const {
  const auto position = [](const TransferItem& each) {
    const int rank = each.fact.state == TransferState::running   ? 0
                     : each.fact.state == TransferState::pending ? 1
                                                                 : 2;
    return std::pair(rank, each.fact.ago);
  };
  std::ranges::stable_sort(answers.items, {}, position);
  if (answers.items.size() <= answers.limit) return;
  answers.left_out += answers.items.size() - answers.limit;
  answers.items.resize(answers.limit);
}

void TransferQuery::process_ended(ProcessId process) {
  for (auto& finished : queries_.remove_target(process)) settle(std::move(finished));
}

void TransferQuery::tick() {
  for (auto& late : queries_.expire(tables_.now)) {
    mark_silent_process.hit();
    settle(std::move(late));
  }
}

std::optional<Time> TransferQuery::next_deadline() const { return queries_.next_deadline(); }

void TransferQuery::settle(Queries::Finished&& finished) {
  Question& question = finished.query;
  warn_of_silent(tables_, finished.silent, "its list of transfers", question.answers.warnings);
  retain_latest(question.answers);
  if (question.older > 0) {
    question.answers.warnings.push_back(
        fmt::format("{} of the queried processes run an older Mobula, which does not report "
                    "transfers in progress",
                    question.older));
  }
  answer(tables_, question.source, transfers_json(tables_, question.answers));
}

}  // namespace mobula::internal::head
